"""The engine outlives what goes wrong in one request."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import torch

from diffusion_engine.decoding import Constraint
from diffusion_engine.models import load_model
from diffusion_engine.runtime import (
    DrainingError,
    EndCause,
    EndEvent,
    Engine,
    Event,
    GenerationRequest,
    Limits,
    OverloadedError,
    Scheduler,
    TorchRunner,
)
from tests.diffusion_engine.conftest import EVERY_FAMILY, Loaded, run_all, run_one


@dataclass
class Listening:
    """Collects a request's events across threads."""

    batches: queue.Queue[list[Event]] = field(default_factory=queue.Queue)

    def __call__(self, events: list[Event]) -> None:
        self.batches.put(events)

    def end(self) -> EndEvent:
        while True:
            last = self.batches.get(timeout=20)[-1]
            if isinstance(last, EndEvent):
                return last


@pytest.fixture
def engine(causal: Loaded) -> Iterator[Engine]:
    running = Engine(causal.scheduler(), Limits(max_requests=8, max_waiting=2))
    running.start()
    yield running
    running.stop()
    assert not running.alive


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_nan_logits_end_one_request_and_leave_no_trace(loaded: dict[str, Loaded], family: str) -> None:
    model = Loaded(loaded[family].folder, load_model(loaded[family].folder))
    model.model.embedding.weight[200] = torch.nan  # type: ignore[index]
    scheduler = model.scheduler()
    healthy = [model.request([i, 5, 6], id=f"h{i}") for i in range(3)]
    poisoned = model.request([1, 2, 3] * 12 + [200], id="p")
    expected = [run_one(model.scheduler(), request).tokens for request in healthy]
    *others, bad = run_all(scheduler, [*healthy, poisoned])
    assert bad.end.cause is EndCause.ERROR
    assert "NaN" in (bad.end.message or "")
    assert [result.tokens for result in others] == expected
    # The same prefix, without the poison, finds nothing of it in the cache.
    clean = model.request([1, 2, 3] * 12 + [9])
    assert run_one(scheduler, clean).tokens == run_one(model.scheduler(), clean).tokens
    scheduler.cache.prefix.clear()
    assert scheduler.cache.pool.free == scheduler.cache.pool.total


