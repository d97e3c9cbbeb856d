import numpy as np

from voice_agent.bench.ear import Ear
from voice_agent.bench.gaps import Span

FRAME = 960


def frame(audible_from: int = 0, audible_to: int = FRAME) -> np.ndarray:
    samples = np.zeros(FRAME, dtype=np.int16)
    samples[audible_from:audible_to] = 3000
    return samples


def hear(ear: Ear, number: int, samples: np.ndarray) -> None:
    ear.hear(samples, Span(number * FRAME, (number + 1) * FRAME))


def test_the_onset_is_the_first_audible_sample_after_listening_began():
    ear = Ear()
    hear(ear, 0, frame())
    ear.listen(since=FRAME)
    assert ear.onset is None
    hear(ear, 1, frame(100))
    hear(ear, 2, frame())
    assert ear.onset == FRAME + 100


def test_a_click_is_no_speech_and_three_frames_are():
    ear = Ear()
    hear(ear, 0, frame())
    assert not ear.speech_after(0)
    hear(ear, 1, frame())
    hear(ear, 2, frame())
    assert ear.speech_after(0)
    assert not ear.speech_after(2 * FRAME)


def test_silence_counts_from_the_last_audible_sample():
    ear = Ear()
    hear(ear, 0, frame(0, 480))
    hear(ear, 1, frame(0, 0))
    assert ear.last_audible == 479
    assert ear.silent_for_s(479 + 24000) == 0.5
