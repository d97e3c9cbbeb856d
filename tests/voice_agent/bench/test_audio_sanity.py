import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.bench.audio_sanity import holes, measure_levels
from voice_agent.bench.gaps import Span

RATE = 48000


def tone(seconds: float, amplitude: float = 0.3) -> np.ndarray:
    return amplitude * np.sin(2 * np.pi * 220 * np.arange(int(seconds * RATE)) / RATE)


def whole(signal: np.ndarray) -> Span:
    return Span(0, len(signal))


@given(at=st.integers(2000, 40000), duration_ms=st.integers(9, 100))
def test_a_hole_cut_into_speech_is_found_with_its_length(at, duration_ms):
    signal = tone(1.0)
    samples = duration_ms * RATE // 1000
    signal[at : at + samples] = 0
    (hole,) = holes(signal, whole(signal), RATE)
    # The tone itself may cross zero at the edges.
    assert hole.duration_ms == pytest.approx(duration_ms, abs=0.2)


def test_a_pause_that_fades_out_and_in_is_not_a_hole():
    fade = np.geomspace(1, 0.001, 2400)
    signal = np.concatenate([tone(0.5), tone(0.05) * fade, np.zeros(4800), tone(0.05) * fade[::-1], tone(0.5)])
    assert holes(signal, whole(signal), RATE) == []


def test_a_hole_that_a_codec_lets_ring_is_still_found():
    ringing = tone(0.006) * np.geomspace(1, 0.005, 288)
    signal = np.concatenate([tone(0.5), ringing, tone(0.014, amplitude=0.001), tone(0.5)])
    assert len(holes(signal, whole(signal), RATE)) == 1


def test_continuous_speech_has_no_holes():
    assert holes(tone(1.0), Span(0, RATE), RATE) == []


def test_only_the_reply_is_searched():
    signal = np.concatenate([tone(0.5), np.zeros(4800), tone(0.5), np.zeros(4800), tone(0.5)])
    assert holes(signal, Span(RATE // 2 + 4800, RATE + 4800), RATE) == []


def test_levels_of_a_sine():
    levels = measure_levels(tone(1.0, amplitude=0.5), [Span(0, RATE)])
    assert levels.peak_dbfs == pytest.approx(-6.02, abs=0.01)
    assert levels.speech_rms_dbfs == pytest.approx(-9.03, abs=0.01)
    assert levels.clipped_samples == 0


def test_clipping_is_a_flat_top_not_a_loud_peak():
    loud = np.clip(tone(0.1, amplitude=1.5), -1, 1)
    assert measure_levels(loud, [Span(0, len(loud))]).clipped_samples > 100
    peak = tone(0.1)
    peak[100] = 1.0
    assert measure_levels(peak, [Span(0, len(peak))]).clipped_samples == 0


def test_a_silent_channel_has_no_speech_level():
    assert measure_levels(np.zeros(100), []).speech_rms_dbfs is None
