"""How late the event loop runs: what stalls it stalls every call's audio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def watch_loop_lag(observe: Callable[[float], object], interval_s: float = 0.1) -> None:
    """Call ``observe`` with the lag (s) of a timer of ``interval_s``, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        observe(max(0.0, loop.time() - due))
