import itertools

import numpy as np
import pytest

from voice_agent.tts.synthesizer import PcmChunk, Synthesizer
from voice_agent.tts.voice_files import find_voice

AUDIBLE = 10 ** (-45 / 20)
SENTENCES = [
    "Yes, of course.",
    "Your table is booked for seven thirty tonight.",
    "We are open every day from eleven in the morning until ten at night, except on Mondays when we close.",
    "Hello! How can I help you?",
]


@pytest.fixture(scope="module")
def synthesizer() -> Synthesizer:
    return Synthesizer(find_voice())


def samples(chunks: list[PcmChunk]) -> np.ndarray:
    return np.frombuffer(b"".join(chunk.pcm for chunk in chunks), "<i2").astype(np.float64) / 32768


def longest_zero_run_ms(audio: np.ndarray, sample_rate: int) -> float:
    sounding = np.flatnonzero(np.concatenate([[1.0], audio, [1.0]]))
    return float(np.diff(sounding).max() - 1) * 1000 / sample_rate


@pytest.mark.parametrize("text", SENTENCES)
def test_levels(synthesizer: Synthesizer, text: str) -> None:
    audio = samples(list(synthesizer.synthesize(text.split(), trim_lead=True)))
    assert -9 < 20 * np.log10(np.abs(audio).max()) <= -2.9
    assert abs(audio.mean()) < 10 ** (-55 / 20)
    assert abs(audio[0]) < 1e-3
    assert abs(audio[-1]) < 1e-3
    assert longest_zero_run_ms(audio[200:-200], synthesizer.sample_rate) < 20  # no hole between chunks


def test_first_sound_comes_at_once_where_the_lead_is_trimmed(synthesizer: Synthesizer) -> None:
    def onset_ms(*, trim: bool) -> float:
        audio = samples(list(synthesizer.synthesize(["Okay."], trim_lead=trim)))
        return float(np.flatnonzero(np.abs(audio) > AUDIBLE)[0]) * 1000 / synthesizer.sample_rate

    assert onset_ms(trim=True) < 15
    assert onset_ms(trim=False) > 25


@pytest.mark.parametrize("text", SENTENCES)
def test_word_times_are_ordered_and_end_with_the_audio(synthesizer: Synthesizer, text: str) -> None:
    chunks = list(synthesizer.synthesize(text.split(), trim_lead=True))
    length_ms = samples(chunks).size * 1000 / synthesizer.sample_rate
    times = chunks[0].words
    assert [word.index for word in times] == list(range(len(text.split())))
    assert all(a.end_ms <= b.start_ms for a, b in itertools.pairwise(times))
    assert all(word.end_ms > word.start_ms for word in times)
    assert length_ms - 400 < times[-1].end_ms <= length_ms
    assert all(chunk.words == () for chunk in chunks[1:])


def test_a_pause_lies_between_the_words_around_it(synthesizer: Synthesizer) -> None:
    """The silence after a sentence is in the audio where the word times leave a gap."""
    chunks = list(synthesizer.synthesize(["Hello!", "How", "can", "I", "help", "you?"], trim_lead=True))
    audio, times = samples(chunks), chunks[0].words
    gap = slice(*(int(ms * synthesizer.sample_rate / 1000) for ms in (times[0].end_ms, times[1].start_ms)))
    word = slice(*(int(ms * synthesizer.sample_rate / 1000) for ms in (times[0].start_ms, times[0].end_ms)))
    assert times[1].start_ms - times[0].end_ms > 60
    assert np.sqrt(np.mean(audio[gap] ** 2)) < 0.5 * np.sqrt(np.mean(audio[word] ** 2))


def test_slower_speech_is_longer(synthesizer: Synthesizer) -> None:
    text = SENTENCES[1].split()
    normal = samples(list(synthesizer.synthesize(text))).size
    slow = samples(list(synthesizer.synthesize(text, length_scale=1.5))).size
    assert slow > 1.2 * normal


def test_words_without_a_sound_give_no_audio(synthesizer: Synthesizer) -> None:
    assert list(synthesizer.synthesize(["..."])) == []
