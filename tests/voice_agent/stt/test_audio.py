"""Real audio through the real recogniser: what was said comes out, and nothing comes out of what wasn't."""

from collections.abc import Iterator

import numpy as np
import pytest
from livekit import rtc
from livekit.agents.stt import SpeechEvent, SpeechEventType

from voice_agent.bench.clips import load_clips
from voice_agent.speech.client import SpeechClient
from voice_agent.stt.plugin import STT
from voice_agent.stt.whisper import window_s

RATE = 16_000
PHANTOM_S = 6


def frames(samples: np.ndarray) -> Iterator[rtc.AudioFrame]:
    pcm = samples.astype(np.int16).tobytes()
    for start in range(0, len(pcm), 640):
        part = pcm[start : start + 640]
        yield rtc.AudioFrame(part, RATE, 1, len(part) // 2)


async def listen(client: SpeechClient, samples: np.ndarray, *, told: bool = False) -> list[SpeechEvent]:
    """All events for the samples; `told`: a VAD that was fooled says that all of it is speech."""
    stream = STT(client, own_vad=not told).stream()
    if told:
        stream.speech_started(0)
    for frame in frames(samples):
        stream.push_frame(frame)
    if told:
        stream.speech_paused(samples.size / 16)
        stream.speech_ended(samples.size / 16)
    stream.end_input()
    events = [event async for event in stream]
    await stream.aclose()
    return events


def texts(events: list[SpeechEvent], kind: SpeechEventType) -> list[str]:
    return [event.alternatives[0].text for event in events if event.type is kind]


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE))


def non_speech() -> dict[str, np.ndarray]:
    """Sounds of a line without a caller, about 6 s each, in 16-bit units."""
    rng, count = np.random.default_rng(7), PHANTOM_S * RATE
    time = np.arange(count) / RATE
    white = rng.normal(0, 1, count)
    pink = np.fft.irfft(np.fft.rfft(white) / np.sqrt(np.maximum(1, np.arange(count // 2 + 1))), count)
    keys = np.zeros(count)
    for at in rng.integers(0, count - 400, 40):
        keys[at : at + 400] += rng.normal(0, 1, 400) * np.exp(-np.arange(400) / 60)
    return {
        "silence": np.zeros(count),
        "white noise": 400 * white,
        "pink noise": 1500 * pink / np.std(pink),
        "mains hum": 800 * (np.sin(2 * np.pi * 60 * time) + 0.5 * np.sin(2 * np.pi * 120 * time)),
        "tone": 3000 * np.sin(2 * np.pi * 440 * time),
        "ringback": 3000 * np.sin(2 * np.pi * 440 * time) * (time % 2 < 1),
        "keyboard": 6000 * keys,
    }


@pytest.mark.parametrize("name", non_speech())
async def test_no_final_comes_of_what_is_not_speech(speech_client: SpeechClient, name: str) -> None:
    events = await listen(speech_client, non_speech()[name])
    assert texts(events, SpeechEventType.FINAL_TRANSCRIPT) == []
    assert texts(events, SpeechEventType.PREFLIGHT_TRANSCRIPT) == []


@pytest.mark.parametrize("name", non_speech())
async def test_the_guard_holds_even_where_the_vad_is_fooled(speech_client: SpeechClient, name: str) -> None:
    events = await listen(speech_client, non_speech()[name], told=True)
    assert texts(events, SpeechEventType.FINAL_TRANSCRIPT) == []


@pytest.mark.parametrize("name", ["book", "close", "thanks", "no", "vegetarian"])
async def test_a_sentence_and_two_seconds_of_silence_give_exactly_the_sentence(
    speech_client: SpeechClient, name: str
) -> None:
    clip = next(clip for clip in load_clips() if clip.name == name)
    events = await listen(speech_client, np.concatenate([silence(0.5), clip.pcm, silence(2)]))
    finals = texts(events, SpeechEventType.FINAL_TRANSCRIPT)
    assert plain(" ".join(finals)) == plain(clip.text.replace("seven thirty", "7.30"))
    starts = [event for event in events if event.type is SpeechEventType.START_OF_SPEECH]
    assert len(starts) == len(finals)


async def test_silence_heard_with_the_sentence_adds_no_words(speech_client: SpeechClient) -> None:
    clip = next(clip for clip in load_clips() if clip.name == "close")
    events = await listen(speech_client, np.concatenate([silence(0.3), clip.pcm, silence(2)]), told=True)
    assert texts(events, SpeechEventType.FINAL_TRANSCRIPT) == [clip.text]


async def test_words_carry_stream_times(speech_client: SpeechClient) -> None:
    clip = next(clip for clip in load_clips() if clip.name == "parking")
    events = await listen(speech_client, np.concatenate([silence(2), clip.pcm, silence(1)]))
    final = next(event for event in events if event.type is SpeechEventType.FINAL_TRANSCRIPT).alternatives[0]
    assert final.words is not None
    assert [str(word).strip() for word in final.words] == clip.text.split()
    assert 1.6 < float(final.words[0].start_time) < 2.7
    assert 0 < final.confidence <= 1


async def test_a_long_monologue_keeps_its_sentences(speech_client: SpeechClient) -> None:
    clips = [clip for clip in load_clips() if clip.name in ("close", "change", "parking", "cancel", "vegetarian")]
    parts = [np.concatenate([clip.pcm, silence(0.3)]) for clip in clips * 2]  # about 29 s, one utterance
    samples = np.concatenate(parts)
    assert samples.size > 25.5 * RATE
    events = await listen(speech_client, samples, told=True)
    (final,) = texts(events, SpeechEventType.FINAL_TRANSCRIPT)
    words = plain(" ".join(clip.text for clip in clips * 2)).split()
    heard = plain(final).split()
    assert sum(word in heard for word in words) >= 0.95 * len(words)
    assert 0.9 * len(words) <= len(heard) <= 1.1 * len(words)


def plain(text: str) -> str:
    """Lower case, without punctuation ("7.30" and "730" are one)."""
    kept = (character for character in text.lower() if character.isalnum() or character in " '")
    return " ".join("".join(kept).split())


def test_the_window_follows_the_speech() -> None:
    assert [window_s(seconds) for seconds in (0.5, 4.0, 10.0, 25.0)] == [12.0, 12.0, 18.0, 30.0]
