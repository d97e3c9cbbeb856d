"""Positions of the caller's audio on the call's clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.telemetry.clock import CallClock, StreamClock


def test_the_call_clock_starts_at_zero() -> None:
    now = [100.0]
    clock = CallClock(lambda: now[0])
    now[0] = 101.25
    assert clock.seconds() == pytest.approx(1.25)
    assert clock.ms() == pytest.approx(1250)


@given(st.lists(st.floats(0, 150), min_size=50, max_size=200))
def test_jitter_moves_a_position_by_no_more_than_the_least_delay(delays: list[float]) -> None:
    clock = StreamClock()
    for n, delay in enumerate(delays):
        clock.arrived((n + 1) * 20.0, 500.0 + (n + 1) * 20.0 + delay)
    placed = clock.to_call_ms(1000.0) - 1500.0
    assert min(delays) - 1e-6 <= placed <= min(delays) + 0.02 * len(delays) + 1e-6


def test_a_delay_that_stays_is_followed_slowly() -> None:
    clock = StreamClock(drift_ms=1.0)
    clock.arrived(20.0, 30.0)
    for n in range(2, 100):
        clock.arrived(n * 20.0, n * 20.0 + 60.0)
    assert clock.to_call_ms(0.0) == pytest.approx(60.0)
