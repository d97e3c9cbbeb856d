import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.bench.call_clock import FRAME
from voice_agent.bench.playout import Playout

DELAY_MS = 20.0
DELAY = 960
START = 5000

SILENT = np.zeros(FRAME, dtype=np.int16)


def loud(value: int = 8000) -> np.ndarray:
    return np.full(FRAME, value, dtype=np.int16)


def test_frames_on_time_are_heard_one_after_the_other():
    playout = Playout(DELAY_MS)
    spans = [playout.add(loud(1000 + k), k * FRAME, START + k * FRAME) for k in range(5)]
    assert spans[0].start == START + DELAY
    assert all(a.end == b.start for a, b in itertools.pairwise(spans))
    heard = playout.recording(START + DELAY + 5 * FRAME)
    assert heard[START + DELAY - 1] == 0
    assert [int(heard[span.start]) for span in spans] == [1000, 1001, 1002, 1003, 1004]
    assert playout.underruns == []


@given(st.lists(st.integers(0, DELAY), min_size=1, max_size=30))
def test_jitter_within_the_delay_is_not_heard(jitter):
    playout = Playout(DELAY_MS)
    playout.add(loud(), 0, START)
    for k, late in enumerate(jitter, start=1):
        span = playout.add(loud(), k * FRAME, START + k * FRAME + late)
        assert span.start == START + DELAY + k * FRAME
    assert playout.underruns == []


@given(late=st.integers(DELAY + 1, 40 * FRAME), at=st.integers(1, 10))
def test_a_stutter_in_speech_is_a_hole_and_delays_what_follows(late, at):
    playout = Playout(DELAY_MS)
    for k in range(at):
        playout.add(loud(), k * FRAME, START + k * FRAME)
    arrival = START + at * FRAME + late
    assert playout.add(loud(), at * FRAME, arrival).start == arrival
    (underrun,) = playout.underruns
    assert underrun.duration_ms == (late - DELAY) * 1000 / 48000
    heard = playout.recording(arrival + FRAME)
    assert not heard[underrun.start : arrival].any()
    # The sender is on time again, but the buffer has grown.
    on_time = START + (at + 1) * FRAME
    assert playout.add(loud(), (at + 1) * FRAME, on_time).start == arrival + FRAME


@given(st.lists(st.integers(0, 20 * FRAME), min_size=2, max_size=40))
def test_nothing_is_heard_before_it_arrives_or_twice(delays):
    playout, end = Playout(DELAY_MS), 0
    for k, delay in enumerate(delays):
        arrival = START + k * FRAME + delay
        span = playout.add(loud(), k * FRAME, arrival)
        assert span.start >= max(arrival, end)
        end = span.end


def test_a_grown_buffer_shrinks_in_silence_and_not_below_its_delay():
    playout = Playout(DELAY_MS)
    playout.add(loud(), 0, START)
    playout.add(loud(), FRAME, START + 10 * FRAME)
    spans = [playout.add(SILENT, k * FRAME, START + k * FRAME) for k in range(2, 60)]
    assert spans[-1].start == START + DELAY + 59 * FRAME


def test_a_hole_in_silence_is_not_heard_as_one():
    playout = Playout(DELAY_MS)
    playout.add(SILENT, 0, START)
    playout.add(loud(), FRAME, START + 10 * FRAME)
    assert playout.underruns == []


def test_recordings_longer_than_the_first_buffer():
    playout = Playout(DELAY_MS)
    minute = 48000 * 60
    playout.add(loud(), 0, minute)
    assert playout.recording(minute + DELAY + FRAME)[-1] == 8000
    assert len(playout.recording(10)) == 10
