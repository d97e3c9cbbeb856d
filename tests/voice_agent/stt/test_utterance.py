import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.stt.utterance import PreRoll, Utterance

PER_MS = 16


def ramp(start: int, count: int) -> np.ndarray:
    return (np.arange(start, start + count) % 30_000).astype(np.int16)


@given(st.lists(st.integers(0, 4000), max_size=20), st.floats(0, 600))
def test_pre_roll_keeps_the_last_audio_and_its_time(sizes: list[int], keep_ms: float) -> None:
    pre_roll, position = PreRoll(keep_ms), 0
    for size in sizes:
        pre_roll.push(ramp(position, size))
        position += size
    audio, start_ms = pre_roll.since(0.0)
    first = round(start_ms * PER_MS)
    assert first == position - audio.size
    assert audio.size == min(position, int(keep_ms * PER_MS))
    assert np.array_equal(audio, ramp(first, audio.size))


def test_pre_roll_from_a_given_time() -> None:
    pre_roll = PreRoll(500)
    pre_roll.push(ramp(0, 1000 * PER_MS))
    audio, start_ms = pre_roll.since(800.0)
    assert (start_ms, audio[0], audio.size) == (800.0, ramp(800 * PER_MS, 1)[0], 200 * PER_MS)
    assert pre_roll.since(2000.0)[0].size == 0  # not in the future


def test_an_utterance_is_cut_where_it_is_quietest() -> None:
    rng = np.random.default_rng(0)
    audio = rng.normal(0, 3000, 10_000 * PER_MS)
    audio[7_000 * PER_MS : 7_300 * PER_MS] *= 0.01
    utterance = Utterance(500.0)
    utterance.append(audio.astype(np.int16))
    head = utterance.cut(6_000)
    assert 7_000 <= head.size / PER_MS <= 7_300
    assert np.array_equal(np.concatenate([head, utterance.audio()]), audio.astype(np.int16))
    assert utterance.start_ms == 500.0 + head.size / PER_MS
    assert utterance.end_ms == 10_500.0


def test_a_cut_looks_only_at_the_end() -> None:
    audio = np.random.default_rng(0).normal(0, 3000, 10_000 * PER_MS)
    audio[1_000 * PER_MS : 1_300 * PER_MS] = 0
    utterance = Utterance(0.0)
    utterance.append(audio.astype(np.int16))
    assert utterance.cut(6_000).size >= 4_000 * PER_MS


def test_a_dip_is_seen_at_the_end_of_speech_only() -> None:
    speech = np.random.default_rng(0).normal(0, 3000, 1_000 * PER_MS).astype(np.int16)
    utterance = Utterance(0.0)
    utterance.append(speech)
    assert not utterance.dips()
    utterance.append(np.zeros(50 * PER_MS, np.int16))
    assert utterance.dips()
