import asyncio
import threading

import pytest

from voice_agent.speech.worker import Worker


@pytest.fixture
def worker():
    made = Worker("test")
    yield made
    made.close()


class Gate:
    """A job that blocks the worker until it is opened, so that others queue behind it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        self.open.wait(10)


async def blocked(worker: Worker) -> tuple[Gate, asyncio.Task[None]]:
    gate = Gate()
    task = asyncio.create_task(worker.run(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    return gate, task


async def test_smallest_key_first_then_order_of_arrival(worker: Worker) -> None:
    gate, task = await blocked(worker)
    done: list[str] = []
    tasks = [
        asyncio.create_task(worker.run(lambda name=name: done.append(name), key=key))
        for name, key in [("partial 1", 1.0), ("final 1", 0.0), ("partial 2", 1.0), ("final 2", 0.0)]
    ]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(task, *tasks)
    assert done == ["final 1", "final 2", "partial 1", "partial 2"]


async def test_a_cancelled_job_never_runs(worker: Worker) -> None:
    gate, task = await blocked(worker)
    ran: list[int] = []
    waiting = asyncio.create_task(worker.run(lambda: ran.append(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    gate.open.set()
    await task
    await worker.run(lambda: None)
    assert ran == []


async def test_a_job_s_error_reaches_who_asked_and_the_worker_goes_on(worker: Worker) -> None:
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    assert await worker.run(lambda: 2) == 2


async def test_a_closed_worker_refuses() -> None:
    worker = Worker("test")
    worker.close()
    with pytest.raises(RuntimeError, match="closed"):
        await worker.run(lambda: 1)
