"""One utterance through the call's own ears and floor, on a simulated clock: no engine, no synthesizer, no waiting.

The audio goes through the real listener (voice activity detection, recogniser stream); a pass of the recogniser and
the agent's reply take fixed times. What is left is what the floor decides, and that is repeatable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from livekit import rtc

from voice_agent.bench.simulated_recognizer import SimulatedRecognizer, Transcriber
from voice_agent.dialogue.listening import Listener
from voice_agent.speech.client import SpeechClient
from voice_agent.stt.plugin import STT
from voice_agent.telemetry.clock import CallClock
from voice_agent.turn_taking import (
    AgentAudioStarted,
    AgentFinished,
    AgentHeard,
    Commit,
    Decision,
    DropSpeculation,
    Event,
    Floor,
    PauseAgent,
    ResumeAgent,
    Speculate,
    StopAgent,
    Tick,
)

RATE_HZ = 16_000
FRAME_S = 0.02
SETTLE_TURNS = 40
"""Turns of the event loop after which every task has come as far as it can without the clock."""
SPEAKS_S = 2.0


@dataclass(frozen=True)
class Timing:
    """What the parts that aren't replayed are taken to cost (s).

    Attributes:
        pass_s: A pass of the recogniser.
        reply_s: From the request of a reply to its first audio.
        start_s: From the decision to the first packet, for a reply that is ready.
    """

    pass_s: float = 0.11
    reply_s: float = 0.3
    start_s: float = 0.08


@dataclass
class Replayed:
    """What happened (s, from the first sample on).

    Attributes:
        end: The caller's last audible sample.
        commits: When the floor took the turn to be over, and with which words.
        audible: When the agent became audible.
        decisions: Everything that the floor decided.
    """

    end: float = 0.0
    commits: list[tuple[float, str]] = field(default_factory=list)
    audible: list[float] = field(default_factory=list)
    decisions: list[tuple[float, Event, list[Decision]]] = field(default_factory=list)


class SimulatedAgent:
    """Does what the floor decides, as a call does, and is audible when its reply would be."""

    def __init__(self, timing: Timing, replayed: Replayed) -> None:
        self._timing = timing
        self._replayed = replayed
        self._prepared_at: float | None = None
        self._audible_at: float | None = None
        self._ends_at: float | None = None
        self._paused = False

    def carry_out(self, now: float, decision: Decision) -> None:
        """Take a decision made at ``now`` (s)."""
        match decision:
            case Speculate():
                self._prepared_at = now
            case DropSpeculation():
                self._prepared_at = None
            case Commit(text):
                self._replayed.commits.append((now, text))
                begun = now if self._prepared_at is None else self._prepared_at
                self._audible_at = max(now + self._timing.start_s, begun + self._timing.reply_s)
                self._prepared_at = None
                self._paused = False
            case PauseAgent():
                self._paused = True
            case ResumeAgent():
                self._paused = False
            case StopAgent():
                self._audible_at = self._ends_at = None
                self._paused = False
            case _:
                pass

    def tick(self, now: float) -> list[Event]:
        """What the floor is to be told of the agent by ``now`` (s)."""
        if self._ends_at is not None and now >= self._ends_at:
            self._ends_at = None
            return [AgentFinished(now)]
        if self._audible_at is None or self._paused or now < self._audible_at:
            return []
        self._audible_at, self._ends_at = None, now + SPEAKS_S
        self._replayed.audible.append(now)
        return [AgentAudioStarted(now)]


async def replay(
    pcm: npt.NDArray[np.int16], floor: Floor, transcriber: Transcriber, *, asked: str = "", timing: Timing | None = None
) -> Replayed:
    """Let a caller say ``pcm`` to a floor.

    Args:
        pcm: 16 kHz mono as the agent receives it, shape (samples,); 0.2 s of silence before the speech, and so much
            after it that the floor has decided.
        floor: A new one.
        transcriber: The recogniser.
        asked: What the agent had said before.
        timing: See `Timing`.
    """
    timing = timing or Timing()
    replayed, now = Replayed(), 0.0
    clock = CallClock(lambda: now)
    agent = SimulatedAgent(timing, replayed)

    def tell(event: Event) -> None:
        decisions = floor.handle(event)
        if decisions or not isinstance(event, Tick):
            replayed.decisions.append((event.at, event, decisions))
        for decision in decisions:
            agent.carry_out(event.at, decision)

    def fail(message: str) -> None:
        raise RuntimeError(message)

    def failed(error: Exception) -> None:
        raise error

    recognizer = SimulatedRecognizer(transcriber, timing.pass_s)
    listener = Listener(STT(cast(SpeechClient, recognizer), own_vad=False), clock, tell, fail, failed)
    frames: asyncio.Queue[rtc.AudioFrame | None] = asyncio.Queue()
    listening = asyncio.create_task(listener.listen(_frames(frames)), name="replay-listen")
    await _settle()

    if asked:
        tell(AgentAudioStarted(0.0))
        tell(AgentHeard(0.0, asked))
        tell(AgentFinished(0.0))
    size = round(FRAME_S * RATE_HZ)
    for start in range(0, pcm.size - size + 1, size):
        now = (start + size) / RATE_HZ
        recognizer.advance(now)
        await _settle()
        frames.put_nowait(rtc.AudioFrame(pcm[start : start + size].tobytes(), RATE_HZ, 1, size))
        await _settle()
        for event in agent.tick(now):
            tell(event)
        tell(Tick(now))
        if listening.done():
            listening.result()
    frames.put_nowait(None)
    await listening
    replayed.end = (listener.caller_audio_end_ms or 0.0) / 1000
    return replayed


async def _frames(queue: asyncio.Queue[rtc.AudioFrame | None]) -> AsyncIterator[rtc.AudioFrame]:
    while (frame := await queue.get()) is not None:
        yield frame


async def _settle() -> None:
    for _ in range(SETTLE_TURNS):
        await asyncio.sleep(0)


def described(replayed: Replayed) -> list[dict[str, Any]]:
    """The decisions as plain data, for a log."""
    return [
        {"at": round(at, 3), "event": str(event), "decisions": [str(decision) for decision in decisions]}
        for at, event, decisions in replayed.decisions
    ]
