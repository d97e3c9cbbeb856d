"""The plugin's part: when text is spoken, which words are whose, what an error becomes. A voice of beeps."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from livekit.agents import APIConnectionError, APIConnectOptions, APIStatusError
from livekit.agents.tts import SynthesizedAudio
from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT, TimedString

from voice_agent.speech.client import SpeechClient, SynthesizedChunk
from voice_agent.speech.errors import SpeechConnectionError, SpeechRequestError
from voice_agent.speech.protocol import SpokenWord
from voice_agent.tts.plugin import SAMPLE_RATE_HZ, TTS

WORD_MS = 100.0
ONE_WORD = b"\x01\x02" * (SAMPLE_RATE_HZ // 10)


class BeepClient:
    """Speaks every word in 100 ms, one chunk a word."""

    def __init__(self, failures: list[Exception] | None = None) -> None:
        self.utterances: list[list[str]] = []
        self.trimmed: list[bool] = []
        self.failures = failures or []
        self.closed = 0

    async def synthesize(
        self, words: list[str], *, trim_lead: bool = False, length_scale: float | None = None
    ) -> AsyncGenerator[SynthesizedChunk]:
        if self.failures:
            raise self.failures.pop(0)
        self.utterances.append(words)
        self.trimmed.append(trim_lead)
        times = [SpokenWord(index=n, start_ms=n * WORD_MS, end_ms=(n + 1) * WORD_MS) for n in range(len(words))]
        try:
            for number in range(len(words)):
                await asyncio.sleep(0)
                yield SynthesizedChunk(ONE_WORD, SAMPLE_RATE_HZ, times if number == 0 else [])
        finally:
            self.closed += 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def plugin(client: BeepClient, clock: Clock | None = None) -> TTS:
    options = APIConnectOptions(max_retry=2, retry_interval=0.0, timeout=5.0)
    return TTS(cast(SpeechClient, client), conn_options=options, clock=clock or Clock())


async def speak(voice: TTS, *tokens: str) -> list[SynthesizedAudio]:
    stream = voice.stream()
    for token in tokens:
        stream.push_text(token)
    stream.end_input()
    audio = [event async for event in stream]
    await stream.aclose()
    return audio


def timed(audio: list[SynthesizedAudio]) -> list[TimedString]:
    return [word for event in audio for word in event.frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, [])]


def seconds(audio: list[SynthesizedAudio]) -> float:
    return sum(event.frame.duration for event in audio)


async def test_words_are_timed_as_written() -> None:
    client = BeepClient()
    audio = await speak(plugin(client), "It is ", "$4", ", Dr. Lee.")
    assert client.utterances == [["It", "is", "four", "dollars,", "doctor", "Lee."]]
    assert [(str(w), w.start_time, w.end_time) for w in timed(audio)] == [
        ("It ", 0.0, 0.1),
        ("is ", 0.1, 0.2),
        ("$4, ", 0.2, 0.4),
        ("Dr. ", 0.4, 0.5),
        ("Lee.", 0.5, 0.6),
    ]
    assert seconds(audio) == pytest.approx(0.6, abs=0.001)


async def test_a_whole_reply_is_one_utterance() -> None:
    client = BeepClient()
    await speak(plugin(client), "Sure, a table for four. ", "What name, ", "please?")
    assert len(client.utterances) == 1


async def test_the_first_clause_is_spoken_before_the_rest_has_come() -> None:
    client = BeepClient()
    stream = plugin(client).stream()
    stream.push_text("Of course, we have a table, ")
    stream.push_text("and")
    first = await anext(stream)
    assert client.utterances == [["Of", "course,", "we", "have", "a", "table,"]]
    assert first.frame.samples_per_channel > 0
    stream.push_text(" it is by the window.")
    stream.end_input()
    rest = [event async for event in stream]
    await stream.aclose()
    assert client.utterances[1:] == [["and", "it", "is", "by", "the", "window."]]
    assert "".join(timed([first, *rest])) == "Of course, we have a table, and it is by the window."


async def test_with_audio_to_spare_a_sentence_is_awaited() -> None:
    """The clock stands still, so the first sentence's 1.6 s lie ahead of the listener."""
    client = BeepClient()
    stream = plugin(client).stream()
    stream.push_text("One two three four five six seven eight nine ten eleven twelve thirteen fourteen one two. Now")
    await anext(stream)
    stream.push_text(" we have a table for four people by the window, and ")
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(client.utterances) == 1
    stream.push_text("one at the bar.")
    stream.end_input()
    assert [event async for event in stream]
    await stream.aclose()
    assert " ".join(client.utterances[1]) == "Now we have a table for four people by the window, and one at the bar."


