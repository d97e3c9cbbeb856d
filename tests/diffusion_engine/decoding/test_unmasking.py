"""The rules of unmasking."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.decoding.unmasking import dynamic, quota, sequential, static

confidences = st.lists(st.floats(0, 1), min_size=1, max_size=32)


@given(st.integers(1, 64), st.data())
def test_the_quotas_of_a_block_fill_it(block_length: int, data: st.DataObject) -> None:
    steps = data.draw(st.integers(1, block_length))
    quotas = [quota(block_length, steps, step) for step in range(steps)]
    assert sum(quotas) == block_length
    assert quotas == sorted(quotas, reverse=True)
    assert min(quotas) >= 1


def test_static_takes_the_most_confident_and_the_lower_position_in_a_tie() -> None:
    assert static([0.2, 0.9, 0.5, 0.9, 0.5], 3, 0.0) == [1, 2, 3]


def test_sequential_takes_the_leftmost() -> None:
    assert sequential([0.1, 0.2, 0.9], 2, 0.0) == [0, 1]


def test_dynamic_takes_all_strictly_above_the_threshold() -> None:
    assert dynamic([0.95, 0.9, 0.91, 0.1], 1, 0.9) == [0, 2]


@given(confidences, st.integers(1, 32), st.floats(0, 1))
def test_dynamic_takes_at_least_the_quota(values: list[float], quota: int, threshold: float) -> None:
    chosen = dynamic(values, quota, threshold)
    assert len(chosen) >= min(quota, len(values))
    assert chosen == sorted(set(chosen))
