"""The rules of unmasking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.decoding import DecodingParameters, Strategy
from diffusion_engine.decoding.unmasking import (
    FIRST_CLAUSE_TOKENS,
    UNMASKING,
    Candidates,
    dream_time,
    quota,
)

confidences = st.lists(st.floats(0, 1), min_size=1, max_size=32)


def select(
    strategy: Strategy,
    values: list[float],
    quota: int = 1,
    *,
    threshold: float = 0.9,
    bound: float = 0.1,
    offset: int = 0,
) -> list[int]:
    """What a strategy commits, the values being both confidences and scores."""
    parameters = DecodingParameters(strategy=strategy, block_length=64, threshold=threshold, entropy_bound=bound)
    return UNMASKING[strategy].select(
        Candidates(confidences=values, scores=values, offset=offset, quota=quota, parameters=parameters)
    )


@given(st.integers(1, 64), st.data())
def test_the_quotas_of_a_block_fill_it(block_length: int, data: st.DataObject) -> None:
    steps = data.draw(st.integers(1, block_length))
    quotas = [quota(block_length, block_length, steps, step) for step in range(steps)]
    assert sum(quotas) == block_length
    assert quotas == sorted(quotas, reverse=True)
    assert min(quotas) >= 1


@given(st.integers(1, 300), st.data())
def test_dreams_schedule_fills_the_canvas_with_its_last_step(length: int, data: st.DataObject) -> None:
    steps, left = data.draw(st.integers(1, length)), length
    for step in range(steps):
        assert left > 0
        left -= dream_time(length, left, steps, step)
    assert left == 0


def test_static_takes_the_surest_and_the_lower_position_in_a_tie() -> None:
    assert select(Strategy.STATIC, [0.2, 0.9, 0.5, 0.9, 0.5], 3) == [1, 2, 3]


def test_sequential_takes_the_leftmost() -> None:
    assert select(Strategy.SEQUENTIAL, [0.1, 0.2, 0.9], 2) == [0, 1]


def test_dynamic_takes_all_strictly_above_the_threshold() -> None:
    assert select(Strategy.DYNAMIC, [0.95, 0.9, 0.91, 0.1]) == [0, 2]


@pytest.mark.parametrize("strategy", UNMASKING)
@given(values=confidences, count=st.integers(1, 32), threshold=st.floats(0, 1), offset=st.integers(0, 40))
def test_every_strategy_takes_at_least_the_quota_and_no_position_twice(
    strategy: Strategy, values: list[float], count: int, threshold: float, offset: int
) -> None:
    chosen = select(strategy, values, count, threshold=threshold, offset=offset)
    assert len(chosen) >= min(count, len(values))
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(range(len(values)))


@given(st.lists(st.floats(0, 3), min_size=1, max_size=20), st.floats(0, 2))
def test_the_entropy_bound_holds_for_the_accepted_without_the_largest(entropies: list[float], bound: float) -> None:
    chosen = select(Strategy.ENTROPY_BOUND, [-entropy for entropy in entropies], bound=bound)
    accepted = sorted(entropies[i] for i in chosen)
    assert sum(accepted[:-1]) <= bound
    rest = sorted(entropies[i] for i in range(len(entropies)) if i not in chosen)
    assert not rest or sum(accepted) > bound  # one more would break it
    assert not rest or rest[0] >= accepted[-1]


def test_the_first_clause_always_grows_on_the_left_and_prefers_it() -> None:
    values = [0.1, 0.2, 0.7, 0.2, 0.95, 0.65]
    assert select(Strategy.FIRST_CLAUSE, values, 1) == [0, 2, 4]
    assert select(Strategy.FIRST_CLAUSE, values, 1, offset=FIRST_CLAUSE_TOKENS) == [4]
