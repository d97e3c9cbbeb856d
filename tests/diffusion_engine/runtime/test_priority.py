"""Who goes first when requests meet."""

from __future__ import annotations

from diffusion_engine.runtime import EndEvent, Scheduler
from tests.diffusion_engine.conftest import Loaded, run_one


def ends(scheduler: Scheduler) -> list[str]:
    """Ids in the order in which they end."""
    order: list[str] = []
    while not scheduler.idle:
        order += [id for id, event in scheduler.step() if isinstance(event, EndEvent)]
    return order


def test_the_larger_priority_is_admitted_first_and_the_elder_among_equals(causal: Loaded) -> None:
    scheduler = causal.scheduler(max_requests=1)
    for id, priority in (("a", 0), ("b", 0), ("c", 5), ("d", 5)):
        scheduler.submit(causal.request([1, 2], id=id, max_tokens=8, priority=priority))
    assert ends(scheduler) == ["c", "d", "a", "b"]


def test_a_full_engine_gives_the_place_of_the_lowest_to_a_higher_one(causal: Loaded) -> None:
    scheduler = causal.scheduler(max_requests=2)
    low = [causal.request([i, 2], id=f"low{i}", max_tokens=40) for i in range(2)]
    alone = {request.id: run_one(causal.scheduler(), request).tokens for request in low}
    for request in low:
        scheduler.submit(request)
    scheduler.step()
    scheduler.submit(causal.request([9], id="high", max_tokens=8, priority=1))
    order: list[str] = []
    texts = dict.fromkeys(alone, "")
    while not scheduler.idle:
        for id, event in scheduler.step():
            if isinstance(event, EndEvent):
                order.append(id)
            elif id in texts:
                texts[id] += event.text
    assert order[0] == "high"
    assert scheduler.statistics.preempted == 1
    # What was said in the first step came before; the rest is as if nothing had happened.
    for id, text in texts.items():
        said = [int(word) for word in text.split(",") if word]
        assert said == alone[id][-len(said) :]


def test_lower_ones_sit_steps_out_and_do_not_starve(causal: Loaded) -> None:
    scheduler = causal.scheduler()
    scheduler.submit(causal.request([1, 2], id="low", max_tokens=4, priority=-1, block_length=1))
    scheduler.submit(causal.request([3, 4], id="high", max_tokens=200, priority=1, block_length=1))
    order = ends(scheduler)
    assert order == ["low", "high"]
    rows, forwards = scheduler.statistics.rows, scheduler.statistics.forwards
    assert rows < 2.5 * forwards  # most steps had one request's rows