def test_keys_of_a_request_with_nan_logits_are_not_shared(causal: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long prompt's first chunks have no logits that could be looked at: they must not outlive the request."""
    scheduler = causal.scheduler(prefill_rows=16)
    run = scheduler._runner.run
    monkeypatch.setattr(scheduler._runner, "run", lambda segments: [logits * torch.nan for logits in run(segments)])
    assert run_one(scheduler, causal.request(list(range(100)))).end.cause is EndCause.ERROR
    assert scheduler.cache.prefix.pages == 0
    assert scheduler.cache.pool.free == scheduler.cache.pool.total


def test_a_request_that_takes_too_long_ends_by_the_clock(causal: Loaded) -> None:
    now = [0.0]
    scheduler = Scheduler(
        TorchRunner(causal.model, 64), 64, causal.tokenizer, Limits(timeout_s=5.0), clock=lambda: now[0]
    )
    scheduler.submit(causal.request([1, 2], id="slow", max_tokens=300))
    scheduler.step()
    now[0] = 4.9
    assert not any(isinstance(event, EndEvent) for _, event in scheduler.step())
    now[0] = 5.1
    (ended,) = [event for _, event in scheduler.step() if isinstance(event, EndEvent)]
    assert ended.cause is EndCause.TIMEOUT
    assert scheduler.idle


def test_a_fault_in_the_runner_ends_its_requests_and_the_next_is_served(
    causal: Loaded, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(segments: object) -> object:
        raise RuntimeError("out of luck")

    runner = engine._scheduler._runner
    listening = Listening()
    with monkeypatch.context() as patched:
        patched.setattr(runner, "run", fail)
        engine.submit(causal.request([1, 2], id="a"), listening)
        assert listening.end().cause is EndCause.ERROR
    engine.submit(causal.request([1, 2], id="b"), listening)
    assert listening.end().cause in (EndCause.LENGTH, EndCause.STOP)


def test_a_grammar_that_cannot_begin_ends_its_request_only(causal: Loaded, engine: Engine) -> None:
    class Broken(Constraint):
        def begin(self) -> list[int]:
            from diffusion_engine.decoding import ConstraintError

            raise ConstraintError("no way in")

    listening = Listening()
    engine.submit(causal.request([1], id="a", constraint=Broken.__new__(Broken)), listening)
    end = listening.end()
    assert (end.cause, end.message) == (EndCause.ERROR, "no way in")
    engine.submit(causal.request([1], id="b"), listening)
    assert listening.end().cause is EndCause.LENGTH


def test_beyond_its_capacity_it_refuses(causal: Loaded) -> None:
    idle = Engine(causal.scheduler(), Limits(max_requests=2, max_waiting=1))  # not started: nothing ends
    for i in range(3):
        idle.submit(causal.request([1], id=str(i)), Listening())
    with pytest.raises(OverloadedError):
        idle.submit(causal.request([1], id="3"), Listening())
    with pytest.raises(ValueError, match="in use"):
        idle.submit(causal.request([1], id="0"), Listening())


def test_a_cancel_takes_effect_before_the_next_step(causal: Loaded, engine: Engine) -> None:
    for i in range(20):
        listening = Listening()
        engine.submit(causal.request([i], id=f"c{i}", max_tokens=400, temperature=1.0), listening)
        listening.batches.get(timeout=20)
        assert engine.cancel(f"c{i}")
        assert listening.end().cause is EndCause.CANCELLED
        assert not engine.cancel(f"c{i}")
    assert engine.statistics.late_steps == 0
    assert engine.statistics.ended[EndCause.CANCELLED] == 20


def test_draining_finishes_what_runs_and_takes_nothing_new(causal: Loaded, engine: Engine) -> None:
    listening = Listening()
    engine.submit(causal.request([4], id="old", max_tokens=50), listening)
    engine.drain()
    with pytest.raises(DrainingError):
        engine.submit(causal.request([4], id="new"), Listening())
    assert listening.end().cause is EndCause.LENGTH


def test_stopping_tells_those_who_still_wait(causal: Loaded) -> None:
    engine = Engine(causal.scheduler(), Limits())
    engine.start()
    listening = [Listening() for _ in range(12)]
    for i, listener in enumerate(listening):
        engine.submit(causal.request([i], id=str(i), max_tokens=500), listener)
    engine.stop()
    assert {listener.end().cause for listener in listening} <= {EndCause.SHUTDOWN, EndCause.CONTEXT, EndCause.STOP}
    assert engine.load.pages_free + engine.load.pages_prefix_cache == engine.load.pages_total


def test_a_pool_smaller_than_the_context_is_refused(causal: Loaded) -> None:
    with pytest.raises(ValueError, match="needs 32"):
        causal.scheduler(pages=31)


def test_a_long_prompt_is_prefilled_in_several_steps_and_its_mates_go_on(causal: Loaded) -> None:
    scheduler = causal.scheduler(pages=64, prefill_rows=32)
    short = causal.request([1, 2, 3], id="short", max_tokens=200)
    long = causal.request([i % 250 for i in range(300)], id="long", max_tokens=4)
    scheduler.submit(short)
    scheduler.step()
    scheduler.submit(long)
    said = [id for _ in range(9) for id, _ in scheduler.step()]
    assert said.count("short") == 9
    assert "long" not in said
    scheduler.cancel("short")
    results: GenerationRequest = long
    while not scheduler.idle:
        scheduler.step()
    assert run_one(scheduler, results).tokens == run_one(causal.scheduler(), long).tokens
