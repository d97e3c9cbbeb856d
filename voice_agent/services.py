"""What the calls of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from livekit.agents import tts

from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.dialogue.phrases import Phrases
from voice_agent.llm import LLM
from voice_agent.stt.plugin import STT
from voice_agent.telemetry.metrics import Metrics
from voice_agent.telemetry.store import RecordStore
from voice_agent.turn_taking import Floor, SilenceFloor


@dataclass
class Services:
    """What calls share: one of each in the process.

    Attributes:
        model: The language model.
        recognizer: Makes a call's recogniser.
        voice: Makes a call's synthesizer.
        phrases: Prepared audio.
        conversation: Makes a call's dialogue.
        store: The record.
        metrics: Prometheus.
        info: What ``/api/info`` says; goes into each call's record.
        max_call_s: Longest time of a call (s).
        floor: Makes a call's floor.
    """

    model: LLM
    recognizer: Callable[[], STT]
    voice: Callable[[], tts.TTS[Any]]
    phrases: Phrases
    conversation: Callable[[], Conversation]
    store: RecordStore
    metrics: Metrics
    info: dict[str, str]
    max_call_s: float = 900.0
    floor: Callable[[], Floor] = SilenceFloor
