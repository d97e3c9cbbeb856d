"""What a recogniser stream keeps of an utterance, and what it is told about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from livekit.agents import stt
from livekit.agents.types import TimedString
from livekit.agents.utils import shortuuid

from voice_agent.speech import protocol
from voice_agent.stt.utterance import Pcm, Utterance
from voice_agent.vad.events import VadEvent, VadEventType

SAME_CLOCK_MS = 200.0
"""The detector and the stream are fed the same frames, a frame or two apart; more than this is another clock."""


class Told(Enum):
    """What the owner of the VAD says."""

    STARTED = "started"
    PAUSED = "paused"
    ENDED = "ended"


@dataclass(frozen=True)
class Activity:
    """What the owner of the VAD said, queued with the audio so that both stay in order.

    Attributes:
        at_ms: When it happened.
        opens: Whether it may begin an utterance.
        told_ms: Where the detector stood when it knew; None where the owner counts in stream time.
    """

    told: Told
    at_ms: float
    opens: bool = True
    told_ms: float | None = None


@dataclass(frozen=True)
class Failure:
    """A pass failed; raised where the base class looks after retries."""

    error: Exception


@dataclass
class Pass:
    """A recogniser pass under way.

    Attributes:
        covers_ms: Stream time up to which it hears.
    """

    covers_ms: float
    task: asyncio.Task[stt.SpeechData | None]


@dataclass
class Cut:
    """The front of a long utterance, recognised on its own."""

    audio: Pcm
    end_ms: float
    task: asyncio.Task[None] = field(init=False)


@dataclass
class Current:
    """The utterance under way, and the passes over it."""

    utterance: Utterance
    onset_ms: float
    request_id: str = field(default_factory=lambda: shortuuid("utt_"))
    partial: Pass | None = None
    preflight: Pass | None = None
    cuts: list[Cut] = field(default_factory=list)
    last_partial_ms: float = 0.0
    last_text: str = ""


def activity_of(event: VadEvent) -> Activity:
    """A detector event: its gate opens and closes utterances, its trigger marks their dips."""
    told = {VadEventType.SPEECH_END: Told.ENDED, VadEventType.TRIGGER_END: Told.PAUSED}.get(event.type, Told.STARTED)
    opens = event.type is VadEventType.SPEECH_START
    return Activity(told, event.at_ms, opens=opens, told_ms=event.detected_ms)


def speech_data(text: str, result: protocol.Transcript, offset_ms: float, covers_ms: float) -> stt.SpeechData:
    """A pass's result as livekit's type; times in seconds of the stream.

    Args:
        text: The guarded text.
        result: The pass's own result.
        offset_ms: Stream time of the audio's first sample.
        covers_ms: Stream time behind its last one.
    """
    words = [
        TimedString(
            word.text + " ",
            start_time=(offset_ms + word.start_ms) / 1000,
            end_time=(offset_ms + word.end_ms) / 1000,
        )
        for word in result.words
    ]
    return stt.SpeechData(
        language="en",  # type: ignore[arg-type]  # SpeechData converts it
        text=text,
        start_time=offset_ms / 1000,
        end_time=covers_ms / 1000,
        confidence=min(1.0, float(np.exp(result.avg_logprob))),
        words=words or None,
        metadata={
            "covers_ms": covers_ms,
            "queue_ms": result.queue_ms,
            "compute_ms": result.compute_ms,
            "no_speech_prob": result.no_speech_prob,
        },
    )
