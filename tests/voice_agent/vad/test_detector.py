import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from livekit import rtc
from livekit.agents import vad as livekit_vad

from voice_agent.bench.clips import load_clips
from voice_agent.vad.detector import VoiceActivityDetector
from voice_agent.vad.events import VadEventType
from voice_agent.vad.livekit_vad import VAD

RATE = 16_000
AUDIBLE = 10 ** (-45 / 20)


class ScriptedTrigger:
    frame_samples = 160

    def is_speech(self, frame: bytes) -> bool:
        return bool(np.frombuffer(frame, np.int16).any())


class ScriptedGate:
    frame_samples = 512

    def probability(self, frame: bytes) -> float:
        return 0.9 if np.frombuffer(frame, np.int16).any() else 0.0


def scripted() -> VoiceActivityDetector:
    return VoiceActivityDetector(trigger_engine=ScriptedTrigger(), gate_engine=ScriptedGate())


def pulse(lead_ms: int, speech_ms: int, tail_ms: int) -> bytes:
    ones = np.full(speech_ms * 16, 1000, np.int16)
    return np.concatenate([np.zeros(lead_ms * 16, np.int16), ones, np.zeros(tail_ms * 16, np.int16)]).tobytes()


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=30))
def test_events_do_not_depend_on_how_the_audio_is_cut(sizes: list[int]) -> None:
    pcm = pulse(320, 640, 640)
    whole, pieces = scripted().push(pcm), []
    detector, start = scripted(), 0
    for size in sizes:
        pieces += detector.push(pcm[start : start + size])
        start += size
    pieces += detector.push(pcm[start:])
    assert sorted(whole, key=lambda e: (e.detected_ms, e.type)) == sorted(pieces, key=lambda e: (e.detected_ms, e.type))


def test_both_engines_share_one_clock() -> None:
    events = {event.type: event for event in scripted().push(pulse(320, 640, 640))}
    assert events[VadEventType.TRIGGER_START].at_ms == events[VadEventType.SPEECH_START].at_ms == 320.0
    assert events[VadEventType.TRIGGER_END].at_ms == events[VadEventType.SPEECH_END].at_ms == 960.0
    assert events[VadEventType.TRIGGER_END].detected_ms == 990.0
    assert events[VadEventType.SPEECH_END].detected_ms >= 960.0 + 250.0


@pytest.mark.parametrize("name", ["book", "close", "parking"])
def test_real_speech_is_found_where_it_is(name: str) -> None:
    clip = next(clip for clip in load_clips() if clip.name == name)
    audible = np.flatnonzero(np.abs(clip.pcm) > 32768 * AUDIBLE)
    onset_ms, end_ms = 1000 + audible[0] / 16, 1000 + audible[-1] / 16
    silence = np.zeros(RATE, np.int16)
    detector = VoiceActivityDetector()
    events = detector.push(np.concatenate([silence, clip.pcm, silence]).tobytes())
    starts = [event for event in events if event.type is VadEventType.SPEECH_START]
    ends = [event for event in events if event.type is VadEventType.SPEECH_END]
    assert abs(starts[0].at_ms - onset_ms) < 150
    assert abs(ends[-1].at_ms - end_ms) < 200
    last_dip = [event for event in events if event.type is VadEventType.TRIGGER_END][-1]
    assert last_dip.detected_ms < ends[-1].detected_ms - 100  # the trigger knows long before the gate
    assert not detector.speaking
    assert detector.position_ms == pytest.approx((clip.pcm.size + 2 * RATE) / 16, abs=0.1)


def test_silence_and_noise_do_not_open_the_gate() -> None:
    rng = np.random.default_rng(1)
    hum = 300 * np.sin(2 * np.pi * 60 * np.arange(5 * RATE) / RATE)
    noise = rng.normal(0, 300, 5 * RATE)
    for sound in (np.zeros(5 * RATE), hum, noise):
        events = VoiceActivityDetector().push(sound.astype(np.int16).tobytes())
        assert VadEventType.SPEECH_START not in {event.type for event in events}


async def test_livekit_interface_reports_the_gate() -> None:
    clip = load_clips()[0]
    pcm = np.concatenate([np.zeros(RATE, np.int16), clip.pcm, np.zeros(RATE, np.int16)]).tobytes()
    stream = VAD().stream()
    for start in range(0, len(pcm), 640):
        part = pcm[start : start + 640]
        stream.push_frame(rtc.AudioFrame(part, RATE, 1, len(part) // 2))
    stream.end_input()
    events = [event async for event in stream]
    await stream.aclose()
    kinds = [event.type for event in events if event.type is not livekit_vad.VADEventType.INFERENCE_DONE]
    assert kinds == [livekit_vad.VADEventType.START_OF_SPEECH, livekit_vad.VADEventType.END_OF_SPEECH]
    end = next(event for event in events if event.type is livekit_vad.VADEventType.END_OF_SPEECH)
    assert end.speech_duration == pytest.approx(clip.pcm.size / RATE, abs=0.5)
    assert end.silence_duration >= 0.25
