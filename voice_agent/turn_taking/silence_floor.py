"""The first policy: the caller's silence and the look of the transcript decide.

Speculation starts with words that sound like all of a turn, even while the caller still makes a sound; else with the
transcript of the dip. The turn is committed when the silence has lasted as long as the wording asks for and everything
up to the silence is transcribed. A caller who goes on before the reply could be reacted to had only paused: the reply
is stopped and the turn reopened. Later, a sound over the agent ducks it, a longer one pauses it, a word that is no
backchannel stops it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from voice_agent.turn_taking.completeness import Completeness, asked_for, completeness
from voice_agent.turn_taking.events import (
    AgentAudioStarted,
    AgentFinished,
    AgentHeard,
    AgentReady,
    Commit,
    Decision,
    DropSpeculation,
    Duck,
    Event,
    Final,
    Partial,
    PauseAgent,
    Preflight,
    Reopen,
    ResumeAgent,
    Speculate,
    SpeechEnd,
    SpeechStart,
    StopAgent,
    Tick,
    TriggerEnd,
    TriggerStart,
)
from voice_agent.turn_taking.overlap import Overlap, Verdict
from voice_agent.turn_taking.silence_floor_config import SilenceFloorConfig
from voice_agent.turn_taking.transcript import TurnTranscript
from voice_agent.turn_taking.wording import is_backchannel, words


class _Agent(Enum):
    IDLE = "idle"
    REPLYING = "replying"
    """A turn is committed, nothing of the reply was heard."""
    SPEAKING = "speaking"


class SilenceFloor:
    """See the module. One object a call; ``handle`` is its whole interface."""

    def __init__(self, config: SilenceFloorConfig | None = None) -> None:
        self.config = config or SilenceFloorConfig()
        self._agent = _Agent.IDLE
        self._agent_started = 0.0
        self._agent_heard = ""
        self._heard_before = ""  # of the utterance before, should the latest one prove premature
        self._overlap: Overlap | None = None
        self._words = TurnTranscript()
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._turn_started: float | None = None
        self._trigger = False  # the fast trigger hears the caller
        self._trigger_at = 0.0
        self._gate = False  # the gate hears the caller
        self._silent_since: float | None = None
        self._covered = False  # the words reach up to the silence
        self._speculation: str | None = None

    @property
    def turn_text(self) -> str:
        """See :class:`voice_agent.turn_taking.floor.Floor`."""
        return self._words.text

    def handle(self, event: Event) -> list[Decision]:
        """See :class:`voice_agent.turn_taking.floor.Floor`."""
        handlers: dict[type[Event], Callable[[Any], list[Decision]]] = {
            TriggerStart: self._on_trigger_start,
            TriggerEnd: self._on_trigger_end,
            SpeechStart: self._on_speech_start,
            SpeechEnd: self._on_speech_end,
            Partial: self._on_words,
            Preflight: self._on_words,
            Final: self._on_words,
            AgentAudioStarted: self._on_agent_started,
            AgentHeard: self._on_agent_heard,
            AgentFinished: self._on_agent_finished,
            AgentReady: self._on_agent_ready,
            Tick: lambda event: [],
        }
        decisions = handlers[type(event)](event)
        claimed = self._judge_overlap(event.at)
        if StopAgent() in claimed and isinstance(event, (Partial, Preflight, Final)):
            claimed += self._speculate(event, went_on=True)
        return decisions + claimed + self._judge_turn(event.at)

    # What the caller's sound tells

    def _on_speech_start(self, event: SpeechStart) -> list[Decision]:
        self._gate = self._trigger = True
        self._silent_since = None
        self._covered = False
        self._words.keep()
        self._turn_started = event.at if self._turn_started is None else self._turn_started
        if self._agent is _Agent.IDLE:
            return []
        if self._overlap is None:
            self._overlap = self._new_overlap(event.at)
        self._overlap.ended = None
        self._overlap.settled = self._overlap.tentative = False
        if self._overlap.paused:
            return []
        if self._no_reaction(self._overlap):
            self._overlap.paused = True
            return [PauseAgent()]
        if self._overlap.ducked:
            return []
        self._overlap.ducked = True
        return [Duck()]

    def _on_trigger_start(self, event: TriggerStart) -> list[Decision]:
        self._trigger = True
        self._trigger_at = event.at
        if self._gate:
            # The caller goes on within the gate's hold. Without the gate it is more often a noise than a word.
            self._silent_since = None
            self._covered = False
            if self._overlap is not None:
                self._overlap.ended = None
                self._overlap.settled = False
        elif self._agent is _Agent.REPLYING and self._overlap is None:
            # Nothing was heard of the reply yet, and the trigger is faster than the gate by the length of a syllable:
            # if this is the caller going on, the agent has not cut in.
            self._overlap = self._new_overlap(event.at)
            self._overlap.tentative = self._overlap.paused = True
            return [PauseAgent()]
        return []

    def _on_trigger_end(self, event: TriggerEnd) -> list[Decision]:
        self._trigger = False
        return self._fall_silent(event.audio_end) if self._gate else []

    def _on_speech_end(self, event: SpeechEnd) -> list[Decision]:
        self._gate = self._trigger = False
        return self._fall_silent(event.audio_end)

    def _fall_silent(self, audio_end: float) -> list[Decision]:
        self._silent_since = audio_end if self._silent_since is None else self._silent_since
        if self._overlap is not None:
            self._overlap.ended = self._silent_since
        return []

    def _sounds(self, at: float) -> bool:
        """Whether the caller seems to be making a sound at ``at`` (s)."""
        return self._trigger and (self._gate or at - self._trigger_at < self.config.trigger_patience_s)

    def _new_overlap(self, at: float) -> Overlap:
        after_question = self._agent_heard.rstrip().endswith("?")
        return Overlap(at, after_question=after_question, unanswered=self._agent is _Agent.REPLYING)

    def _no_reaction(self, overlap: Overlap) -> bool:
        """Whether the caller began too soon to have reacted to the agent: they go on with the turn it answers."""
        return overlap.unanswered or overlap.started - self._agent_started <= self.config.reaction_s

    # What the recogniser tells

    def _on_words(self, event: Partial | Preflight | Final) -> list[Decision]:
        final = isinstance(event, Final)
        went_on = self._words.hear(event.text, final=final)
        if words(self.turn_text) and self._agent is not _Agent.IDLE and self._overlap is None:
            # The recogniser heard what the gate missed.
            self._overlap = self._new_overlap(event.at)
            self._overlap.ended = None if self._sounds(event.at) else event.at
        if self._overlap is not None:
            self._overlap.text = self.turn_text
            self._overlap.settled = final and self._overlap.ended is not None
        if not isinstance(event, Partial):
            self._covered = self._covered or not self._sounds(event.at)
        if words(self.turn_text):
            self._turn_started = event.at if self._turn_started is None else self._turn_started
            if not self._sounds(event.at) and self._silent_since is None:
                self._silent_since = event.at
        return [] if self._overlap is not None else self._speculate(event, went_on=went_on)

    def _speculate(self, event: Partial | Preflight | Final, *, went_on: bool) -> list[Decision]:
        """Have a reply prepared to words that may be all: those before a silence, and whole ones while it sounds."""
        text = self.turn_text
        speculated = self._speculation is not None and words(self._speculation) == words(text)
        if not words(text) or speculated:
            return []
        if isinstance(event, Partial):
            if completeness(text, asked_for(self._agent_heard)) is not Completeness.CLOSED:
                if self._speculation is None or not went_on:
                    return []
                self._speculation = None
                return [DropSpeculation()]
        elif self._sounds(event.at):
            return []
        self._speculation = text
        return [Speculate(text)]

    # What the agent's audio tells

    def _on_agent_started(self, event: AgentAudioStarted) -> list[Decision]:
        self._agent = _Agent.SPEAKING
        self._agent_started = event.at
        self._heard_before, self._agent_heard = self._agent_heard, ""
        caller_began_just_before = self._gate and self._trigger and self._overlap is None
        if caller_began_just_before:
            self._overlap = Overlap(event.at, paused=True)
            return [PauseAgent()]
        return []

    def _on_agent_heard(self, event: AgentHeard) -> list[Decision]:
        self._agent_heard = event.text
        if self._overlap is not None and event.text.rstrip().endswith("?"):
            self._overlap.after_question = True
        return []

    def _on_agent_finished(self, event: AgentFinished) -> list[Decision]:
        unheard = self._agent is _Agent.REPLYING
        self._agent = _Agent.IDLE
        overlap, self._overlap = self._overlap, None
        if unheard:
            # Whatever became of the reply: the words wait for what the caller says next.
            return self._reopen()
        if not event.answered:
            self._agent_heard = self._heard_before
            if overlap is None or not words(overlap.text):
                self._await_caller()
            return self._reopen()
        self._words.settle()
        # What the caller was saying over the end of the utterance is a turn of its own now; but a backchannel that
        # was over, too, asks for nothing.
        over = overlap is not None and overlap.ended is not None and bool(words(overlap.text))
        if over and overlap is not None and is_backchannel(overlap.text, after_question=overlap.after_question):
            self._drop_stretch()
        return []

    def _on_agent_ready(self, event: AgentReady) -> list[Decision]:
        silent = self._turn_started is None and not self._gate and not self._trigger
        if self._agent is _Agent.IDLE and silent and words(self.turn_text):
            return self._commit(self.turn_text, again=True)
        return []  # what the caller says now ends in a commit of its own, the older words in front

    def _reopen(self) -> list[Decision]:
        self._agent_heard = self._heard_before if self._agent is _Agent.SPEAKING else self._agent_heard
        return [Reopen()] if self._words.reopen() else []

    # Judgements

    def _judge_overlap(self, at: float) -> list[Decision]:
        overlap = self._overlap
        if overlap is None:
            return []
        if overlap.tentative and at - overlap.started >= self.config.trigger_patience_s:
            self._overlap = None
            return [ResumeAgent()]
        verdict = overlap.verdict(
            at,
            patience_s=self.config.noise_patience_s,
            burst_s=self.config.burst_s,
            transcript_patience_s=self.config.transcript_patience_s,
        )
        if verdict is Verdict.CLAIM:
            self._overlap = None
            decisions: list[Decision] = [StopAgent()]
            if self._no_reaction(overlap):
                decisions += self._reopen()
            else:
                self._words.settle()
            self._agent = _Agent.IDLE
            return decisions
        if verdict is Verdict.NOISE:
            self._overlap = None
            self._drop_stretch()
            return [ResumeAgent()] if overlap.paused or overlap.ducked else []
        if not overlap.paused and overlap.ended is None and at - overlap.started >= self.config.pause_after_s:
            overlap.paused = True
            return [PauseAgent()]
        return []

    def _drop_stretch(self) -> None:
        """The caller's sound was no turn: forget it, and its transcript when that comes late."""
        self._begin_turn()
        self._words.release()

    def _judge_turn(self, at: float) -> list[Decision]:
        if self._overlap is not None or self._agent is not _Agent.IDLE or self._turn_started is None:
            return []
        text = self.turn_text
        if words(text) and at - self._turn_started >= self.config.max_turn_s:
            return self._commit(text)
        if self._sounds(at) or self._silent_since is None:
            return []
        silence = at - self._silent_since
        if not words(text):
            if silence >= self.config.forget_s:
                self._begin_turn()
            return []
        if self._gate and silence < self.config.gate_patience_s:
            return []
        if not self._covered and silence < self.config.transcript_patience_s:
            return []
        if silence < self.config.hold_closed_s:
            return []
        return self._commit(text) if silence >= self.config.hold_for(text, asked_for(self._agent_heard)) else []

    def _commit(self, text: str, *, again: bool = False) -> list[Decision]:
        self._words.commit()
        self._await_caller()
        self._agent = _Agent.REPLYING
        return [Commit(text, again)]

    def _await_caller(self) -> None:
        """A turn of the caller begins with what they say next; a sound of theirs may be under way."""
        gate, trigger = self._gate, self._trigger
        self._begin_turn()
        self._gate, self._trigger = gate, trigger
