"""`voice-agent serve`: start speech and engine, warm everything up, take calls, end without a trace."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import signal
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import uvicorn
from livekit.agents import APIError

from voice_agent.agents.front_desk import facts, persona
from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.store import BookingStore
from voice_agent.config import Settings
from voice_agent.dialogue.phrases import FIXED, Phrases
from voice_agent.dialogue.trouble import Process
from voice_agent.llm import LLM, Endpoint, Timeouts
from voice_agent.server import heap
from voice_agent.server.app import create_app
from voice_agent.server.endpoint_check import check_model, served_models
from voice_agent.server.process import StartError, WatchedProcess
from voice_agent.server.processes import EngineAddress, engine_spec, free_port, speech_spec
from voice_agent.server.registry import CallRegistry
from voice_agent.services import Services
from voice_agent.speech.client import SpeechClient
from voice_agent.stt.plugin import STT
from voice_agent.telemetry.loop_lag import watch_loop_lag
from voice_agent.telemetry.metrics import Metrics
from voice_agent.telemetry.store import RecordStore
from voice_agent.tts.plugin import TTS

logger = logging.getLogger(__name__)

PAGE_FOLDERS = (Path(__file__).with_name("static"), Path(__file__).parents[2] / "web" / "dist")
"""Where the page is: as package data, or in a checkout as built."""


class Server:
    """Everything `voice-agent serve` runs. Use :func:`serve`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.processes: dict[str, WatchedProcess] = {}
        self.registry: CallRegistry | None = None
        self.stop = asyncio.Event()

    def end(self, running: asyncio.Task[None]) -> None:
        """End politely: calls are told first. Asked again, or before calls are taken, at once."""
        if self.stop.is_set() or self.registry is None:
            running.cancel()
        self.stop.set()

    async def run(self, listener: socket.socket) -> None:
        """Run until :meth:`end`.

        Raises:
            StartError: something did not come up; nothing is left running.
        """
        async with AsyncExitStack() as stack:
            restaurant = facts.load()
            bookings = _open_bookings(self.settings.database, restaurant)
            stack.callback(bookings.close)
            store = _open_records(self.settings.record_dir)
            stack.push_async_callback(store.aclose)
            speech, endpoint = await self._start_processes(stack)
            model = LLM(endpoint)
            stack.push_async_callback(model.aclose)
            info = self._info(endpoint, restaurant)
            services = Services(
                model=model,
                recognizer=lambda: STT(speech, own_vad=False),
                voice=lambda: TTS(speech),
                phrases=Phrases(),
                conversation=lambda: self._conversation(restaurant, bookings),
                store=store,
                metrics=self.metrics,
                info=info,
                max_call_s=self.settings.max_call_s,
            )
            await self._warm_up(services, restaurant)
            registry = CallRegistry(services, max_calls=self.settings.max_calls, ice_servers=self.settings.ice_servers)
            self.registry = registry
            lag = asyncio.create_task(watch_loop_lag(self.metrics.loop_lag.observe), name="loop-lag")
            stack.callback(lag.cancel)
            stack.push_async_callback(registry.aclose)
            await self._take_calls(listener, registry, store, info)

    async def _start_processes(self, stack: AsyncExitStack) -> tuple[SpeechClient, Endpoint]:
        """Start both at once; when one fails, the other is ended at once, too."""
        speech = asyncio.create_task(self._start_speech(stack), name="start-speech")
        engine = asyncio.create_task(self._start_engine(stack), name="start-engine")
        try:
            await asyncio.gather(speech, engine)
        except BaseException:
            speech.cancel()
            engine.cancel()
            await asyncio.gather(speech, engine, return_exceptions=True)
            raise
        return speech.result(), engine.result()

    async def _start_speech(self, stack: AsyncExitStack) -> SpeechClient:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="voice-agent-"))
        client = SpeechClient(Path(folder) / "speech.sock")
        stack.push_async_callback(client.close)
        process = WatchedProcess(speech_spec(client), _relay("speech"), self._on_speech)
        self.processes["speech"] = process
        stack.push_async_callback(process.stop)
        tell("starting speech (recogniser and voice) ...")
        await process.start()
        return client

    async def _start_engine(self, stack: AsyncExitStack) -> Endpoint:
        settings = self.settings
        timeouts = Timeouts(first_token_s=settings.llm_first_token_s)
        if settings.llm_url is not None and settings.llm_model is not None:
            key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else ""
            timeouts = Timeouts(connect_s=1.0, first_token_s=settings.llm_first_token_s)
            endpoint = Endpoint(settings.llm_url.rstrip("/"), settings.llm_model, key, timeouts=timeouts)
            await check_model(endpoint)
            return endpoint
        address = EngineAddress("127.0.0.1", free_port())
        process = WatchedProcess(
            engine_spec(address, settings.model, settings.dtype), _relay("engine"), self._on_engine
        )
        self.processes["engine"] = process
        stack.push_async_callback(process.stop)
        tell(f"starting the engine with {settings.model or 'the embedded model'} ...")
        await process.start()
        (name, *_) = await served_models(address.base_url, proxies=False)
        return Endpoint(address.base_url, name, extensions=True, timeouts=timeouts)

    def _on_speech(self, up: bool) -> None:
        self._on_process("speech", up)

    def _on_engine(self, up: bool) -> None:
        self._on_process("engine", up)

    def _on_process(self, name: Process, up: bool) -> None:
        if up and self.processes[name].restarts:
            self.metrics.restarts.labels(name).inc()
        if self.registry is not None:
            self.registry.each(lambda call: call.process_changed(name, up))

    def _conversation(self, restaurant: Restaurant, bookings: BookingStore) -> Conversation:
        today = self.settings.today

        def clock() -> dt.datetime:
            now = dt.datetime.now(restaurant.zone)
            return now if today is None else dt.datetime.combine(today, now.timetz())

        own = self.settings.llm_url is None and self.settings.model is None
        prompt = persona.system_prompt if own else persona.detailed_system_prompt
        return Conversation(restaurant, bookings, clock, prompt=prompt)

    def _info(self, endpoint: Endpoint, restaurant: Restaurant) -> dict[str, str]:
        own = endpoint.extensions
        return {
            "model": endpoint.model,
            "engine": "diffusion-engine" if own else endpoint.base_url,
            "llm": endpoint.model if own else f"{endpoint.model} at {endpoint.base_url}",
            "agent": f"front desk of {restaurant.name}",
            "version": _version(),
        }

    async def _warm_up(self, services: Services, restaurant: Restaurant) -> None:
        tell("warming up ...")
        try:
            await services.phrases.prepare(services.voice(), [restaurant.greeting, *FIXED])
        except APIError as error:
            raise StartError(f"the voice can't speak: {error}") from error
        if services.model.endpoint.extensions:
            turn = services.conversation().turn()
            await services.model.warm(turn.messages, turn.tools)

    async def _take_calls(
        self, listener: socket.socket, registry: CallRegistry, store: RecordStore, info: dict[str, str]
    ) -> None:
        token = self.settings.token.get_secret_value() if self.settings.token else None
        page = next((folder for folder in PAGE_FOLDERS if (folder / "index.html").is_file()), None)
        app = create_app(registry, store, self.metrics, info, self._health, token=token, page=page)
        http = _Uvicorn(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=2))
        heap.settle()
        task = asyncio.create_task(http.serve(sockets=[listener]), name="http")
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        tell(f"ready: http://{shown}:{port}/  (model: {info['llm']}; Ctrl-C ends)")
        stopping = asyncio.create_task(self.stop.wait(), name="stop")
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        tell("hanging up ...")
        await registry.aclose()
        http.should_exit = True
        await task

    def _health(self) -> dict[str, bool]:
        return {name: process.is_ready for name, process in self.processes.items()}


