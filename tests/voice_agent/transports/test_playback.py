"""The contract of the audio output: each flushed segment is answered once, with what was really heard."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from livekit import rtc
from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT, TimedString
from livekit.agents.voice import io

from voice_agent.transports.audio_output import PlaybackOutput
from voice_agent.transports.playback import FRAME_SAMPLES, SAMPLE_RATE_HZ, Playback, Segment


def voice(seconds: float, level: int = 10_000) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.full(round(seconds * SAMPLE_RATE_HZ), level, np.int16)


def spoken(word: str, seconds: float, *, end_s: float, rate_hz: int = SAMPLE_RATE_HZ) -> rtc.AudioFrame:
    samples = np.full(round(seconds * rate_hz), 10_000, np.int16)
    times = [TimedString(word, start_time=end_s - seconds, end_time=end_s)]
    return rtc.AudioFrame(samples.tobytes(), rate_hz, 1, samples.size, userdata={USERDATA_TIMED_TRANSCRIPT: times})


class Recorder:
    def __init__(self) -> None:
        self.started: list[Segment] = []
        self.finished: list[tuple[float, bool]] = []
        self.playback = Playback(self.started.append, self._finished)

    def _finished(self, segment: Segment) -> None:
        self.finished.append((segment.position_s, segment.cut))

    def pull(self, seconds: float) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
        return np.concatenate([self.playback.pull() for _ in range(round(seconds * 50))])


def test_a_segment_is_played_to_its_end_without_a_hole() -> None:
    recorder = Recorder()
    for _ in range(7):
        recorder.playback.capture(voice(0.05))
    recorder.playback.flush()
    pulled = recorder.pull(0.4)
    assert np.count_nonzero(pulled) == round(0.35 * SAMPLE_RATE_HZ)
    assert (pulled[: round(0.35 * SAMPLE_RATE_HZ)] == 10_000).all()
    assert recorder.finished == [(pytest.approx(0.35), False)]
    assert recorder.playback.underruns == 0


def test_a_first_sample_is_not_lost() -> None:
    recorder = Recorder()
    burst = np.array([32_000, -32_000], np.int16)
    recorder.playback.capture(burst)
    recorder.playback.flush()
    assert recorder.pull(0.02)[:2].tolist() == burst.tolist()


def test_a_segment_that_runs_dry_counts_underruns_and_goes_on() -> None:
    recorder = Recorder()
    recorder.playback.capture(voice(0.02))
    recorder.pull(0.06)
    recorder.playback.capture(voice(0.02))
    recorder.playback.flush()
    recorder.pull(0.04)
    assert recorder.playback.underruns == 2
    assert recorder.finished == [(pytest.approx(0.04), False)]


def test_a_pause_loses_nothing_and_may_be_repeated() -> None:
    recorder = Recorder()
    ramp = (np.arange(round(0.4 * SAMPLE_RATE_HZ)) % 20_000 + 1).astype(np.int16)
    recorder.playback.capture(ramp)
    recorder.playback.flush()
    before = recorder.pull(0.1)
    for _ in range(3):
        recorder.playback.pause()
    silence = recorder.pull(0.2)
    recorder.playback.resume()
    recorder.playback.resume()
    after = recorder.pull(0.3)
    fade = round(0.005 * SAMPLE_RATE_HZ)
    assert not silence[fade:].any()
    assert (before == ramp[: before.size]).all()
    # After the fade-in of 5 ms the samples continue where the pause began.
    assert (after[fade : ramp.size - before.size] == ramp[before.size + fade :]).all()
    assert recorder.finished == [(pytest.approx(0.4), False)]


def test_ducking_lowers_and_resume_restores() -> None:
    recorder = Recorder()
    recorder.playback.capture(voice(1.0))
    recorder.pull(0.1)
    recorder.playback.duck(0.25)
    assert abs(int(recorder.pull(0.04)[-1]) - 2_500) <= 1
    recorder.playback.resume()
    assert recorder.pull(0.04)[-1] == 10_000


def test_cleared_before_anything_was_played_nothing_was_heard() -> None:
    recorder = Recorder()
    recorder.playback.capture(voice(0.5))
    recorder.playback.flush()
    recorder.playback.clear()
    recorder.playback.clear()
    assert recorder.finished == [(0.0, True)]
    assert recorder.started == []
    assert not recorder.pull(0.1).any()


def test_a_new_segment_after_a_clear_is_not_paused() -> None:
    recorder = Recorder()
    recorder.playback.capture(voice(0.5))
    recorder.playback.flush()
    recorder.pull(0.1)
    recorder.playback.pause()
    recorder.playback.clear()
    recorder.playback.capture(voice(0.02))
    recorder.playback.flush()
    assert (recorder.pull(0.04)[-FRAME_SAMPLES * 2 :] == 10_000).any()


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("capture"), st.integers(1, 5_000)),
        st.tuples(st.sampled_from(["flush", "clear", "pause", "resume", "duck", "pull"]), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(ACTIONS)
def test_every_flushed_segment_is_answered_exactly_once(actions: list[tuple[str, int]]) -> None:
    async def session() -> None:
        output = PlaybackOutput()
        finished: list[io.PlaybackFinishedEvent] = []
        output.on("playback_finished", finished.append)
        segments, capturing = 0, False
        for action, size in actions:
            if action == "capture":
                frame = rtc.AudioFrame(voice(size / SAMPLE_RATE_HZ).tobytes(), SAMPLE_RATE_HZ, 1, size)
                await output.capture_frame(frame)
                segments += not capturing
                capturing = True
            elif action == "flush":
                output.flush()
                capturing = False
            elif action == "clear":
                output.clear_buffer()
            elif action == "pull":
                output.playback.pull()
            else:
                getattr(output, action)()
            assert len(finished) <= segments
        output.flush()
        output.resume()
        while output.playback.current is not None:
            output.playback.pull()
        assert len(finished) == segments == output.captured_playout_segments
        assert all(event.playback_position >= 0 for event in finished)
        await asyncio.wait_for(output.wait_for_playout(), 1)

    asyncio.run(session())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 30))
def test_case_21_heard_words_are_those_whose_audio_had_ended(tenths: int) -> None:
    said = [(f"word{n} ", 0.3 * (n + 1)) for n in range(10)]

    async def session() -> None:
        output = PlaybackOutput()
        finished: list[io.PlaybackFinishedEvent] = []
        output.on("playback_finished", finished.append)
        for word, end_s in said:
            await output.capture_frame(spoken(word, 0.3, end_s=end_s))
        output.flush()
        for _ in range(5 * tenths):
            output.playback.pull()
        output.clear_buffer()
        (event,) = finished
        expected = sum(end_s <= tenths / 10 + 1e-9 for _, end_s in said)
        if tenths < 30:
            assert event.synchronized_transcript is not None
            heard = event.synchronized_transcript.split()
            assert abs(len(heard) - expected) <= 1
            assert heard == [word.strip() for word, _ in said[: len(heard)]]
        else:
            assert not event.interrupted

    asyncio.run(session())


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, SAMPLE_RATE_HZ])
def test_a_segment_of_any_rate_is_played_in_full_with_its_words(rate_hz: int) -> None:
    async def session() -> None:
        output = PlaybackOutput()
        finished: list[io.PlaybackFinishedEvent] = []
        output.on("playback_finished", finished.append)
        for number in range(2):
            for part in range(5):
                word = f"{number}.{part} "
                await output.capture_frame(spoken(word, 0.1, end_s=0.1 * (part + 1), rate_hz=rate_hz))
            output.flush()
        while output.playback.current is not None:
            segment = output.playback.current
            output.playback.pull()
        assert [event.playback_position for event in finished] == [pytest.approx(0.5, abs=0.002)] * 2
        assert segment.heard_text() == "1.0 1.1 1.2 1.3 1.4 "

    asyncio.run(session())


def test_words_of_a_segment_that_was_stopped_do_not_reach_the_next() -> None:
    async def session() -> None:
        output = PlaybackOutput()
        finished: list[io.PlaybackFinishedEvent] = []
        output.on("playback_finished", finished.append)
        await output.capture_frame(spoken("lost ", 0.1, end_s=0.1))
        output.clear_buffer()
        await output.capture_frame(spoken("too ", 0.1, end_s=0.2))
        output.flush()
        await output.capture_frame(spoken("heard ", 0.02, end_s=0.02))
        output.flush()
        segment = output.playback.current
        assert segment is not None
        output.playback.pull()
        assert segment.heard_text() == "heard "
        assert [event.synchronized_transcript for event in finished] == ["", None]

    asyncio.run(session())


def test_closed_output_answers_whatever_still_comes() -> None:
    async def session() -> None:
        output = PlaybackOutput()
        finished: list[io.PlaybackFinishedEvent] = []
        output.on("playback_finished", finished.append)
        output.playback.close()
        await output.capture_frame(rtc.AudioFrame(voice(0.1).tobytes(), SAMPLE_RATE_HZ, 1, 4_800))
        output.flush()
        assert [event.interrupted for event in finished] == [True]

    asyncio.run(session())
