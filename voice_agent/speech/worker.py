"""One thread per model, and an order for what it does next."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Runs jobs on one thread, the smallest key first and equal keys in order of arrival.

    A model is not shared between threads, so what competes is who goes next: finals before partials, and the synthesis
    whose listener runs out of audio first. A job that was cancelled while it waited never runs; a running one is not
    interrupted, so jobs are kept short (one recogniser pass, one chunk of audio).

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._ready = threading.Condition()
        self._jobs: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._closed = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    async def run(self, job: Callable[[], T], *, key: float = 0.0) -> T:
        """Run `job` on the thread and return its result.

        Cancelling the caller takes the job out of the queue. Raises what `job` raises, and `RuntimeError` when the
        worker is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        def execute() -> None:
            if future.cancelled():
                return
            result: T | None = None
            failure: BaseException | None = None
            try:
                result = job()
            except BaseException as error:  # handed to the caller, who waits for it
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result, failure)

        with self._ready:
            if self._closed:
                raise RuntimeError("the worker is closed")
            heapq.heappush(self._jobs, (key, next(self._order), execute))
            self._ready.notify()
        return await future

    def close(self) -> None:
        """Drop what is queued and end the thread after the job that runs."""
        with self._ready:
            self._closed = True
            self._jobs.clear()
            self._ready.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=10.0)

    def _main(self) -> None:
        while True:
            with self._ready:
                while not self._jobs and not self._closed:
                    self._ready.wait()
                if self._closed:
                    return
                _, _, execute = heapq.heappop(self._jobs)
            execute()
