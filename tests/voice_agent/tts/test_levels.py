import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.tts import levels

RATE = 22_050


@given(st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=50))
def test_level_never_reaches_the_ceiling_and_keeps_order(samples: list[float]) -> None:
    audio = np.sort(np.array(samples, np.float32))
    shaped = levels.shape_level(audio)
    assert np.all(np.abs(shaped) <= levels.CEILING + 1e-6)
    assert np.all(np.diff(shaped) >= -1e-6)


def test_quiet_audio_is_only_amplified() -> None:
    audio = np.linspace(-0.3, 0.3, 100, dtype=np.float32)
    assert np.allclose(levels.shape_level(audio), audio * levels.GAIN)


def test_lead_keeps_ten_milliseconds_before_the_first_sound() -> None:
    audio = np.zeros(RATE, np.float32)
    audio[5000:] = 0.1
    assert levels.lead_samples(audio, RATE) == 5000 - RATE // 100
    assert levels.lead_samples(np.zeros(100, np.float32), RATE) == 0


def test_fade_touches_only_the_edges() -> None:
    audio = np.ones(1000, np.float32)
    assert np.array_equal(levels.fade(audio, RATE), audio)
    both = levels.fade(audio, RATE, start=True, end=True)
    assert both[0] == both[-1] == 0
    assert np.all(both[100:-100] == 1)
    assert np.all(audio == 1)  # the input is left alone
