"""Turn gaps from audio: signals are built sample by sample, so every expected value is exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.bench.gaps import Span, audible_stretches, measure_turns

RATE = 8000
PER_MS = RATE // 1000
LOUD = 0.1  # -20 dBFS
ROOM = 0.001  # -60 dBFS


def channel(seconds: float, *speech: tuple[int, int], level: float = LOUD) -> np.ndarray:
    """A channel of room noise with speech (alternating sign: every sample audible) from and to the given samples."""
    samples = np.full(int(seconds * RATE), ROOM)
    for start, end in speech:
        samples[start:end] = level
    samples[1::2] *= -1
    return samples


def ms(value: float) -> int:
    return round(value * PER_MS)


def measure_one(caller_speech, agent_speech, turn=None, seconds=12.0):
    turn = turn or Span(caller_speech[0][0], caller_speech[-1][1])
    (result,) = measure_turns(channel(seconds, *caller_speech), channel(seconds, *agent_speech), RATE, [turn])
    return result


def test_gap_is_first_audible_agent_sample_minus_last_audible_caller_sample():
    result = measure_one([(1000, 9000)], [(12000, 20000)])
    assert result.caller == Span(1000, 9000)
    assert result.gap_ms == (12000 - 8999) / PER_MS
    assert not result.takeover
    assert not result.missed


@given(
    length=st.integers(ms(60), ms(1500)),
    gap=st.integers(-ms(249), ms(4900)),
    reply=st.integers(ms(60), ms(1500)),
    lead=st.integers(1, 2000),
)
def test_any_gap_is_measured_to_the_sample(length, gap, reply, lead):
    # A terminal overlap cannot begin before the turn itself did.
    end = lead + length
    onset = end - 1 + gap
    if onset <= lead:
        return
    result = measure_one([(lead, end)], [(onset, onset + reply)])
    assert result.gap_ms == pytest.approx(gap / PER_MS)
    assert result.reply == Span(onset, onset + reply)


@given(level_dbfs=st.floats(-44.9, 0), quiet_dbfs=st.floats(-90, -45.1))
def test_threshold_is_minus_45_dbfs(level_dbfs, quiet_dbfs):
    loud, quiet = 10 ** (level_dbfs / 20), 10 ** (quiet_dbfs / 20)
    samples = np.concatenate([np.full(800, quiet), np.full(800, loud), np.full(800, quiet)])
    assert audible_stretches(samples, RATE) == [Span(800, 1600)]


@given(st.lists(st.tuples(st.integers(ms(50), ms(300)), st.integers(ms(100) + 1, ms(400))), min_size=1, max_size=8))
def test_stretches_come_back_as_they_were_written(parts):
    position, written = 400, []
    for speech, silence in parts:
        written.append((position, position + speech))
        position += speech + silence
    samples = channel((position + 400) / RATE, *written)
    assert audible_stretches(samples, RATE) == [Span(*span) for span in written]


def test_a_click_is_not_speech_and_neither_are_two():
    assert audible_stretches(channel(1.0, (800, 800 + ms(49))), RATE) == []
    clicks = [(800, 800 + ms(5)), (800 + ms(60), 800 + ms(65))]
    assert audible_stretches(channel(1.0, *clicks), RATE) == []


def test_a_stop_consonants_closure_does_not_end_the_stretch():
    burst_after_closure = [(800, 2400), (2400 + ms(80), 2400 + ms(95))]
    assert audible_stretches(channel(1.0, *burst_after_closure), RATE) == [Span(800, 2400 + ms(95))]


def test_an_answer_in_a_pause_of_the_turn_is_a_takeover_not_a_fast_gap():
    result = measure_one([(800, 8000), (8000 + ms(700), 20000)], [(8000 + ms(400), 14000)])
    assert result.takeover
    assert result.pause_takeovers == 1
    assert result.gap_ms is None
    assert result.takeover_at_ms == (8000 + ms(400) - 19999) / PER_MS


def test_an_answer_to_a_pause_that_arrives_after_the_caller_went_on_is_a_takeover_too():
    result = measure_one([(800, 8000), (8000 + ms(400), 20000)], [(8000 + ms(450), 14000)])
    assert result.takeover
    assert result.pause_takeovers == 0


def test_short_last_words_after_a_pause_do_not_turn_a_takeover_into_an_overlap():
    pause_end = 8000 + ms(600)
    result = measure_one([(800, 8000), (pause_end, pause_end + ms(120))], [(pause_end - ms(20), 24000)])
    assert result.takeover


@pytest.mark.parametrize(("after_pause_ms", "takeover"), [(1400, True), (1600, False)])
def test_a_late_answer_to_a_pause_is_no_overlap_of_the_end(after_pause_ms, takeover):
    end = 16000 + ms(after_pause_ms)
    result = measure_one([(8000, 12000), (16000, end)], [(end - ms(60), end + 8000)])
    assert result.takeover is takeover
    assert (result.gap_ms is None) is takeover


def test_overlap_of_the_last_syllable_is_a_negative_gap():
    result = measure_one([(800, 8000)], [(8000 - ms(100), 14000)])
    assert not result.takeover
    assert result.gap_ms == pytest.approx(-100 + 1 / PER_MS)


@pytest.mark.parametrize(("late_ms", "missed"), [(4999, False), (5001, True)])
def test_nothing_audible_within_five_seconds_is_a_missed_turn(late_ms, missed):
    onset = 8000 - 1 + ms(late_ms)
    result = measure_one([(800, 8000)], [(onset, onset + 4000)])
    assert result.missed is missed
    assert (result.gap_ms is None) is missed


def test_silence_after_a_takeover_that_gave_up_is_a_missed_turn():
    result = measure_one([(800, 8000), (8000 + ms(700), 20000)], [(8000 + ms(300), 8000 + ms(600))])
    assert result.takeover
    assert result.missed


def test_the_end_of_the_previous_reply_is_not_an_answer():
    # The caller interrupts at 16000; the agent stops 250 ms later and answers 300 ms after the caller's end.
    end = 24000
    caller = channel(12, (1000, 8000), (16000, end))
    agent = channel(12, (10000, 16000 + ms(250)), (end - 1 + ms(300), 40000))
    first, second = measure_turns(caller, agent, RATE, [Span(1000, 8000), Span(16000, end)])
    assert first.gap_ms == (10000 - 7999) / PER_MS
    assert not second.takeover
    assert second.gap_ms == 300


def test_a_barge_in_shorter_than_a_pause_of_the_agent_still_gets_its_gap():
    caller = channel(12, (1000, 8000), (16000, 16000 + ms(300)))
    end = 16000 + ms(300)
    agent = channel(12, (10000, 16000 + ms(150)), (end + ms(200), 40000))
    _, second = measure_turns(caller, agent, RATE, [Span(1000, 8000), Span(16000, end)])
    assert second.gap_ms == 200 + 1 / PER_MS


def test_a_pause_inside_the_reply_belongs_to_the_reply():
    result = measure_one([(800, 8000)], [(10000, 14000), (14000 + ms(450), 20000)])
    assert result.reply == Span(10000, 20000)


def test_int16_and_float_agree():
    samples = channel(1.0, (800, 4000))
    as_int = (samples * 32768).astype(np.int16)
    assert audible_stretches(as_int, RATE) == audible_stretches(samples, RATE)


def test_a_turn_without_speech_is_an_error_that_names_it():
    with pytest.raises(ValueError, match=r"caller turn 0 .* no audible speech"):
        measure_turns(channel(1), channel(1), RATE, [Span(100, 200)])


def test_channels_of_different_length_are_refused():
    with pytest.raises(ValueError, match="differ in length"):
        measure_turns(channel(1), channel(2), RATE, [])


@pytest.mark.parametrize(
    "bad", [np.zeros((10, 2)), np.zeros(10, dtype=np.int32), np.array([0.0, np.nan])], ids=["stereo", "int32", "nan"]
)
def test_signals_of_the_wrong_kind_are_refused(bad):
    with pytest.raises(ValueError, match=r"channel|int16|finite"):
        audible_stretches(bad, RATE)
