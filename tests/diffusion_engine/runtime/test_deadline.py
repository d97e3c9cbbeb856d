"""A reply that must have ended by a time: fewer, less careful passes, and what is there is the reply."""

from __future__ import annotations

import pytest

from diffusion_engine.decoding import Strategy
from diffusion_engine.runtime import EndCause, EndEvent, GenerationRequest, Limits, Scheduler, TorchRunner
from tests.diffusion_engine.conftest import FAMILIES, Loaded, Result, run_one


class Ticking:
    """A clock on which a pass takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(model: Loaded, request: GenerationRequest, pace: float = 1.0) -> tuple[Result, float]:
    """The result, and when it was there."""
    clock = Ticking()
    runner = TorchRunner(model.model, 64)
    plain = runner.run

    def slowly(segments):  # type: ignore[no-untyped-def]
        clock.now += pace
        return plain(segments)

    runner.run = slowly  # type: ignore[method-assign]
    scheduler = Scheduler(runner, 64, model.tokenizer, Limits(), clock=clock)
    scheduler.submit(model.request([1, 2, 3], id="before", max_tokens=8))  # the pace is known
    while not scheduler.idle:
        scheduler.step()
    start = clock.now
    scheduler.submit(request)
    text = ""
    while True:
        for _, event in scheduler.step():
            if isinstance(event, EndEvent):
                return Result(text, event), clock.now - start
            text += getattr(event, "text", "")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_deadline_far_away_changes_nothing(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    plain = run_one(model.scheduler(), model.request([5, 6, 7], max_tokens=16))
    result, _ = run(model, model.request([5, 6, 7], max_tokens=16, deadline_s=1e6))
    assert result.tokens == plain.tokens
    assert result.end.statistics.hurried == 0
    assert result.end.statistics.deadline_met is True


@pytest.mark.parametrize("family", ["sdar", "Fast_dLLM_Qwen"])
def test_block_denoising_spends_the_steps_there_are(loaded: dict[str, Loaded], family: str) -> None:
    """Among them, where clean text gives the next token, the passes that open the blocks to come."""

    def request(deadline_s: float | None) -> GenerationRequest:
        return loaded[family].request(
            [5, 6, 7, 8] * 2, Strategy.SEQUENTIAL, max_tokens=32, block_length=8, deadline_s=deadline_s
        )

    careful, took = run(loaded[family], request(None))
    assert took >= 32  # a token a pass
    hurried, in_time = run(loaded[family], request(16.5))
    assert in_time <= 16.5
    assert hurried.end.statistics.deadline_met is True
    assert hurried.end.statistics.hurried > 0
    assert hurried.end.statistics.completion_tokens == careful.end.statistics.completion_tokens


def test_hybrid_takes_its_last_draft_unverified(causal: Loaded) -> None:
    exact = run_one(causal.scheduler(), causal.request([5, 6, 7], max_tokens=30)).tokens
    result, in_time = run(causal, causal.request([5, 6, 7], max_tokens=30, deadline_s=3.5, block_length=4))
    assert in_time <= 3.5
    assert result.end.statistics.hurried == 1
    assert result.end.cause is EndCause.DEADLINE
    assert result.end.statistics.deadline_met is False
    # All but the last draft is the exact text.
    assert result.tokens[:-4] == exact[: len(result.tokens) - 4]


def test_one_that_waits_beyond_its_deadline_ends_without_a_pass(causal: Loaded) -> None:
    clock = Ticking()
    scheduler = Scheduler(TorchRunner(causal.model, 64), 64, causal.tokenizer, Limits(max_requests=1), clock=clock)
    scheduler.submit(causal.request([1], id="first", max_tokens=200))
    scheduler.submit(causal.request([2], id="late", deadline_s=1.0))
    scheduler.step()
    clock.now = 2.0
    ((id, event),) = [(id, event) for id, event in scheduler.step() if isinstance(event, EndEvent)]
    assert (id, event.cause, event.statistics.forwards) == ("late", EndCause.DEADLINE, 0)


def test_a_block_gets_two_passes_however_near_the_deadline_is(block_causal: Loaded) -> None:
    request = block_causal.request([5, 6, 7, 8], Strategy.SEQUENTIAL, max_tokens=400, block_length=16, deadline_s=4.5)
    result, _ = run(block_causal, request)
    statistics = result.end.statistics
    assert result.end.cause is EndCause.DEADLINE
    assert statistics.completion_tokens <= 16 * statistics.denoising / 2


def test_the_passes_of_a_long_prompt_say_nothing_of_those_that_fit_before_a_deadline(causal: Loaded) -> None:
    clock, runner = Ticking(), TorchRunner(causal.model, 64)
    plain = runner.run

    def slowly(segments):  # type: ignore[no-untyped-def]
        clock.now += max(len(segment.step.tokens) for segment in segments)
        return plain(segments)

    runner.run = slowly  # type: ignore[method-assign]
    scheduler = Scheduler(runner, 64, causal.tokenizer, Limits(), clock=clock)
    request = causal.request([5, 6, 7], max_tokens=60, deadline_s=40.0)
    before = run_one(scheduler, request).end.statistics
    assert before.forwards > 2
    for more in ({"max_tokens": 1}, {"prefill_only": True}):
        run_one(scheduler, causal.request([i % 200 for i in range(200)], id="long", **more))  # type: ignore[arg-type]
        again = run_one(scheduler, request).end.statistics
        assert again.forwards >= before.forwards


def test_a_pace_that_was_taken_too_slow_is_mended_by_the_requests_it_would_refuse(causal: Loaded) -> None:
    clock, runner, slow = Ticking(), TorchRunner(causal.model, 64), [50.0]
    plain = runner.run

    def slowly(segments):  # type: ignore[no-untyped-def]
        clock.now += slow[0]
        return plain(segments)

    runner.run = slowly  # type: ignore[method-assign]
    scheduler = Scheduler(runner, 64, causal.tokenizer, Limits(), clock=clock)
    run_one(scheduler, causal.request([1, 2, 3], max_tokens=12))
    slow[0] = 1.0  # the machine is its own again
    forwards = []
    for _ in range(30):
        statistics = run_one(scheduler, causal.request([5, 6, 7], max_tokens=60, deadline_s=20.0)).end.statistics
        assert statistics.completion_tokens > 0
        forwards.append(statistics.forwards)
    assert forwards[-1] > 10 > forwards[0]