class _Uvicorn(uvicorn.Server):
    """Signals are ours: calls are ended first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


async def serve(settings: Settings, listener: socket.socket) -> int:
    """Run the server on ``listener`` until SIGINT or SIGTERM; returns the exit status."""
    _put_calls_first()
    server = Server(settings)
    running = asyncio.create_task(server.run(listener), name="server")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.end, running)
    try:
        await running
    except (StartError, facts.FactsError) as error:
        tell_error(str(error))
        return 1
    except asyncio.CancelledError:
        if not server.stop.is_set():
            raise
        return 130
    return 0


def tell(text: str) -> None:
    """Print a line of progress."""
    print(text, flush=True)


def tell_error(text: str) -> None:
    """Print an error for the user."""
    print(f"error: {text}", file=sys.stderr, flush=True)


def _put_calls_first() -> None:
    """Ask for a better priority than the machine's other work, where we may: a late packet is heard."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0), -2))


def _relay(name: str) -> Callable[[str], None]:
    """Pass a process's lines on."""
    return lambda line: tell(f"  [{name}] {line}") if line.strip() else None


def _open_bookings(path: Path, restaurant: Restaurant) -> BookingStore:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return BookingStore(path, restaurant)
    except (OSError, sqlite3.Error) as error:
        raise StartError(
            f"the bookings {path} can't be opened ({error}): choose another file with --database"
        ) from error


def _open_records(folder: Path) -> RecordStore:
    try:
        return RecordStore(folder / "calls.sqlite")
    except (OSError, sqlite3.Error) as error:
        raise StartError(f"the records in {folder} can't be opened ({error}): choose --record-dir") from error


def _version() -> str:
    try:
        return version("voice-agent")
    except PackageNotFoundError:
        return "0.0.0"