async def test_only_the_first_utterance_is_trimmed() -> None:
    client = BeepClient()
    await speak(plugin(client), "One two three four five six seven eight nine ten, and eleven. " * 3)
    assert client.trimmed[0] is True
    assert not any(client.trimmed[1:])


async def test_markup_and_emoji_are_captions_only() -> None:
    client = BeepClient()
    text = "😀 **Great**, see [the menu](x.com/m)! 👍"
    audio = await speak(plugin(client), text)
    assert client.utterances == [["Great,", "see", "the", "menu!"]]
    assert "".join(timed(audio)) == text


async def test_a_reply_without_a_sound_is_a_moment_of_silence() -> None:
    client = BeepClient()
    audio = await speak(plugin(client), "😀")
    assert client.utterances == []
    assert "".join(timed(audio)) == "😀"
    assert 0 < seconds(audio) < 0.1


async def test_closing_stops_the_synthesis() -> None:
    client = BeepClient()
    stream = plugin(client).stream()
    stream.push_text("One two three four five six seven eight. Nine")
    await anext(stream)
    await stream.aclose()
    assert client.closed == 1


async def test_a_lost_connection_before_the_first_audio_is_retried() -> None:
    client = BeepClient([SpeechConnectionError("gone")])
    audio = await speak(plugin(client), "Hello there.")
    assert client.utterances == [["Hello", "there."]]
    assert "".join(timed(audio)) == "Hello there."


async def test_errors_are_livekit_s() -> None:
    with pytest.raises(APIConnectionError, match="gone"):
        await speak(plugin(BeepClient([SpeechConnectionError("gone")] * 3)), "Hello.")
    with pytest.raises(APIStatusError, match="no words") as caught:
        await speak(plugin(BeepClient([SpeechRequestError("bad_request", "no words")])), "Hello.")
    assert caught.value.status_code == 400


async def test_synthesize_gives_the_whole_audio() -> None:
    frame = await plugin(BeepClient()).synthesize("Hello there.").collect()
    assert frame.sample_rate == SAMPLE_RATE_HZ
    assert frame.duration == pytest.approx(0.2, abs=0.03)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.sampled_from(["Yes, ", "$4", "9.95 ", "Dr. ", "Lee. ", "It is ", "😀 ", "**now** ", "7.30, ", "\n"]),
        max_size=15,
    )
)
def test_captions_joined_are_the_text_and_times_never_go_back(tokens: list[str]) -> None:
    text = "".join(tokens)
    audio = asyncio.run(speak(plugin(BeepClient()), *tokens)) if text.strip() else []
    words = timed(audio)
    if text.strip():
        assert "".join(words) == text
    assert all(a.start_time <= a.end_time <= b.start_time for a, b in itertools.pairwise(words))
    assert all(float(word.end_time) <= seconds(audio) + 0.001 for word in words)


async def test_the_real_voice_says_the_words_when_it_says_it_does(speech_client: SpeechClient) -> None:
    """Cut the audio at the times of the words: what the recogniser hears in the first half is the first half."""
    import numpy as np
    from livekit import rtc

    audio = await speak(TTS(speech_client), "The kitchen closes at nine thirty, but the bar stays open until midnight.")
    words = timed(audio)
    pcm = np.concatenate([np.frombuffer(bytes(event.frame.data), np.int16) for event in audio])
    cut = next(float(word.start_time) for word in words if str(word).startswith("but"))
    head = pcm[: int(cut * SAMPLE_RATE_HZ)]
    resampler = rtc.AudioResampler(SAMPLE_RATE_HZ, 16_000)
    frames = resampler.push(rtc.AudioFrame(head.tobytes(), SAMPLE_RATE_HZ, 1, head.size)) + resampler.flush()
    heard = await speech_client.transcribe(b"".join(bytes(frame.data) for frame in frames), stream="test")
    assert heard.text.lower().startswith("the kitchen closes at")
    assert "30" in heard.text or "thirty" in heard.text
    assert "bar" not in heard.text.lower()
