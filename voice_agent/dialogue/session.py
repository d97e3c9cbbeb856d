"""The livekit-agents session of a call: it plays, interrupts and keeps the history, and decides nothing."""

from __future__ import annotations

from typing import Any

from livekit.agents import AgentSession, APIConnectOptions, TurnHandlingOptions, tts
from livekit.agents.voice.agent_session import SessionConnectOptions

from voice_agent.llm import LLM
from voice_agent.stt.plugin import STT

_QUICK = APIConnectOptions(max_retry=0, timeout=2.0)


def make_session(recognizer: STT, model: LLM, voice: tts.TTS[Any]) -> AgentSession[None]:
    """A session in manual mode: turns are the floor's, errors the call's."""
    return AgentSession(
        stt=recognizer,
        llm=model,
        tts=voice,
        vad=None,  # the listener has its own
        turn_handling=TurnHandlingOptions(
            turn_detection="manual",
            preemptive_generation={"enabled": False},
        ),
        use_tts_aligned_transcript=True,
        tts_text_transforms=None,
        aec_warmup_duration=None,
        user_away_timeout=None,
        session_close_transcript_timeout=0.0,
        conn_options=SessionConnectOptions(
            llm_conn_options=_QUICK, tts_conn_options=_QUICK, max_unrecoverable_errors=1_000_000
        ),
    )
