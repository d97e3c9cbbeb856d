"""The end of the caller's speech, by the same rules as the measurement of a recording."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_agent.bench.gaps import audible_stretches
from voice_agent.telemetry.audible import LastAudible

RATE = 16_000
Sound = np.ndarray[tuple[int], np.dtype[np.int16]]


def sound(*parts: tuple[float, int]) -> Sound:
    """Parts of (ms, amplitude)."""
    return np.concatenate([np.full(round(ms * RATE / 1000), level, np.int16) for ms, level in parts])


def followed(samples: Sound, frame: int = 320) -> LastAudible:
    tracker = LastAudible(RATE)
    for start in range(0, samples.size, frame):
        tracker.push(samples[start : start + frame].tobytes())
    return tracker


def test_speech_ends_at_its_last_audible_sample() -> None:
    tracker = followed(sound((100, 0), (300, 3000), (400, 100)))
    assert tracker.end_ms == pytest.approx(400.0)
    assert tracker.position_ms == pytest.approx(800.0)


def test_a_click_after_speech_does_not_move_the_end() -> None:
    assert followed(sound((300, 3000), (400, 0), (20, 9000), (300, 0))).end_ms == pytest.approx(300.0)


def test_silence_alone_has_no_end() -> None:
    assert followed(sound((500, 100))).end_ms is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 160), st.sampled_from([0, 100, 1000, 20000])), min_size=1, max_size=20))
def test_it_agrees_with_the_measurement_of_a_recording(parts: list[tuple[int, int]]) -> None:
    samples = sound(*parts)
    stretches = audible_stretches(samples, RATE)
    end_ms = followed(samples).end_ms
    if stretches:
        assert end_ms == pytest.approx(stretches[-1].end * 1000 / RATE)
    else:
        assert end_ms is None
