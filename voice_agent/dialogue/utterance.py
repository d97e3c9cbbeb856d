"""Something the agent says, and how the session begins to say it."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from livekit.agents.voice.speech_handle import SpeechHandle

from voice_agent.dialogue.nodes import CURRENT_REPLY
from voice_agent.dialogue.reply import Reply
from voice_agent.dialogue.retraction import Checkpoint
from voice_agent.telemetry.record import TurnRecord


@dataclass
class Utterance:
    """Something the agent says.

    Attributes:
        turn: The turn its captions belong to.
        handle: The session's handle.
        reply: Where it comes from; None for a fixed phrase.
        record: The turn's record, if it answers a turn.
        before: The dialogue before the turn that it answers was committed.
        caption: Its text so far, as captioned.
        audible: Its first packet was sent.
        over: It has ended or was stopped; what still comes of it doesn't count.
        withdrawn: Its record is none: the caller had only paused, and nothing of it was heard.
        then_hang_up: Why the call ends after it; empty if it doesn't.
    """

    turn: int
    handle: SpeechHandle
    reply: Reply | None = None
    record: TurnRecord | None = None
    before: Checkpoint | None = None
    caption: str = ""
    audible: bool = False
    over: bool = False
    withdrawn: bool = False
    then_hang_up: str = ""


def speaking(reply: Reply | None, begin: Callable[..., SpeechHandle], *args: Any, **named: Any) -> SpeechHandle:
    """Begin a speech whose tasks inherit a context with ``reply``, so that the agent's nodes find it."""
    context = contextvars.copy_context()
    context.run(CURRENT_REPLY.set, reply)
    return context.run(begin, *args, **named)
