"""The engine as its users see it: submit, listen, cancel. It runs the scheduler in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from diffusion_engine.decoding import ConstraintError
from diffusion_engine.runtime.limits import Limits
from diffusion_engine.runtime.request import EndEvent, Event, GenerationRequest
from diffusion_engine.runtime.scheduler import Scheduler
from diffusion_engine.runtime.statistics import EndCause, EngineStatistics

logger = logging.getLogger(__name__)

Listener = Callable[[list[Event]], None]
"""Called in the engine's thread with a request's events of one step; must return at once."""


class OverloadedError(Exception):
    """As many requests run and wait as may; try again later."""


class DrainingError(Exception):
    """The engine finishes what it has and takes nothing new."""


@dataclass(frozen=True)
class Load:
    """What the engine is doing now."""

    running: int
    waiting: int
    pages_total: int
    pages_free: int
    pages_prefix_cache: int


@dataclass(frozen=True)
class _Submit:
    request: GenerationRequest
    listener: Listener


@dataclass(frozen=True)
class _Cancel:
    request_id: str
    cause: EndCause
    steps_begun: int


class Engine:
    """See the module. All methods may be called from any thread."""

    def __init__(self, scheduler: Scheduler, limits: Limits) -> None:
        """Wrap a scheduler, which must not be used by anybody else from now on."""
        self.config = scheduler.config
        self._scheduler = scheduler
        self._capacity = limits.max_requests + limits.max_waiting
        self._listeners: dict[str, Listener] = {}
        self._commands: deque[_Submit | _Cancel] = deque()
        self._wake = threading.Condition()
        self._steps_begun = 0
        self._draining = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """The thread runs."""
        return self._thread.is_alive()

    @property
    def draining(self) -> bool:
        """New requests are refused."""
        return self._draining

    @property
    def idle(self) -> bool:
        """No request is in the engine."""
        return not self._listeners

    @property
    def statistics(self) -> EngineStatistics:
        """Totals since the start, being counted."""
        return self._scheduler.statistics

    @property
    def load(self) -> Load:
        """What the engine is doing now."""
        cache = self._scheduler.cache
        active = len(self._listeners)
        running = self._scheduler.running
        return Load(running, max(0, active - running), cache.pool.total, cache.pool.free, cache.prefix.pages)

    def submit(self, request: GenerationRequest, listener: Listener) -> None:
        """Queue a request.

        Args:
            request: its id must not be in the engine.
            listener: gets every event; the last one is an `EndEvent`.

        Raises:
            OverloadedError: too many requests are in the engine.
            DrainingError: the engine is about to stop.
            ValueError: the id is in use.
        """
        with self._wake:
            if self._draining:
                raise DrainingError
            if request.id in self._listeners:
                raise ValueError(f"request id {request.id!r} is in use")
            if len(self._listeners) >= self._capacity:
                raise OverloadedError
            self._listeners[request.id] = listener
            self._commands.append(_Submit(request, listener))
            self._wake.notify()

    def cancel(self, request_id: str, cause: EndCause = EndCause.CANCELLED) -> bool:
        """End a request before the next step. False when it is not in the engine (any more)."""
        with self._wake:
            if request_id not in self._listeners:
                return False
            self._commands.append(_Cancel(request_id, cause, self._steps_begun))
            self._wake.notify()
            return True

    def drain(self) -> None:
        """Refuse new requests from now on; those in the engine go on."""
        with self._wake:
            self._draining = True

    def end_all(self) -> None:
        """End every request that is in the engine, as at its stop."""
        for request_id in list(self._listeners):
            self.cancel(request_id, EndCause.SHUTDOWN)

    def stop(self) -> None:
        """End every request and the thread."""
        with self._wake:
            self._draining = self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._commands and self._scheduler.idle and not self._stopping:
                    self._wake.wait()
                commands, self._commands = self._commands, deque()
                stopping = self._stopping
                for command in commands:
                    self._carry_out(command)
                if not stopping:
                    self._steps_begun += 1
            if stopping:
                self._scheduler.cancel_all(EndCause.SHUTDOWN)
                self._deliver(self._scheduler.take_events())
                return
            try:
                events = self._scheduler.step()
            except Exception:  # whatever it was, callers must hear of it and the next request must be served
                logger.exception("a step failed; its requests are ended")
                self._scheduler.cancel_all(EndCause.ERROR)
                events = self._scheduler.take_events()
            self._deliver(events)

    def _carry_out(self, command: _Submit | _Cancel) -> None:
        if isinstance(command, _Submit):
            try:
                self._scheduler.submit(command.request)
            except ConstraintError as fault:
                self._deliver([(command.request.id, EndEvent(EndCause.ERROR, message=str(fault)))])
        elif self._scheduler.cancel(command.request_id, command.cause):
            self.statistics.late_steps += self._steps_begun - command.steps_begun

    def _deliver(self, events: list[tuple[str, Event]]) -> None:
        by_request: dict[str, list[Event]] = {}
        for request_id, event in events:
            by_request.setdefault(request_id, []).append(event)
        for request_id, own in by_request.items():
            listener = self._listeners[request_id]
            if isinstance(own[-1], EndEvent):
                with self._wake:
                    del self._listeners[request_id]
            listener(own)
