"""Fixtures for everything that talks over the network: loopback only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aioice.ice
import pytest


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ICE use 127.0.0.1, which it leaves out by itself."""
    monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """Fail when a task of the test outlives it by 5 s."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        await asyncio.wait(left, timeout=5)
    alive = [task.get_name() for task in left if not task.done()]
    assert not alive, f"tasks left behind: {alive}"
