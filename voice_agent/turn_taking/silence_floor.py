"""The first policy: the caller's silence and the look of the transcript decide.

Speculation starts with the transcript of the dip; the turn is committed when the silence has lasted as long as the
wording asks for and everything up to the silence is transcribed. Over the agent, a sound ducks it, a longer one
pauses it, a word that is no backchannel stops it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from typing import Any

from voice_agent.turn_taking.events import (
    AgentAudioStarted,
    AgentFinished,
    AgentHeard,
    Commit,
    Decision,
    DropSpeculation,
    Duck,
    Event,
    Final,
    Partial,
    PauseAgent,
    Preflight,
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
from voice_agent.turn_taking.wording import is_backchannel, is_closed, is_unfinished, words


@dataclass(frozen=True, slots=True)
class SilenceFloorConfig:
    """All durations in seconds, counted from the caller's last sound unless said otherwise."""

    hold_s: float = 0.45
    """Silence that ends a turn."""
    hold_closed_s: float = 0.3
    """The same after a question, a courtesy or an answer."""
    hold_unfinished_s: float = 1.2
    """The same after a filler, a preposition, a trailing "so"."""
    gate_patience_s: float = 0.6
    """Silence after which the turn may end although the gate did not confirm it."""
    transcript_patience_s: float = 2.5
    """Silence after which the words at hand are taken although the last ones may be missing."""
    trigger_patience_s: float = 0.15
    """How long the nervous trigger alone can hold a turn open, or a reply back, without the gate."""
    forget_s: float = 3.0
    """Silence after which a sound without words is forgotten."""
    max_turn_s: float = 40.0
    """A turn's longest time, for lines on which nobody ever falls silent."""
    pause_after_s: float = 0.2
    """Overlap (from the gate's report on) after which the agent is silenced."""
    simultaneous_s: float = 0.15
    """Both began within this time: the agent yields at once."""
    noise_patience_s: float = 0.35
    """After a burst over the agent, time for words to come before the agent goes on."""
    burst_s: float = 0.4
    """Longest sound that is taken for a burst; a longer one is judged by its transcript."""

    def __post_init__(self) -> None:
        if not 0 < self.hold_closed_s <= self.hold_s <= self.hold_unfinished_s:
            raise ValueError("the holds must rise: hold_closed_s <= hold_s <= hold_unfinished_s, all above 0")

    def hold_for(self, text: str) -> float:
        """The silence (s) that ends a turn that said ``text``."""
        if is_unfinished(text):
            return self.hold_unfinished_s
        return self.hold_closed_s if is_closed(text) else self.hold_s


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
        self._overlap: Overlap | None = None
        self._released = False  # the stretch under way was judged to be no claim: its late words are dropped
        self._answered: list[str] | None = None  # words of the stretch that was committed before its final
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._turn_started: float | None = None
        self._trigger = False  # the fast trigger hears the caller
        self._trigger_at = 0.0
        self._gate = False  # the gate hears the caller
        self._silent_since: float | None = None
        self._covered = False  # the words reach up to the silence
        self._finished: list[str] = []  # stretches of speech with a final transcript
        self._current = ""  # words of the stretch under way
        self._speculation: str | None = None

    @property
    def turn_text(self) -> str:
        """The words of the caller's turn so far."""
        return " ".join(part for part in (*self._finished, self._current) if part).strip()

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
            Tick: lambda event: [],
        }
        decisions = handlers[type(event)](event)
        return decisions + self._judge_overlap(event.at) + self._judge_turn(event.at)

    # What the caller's sound tells

    def _on_speech_start(self, event: SpeechStart) -> list[Decision]:
        self._gate = self._trigger = True
        self._silent_since = None
        self._covered = False
        self._released = False
        self._turn_started = event.at if self._turn_started is None else self._turn_started
        if self._agent is _Agent.IDLE:
            return []
        if self._overlap is None:
            self._overlap = Overlap(event.at, after_question=self._agent_heard.rstrip().endswith("?"))
        self._overlap.ended = None
        self._overlap.settled = self._overlap.tentative = False
        if self._overlap.paused:
            return []
        both_at_once = self._agent is _Agent.REPLYING or event.at - self._agent_started <= self.config.simultaneous_s
        if both_at_once:
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
            self._overlap = Overlap(event.at, tentative=True, paused=True)
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

    # What the recogniser tells

    def _on_words(self, event: Partial | Preflight | Final) -> list[Decision]:
        if self._is_left_over(event):
            if self._overlap is not None:
                self._overlap.settled = isinstance(event, Final) and self._overlap.ended is not None
            return []
        if self._agent is not _Agent.IDLE and self._overlap is None:
            # The recogniser heard what the gate missed.
            self._overlap = Overlap(event.at, ended=None if self._sounds(event.at) else event.at)
        if self._overlap is not None:
            self._overlap.text = " ".join(self._new_words(event.text))
            self._overlap.settled = isinstance(event, Final)
        said_before = words(self.turn_text)
        self._current = event.text.strip()
        if isinstance(event, Final):
            self._finished += [self._current] if words(self._current) else []
            self._current = ""
        if isinstance(event, (Preflight, Final)):
            self._covered = self._covered or not self._sounds(event.at)
        if words(self.turn_text):
            self._turn_started = event.at if self._turn_started is None else self._turn_started
            if not self._sounds(event.at) and self._silent_since is None:
                self._silent_since = event.at
        went_on = words(self.turn_text) != said_before
        if self._overlap is not None:
            return []
        return self._speculate(event, went_on=went_on)

    def _is_left_over(self, event: Partial | Preflight | Final) -> bool:
        """Whether these words belong to a stretch that was judged or answered already."""
        if self._answered is not None and not self._new_words(event.text):
            # The stretch that was committed before its final came: the reply is under way.
            if isinstance(event, Final):
                self._answered = None
            return True
        if self._released and is_backchannel(event.text, after_question=False):
            if isinstance(event, Final):
                self._released = False
            return True
        return False

    def _new_words(self, text: str) -> list[str]:
        """The words of ``text`` that were not answered yet.

        A stretch that was committed before its final transcript is transcribed once more, a word here or there in
        another way: it is new only where it goes beyond the words that were answered.
        """
        spoken = words(text)
        if self._answered is None:
            return spoken
        known = len(self._answered)
        alike = SequenceMatcher(a=self._answered, b=spoken[:known]).ratio()
        return spoken[known:] if alike >= 0.5 else spoken

    def _speculate(self, event: Partial | Preflight | Final, *, went_on: bool) -> list[Decision]:
        text = self.turn_text
        if isinstance(event, Partial):
            stale = self._speculation is not None and went_on and words(text) != words(self._speculation)
            if stale:
                self._speculation = None
                return [DropSpeculation()]
            return []
        if not words(text) or self._sounds(event.at):
            return []
        if self._speculation is not None and words(self._speculation) == words(text):
            return []
        self._speculation = text
        return [Speculate(text)]

    # What the agent's audio tells

    def _on_agent_started(self, event: AgentAudioStarted) -> list[Decision]:
        self._agent = _Agent.SPEAKING
        self._agent_started = event.at
        self._agent_heard = ""
        overlap = self._overlap
        caller_began_just_before = self._gate and self._trigger and overlap is None
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
        self._agent = _Agent.IDLE
        overlap, self._overlap = self._overlap, None
        # What the caller was saying over the end of the utterance is a turn of its own now; but a backchannel that
        # was over, too, asks for nothing.
        over = overlap is not None and overlap.ended is not None and bool(words(overlap.text))
        if over and overlap is not None and is_backchannel(overlap.text, after_question=overlap.after_question):
            self._drop_stretch()
        return []

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
            self._agent = _Agent.IDLE
            self._answered = None
            return [StopAgent()]
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
        self._released = True

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
        return self._commit(text) if silence >= self.config.hold_for(text) else []

    def _commit(self, text: str) -> list[Decision]:
        pending_final = bool(self._current)
        gate, trigger = self._gate, self._trigger
        self._begin_turn()
        self._gate, self._trigger = gate, trigger
        self._answered = words(text) if pending_final else None
        self._agent = _Agent.REPLYING
        return [Commit(text)]
