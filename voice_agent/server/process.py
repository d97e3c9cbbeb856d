"""One watched process: started, waited for, restarted when it dies, ended with its parent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

logger = logging.getLogger(__name__)

_CHILD = Path(__file__).with_name("child.py")
_TERMINATE_WITHIN_S = 3.0
_STABLE_AFTER_S = 30.0
_POLL_S = 0.1


class StartError(RuntimeError):
    """A process did not come up; the message is for the user."""


@dataclass(frozen=True)
class ProcessSpec:
    """How to run a process.

    Attributes:
        name: For messages.
        command: Program and arguments.
        ready: Returns normally once the process answers and is warm; raises while it doesn't.
        environment: Added to ours.
        nice: Added to our nice level: the higher, the less urgent.
        start_timeout_s: Longest time to get ready (s).
        backoff_s: Waits before successive restarts (s); the last one repeats.
    """

    name: str
    command: Sequence[str]
    ready: Callable[[], Awaitable[None]]
    environment: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
    start_timeout_s: float = 180.0
    backoff_s: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0)


class WatchedProcess:
    """Runs a :class:`ProcessSpec` until :meth:`stop`.

    Args:
        spec: What to run.
        on_output: Called with each line it prints.
        on_change: Called with True when it is ready, False when it died.
    """

    def __init__(
        self, spec: ProcessSpec, on_output: Callable[[str], None], on_change: Callable[[bool], None] = lambda up: None
    ) -> None:
        self.spec = spec
        self._on_output = on_output
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._last_lines: deque[str] = deque(maxlen=30)
        self.restarts = 0
        self.is_ready = False

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process is not None else None

    async def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            StartError: it ended, or wasn't ready in time. It does not run then.
        """
        try:
            await self._spawn()
            await self._wait_until_ready()
        except BaseException:
            await self._end()
            raise
        self._watcher = asyncio.create_task(self._watch(), name=f"watch-{self.spec.name}")

    async def stop(self) -> None:
        """End it: asked politely first. Safe to call twice."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await self._end()

    async def _spawn(self) -> None:
        self._last_lines.clear()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-S", "-E", str(_CHILD), str(os.getpid()), str(self.spec.nice), *self.spec.command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **self.spec.environment},
                process_group=0,  # Ctrl-C at the terminal is our business
            )
        except OSError as error:
            raise StartError(f"{self.spec.name} can't be started: {error}") from error
        self._reader = asyncio.create_task(self._read(self._process), name=f"output-{self.spec.name}")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than the buffer: not worth keeping
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            self._last_lines.append(text)
            self._on_output(text)

    async def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self.spec.start_timeout_s
        while True:
            if self._process.returncode is not None:
                if self._reader is not None:
                    await self._reader
                raise StartError(self._why_it_ended())
            try:
                await self.spec.ready()
            except Exception as error:
                if time.monotonic() > deadline:
                    raise StartError(
                        f"{self.spec.name} was not ready within {self.spec.start_timeout_s:.0f} s (last: {error})"
                    ) from error
            else:
                self.is_ready = True
                self._on_change(True)
                return
            await asyncio.sleep(_POLL_S)

    def _why_it_ended(self) -> str:
        assert self._process is not None
        code = self._process.returncode or 0
        if code < 0:
            return f"{self.spec.name} was ended by {signal.Signals(-code).name}"
        errors = [line for line in self._last_lines if "error" in line.lower()]
        said = (errors or [line for line in self._last_lines if line.strip()])[-1:]
        return f"{self.spec.name} ended with exit status {code}" + (f": {said[0].strip()}" if said else "")

    async def _watch(self) -> None:
        """Restart it whenever it ends."""
        failures = 0
        while True:
            assert self._process is not None
            started = time.monotonic()
            await self._process.wait()
            self.is_ready = False
            self._on_change(False)
            logger.warning("%s; it is restarted", self._why_it_ended())
            failures = 0 if time.monotonic() - started > _STABLE_AFTER_S else failures
            while True:
                await asyncio.sleep(self.spec.backoff_s[min(failures, len(self.spec.backoff_s) - 1)])
                failures += 1
                self.restarts += 1
                try:
                    await self._spawn()
                    await self._wait_until_ready()
                    break
                except StartError as error:
                    logger.error("%s", error)
                    await self._end()

    async def _end(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _TERMINATE_WITHIN_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)
        self.is_ready = False
