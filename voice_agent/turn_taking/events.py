"""What the floor is told, and what it answers.

Every event carries ``at``: seconds on the call's monotonic clock, which starts at 0 when the call is answered.
Texts are the recogniser's, as written.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``at`` (s)."""

    at: float


@dataclass(frozen=True, slots=True)
class SpeechStart(Event):
    """The voice-activity gate hears the caller."""


@dataclass(frozen=True, slots=True)
class TriggerEnd(Event):
    """The fast voice-activity trigger fell: the caller may have ended at ``audio_end`` (s)."""

    audio_end: float


@dataclass(frozen=True, slots=True)
class TriggerStart(Event):
    """The fast trigger hears the caller again, before the gate closed: it was a pause."""


@dataclass(frozen=True, slots=True)
class SpeechEnd(Event):
    """The gate confirms: the caller's last sound was at ``audio_end`` (s)."""

    audio_end: float


@dataclass(frozen=True, slots=True)
class Partial(Event):
    """The recogniser's running guess at the words of the current stretch of speech."""

    text: str


@dataclass(frozen=True, slots=True)
class Preflight(Event):
    """The words of the current stretch up to a dip of the energy: final if the caller has ended there."""

    text: str


@dataclass(frozen=True, slots=True)
class Final(Event):
    """The words of a stretch of speech that is over. Empty where the guard found no words in it."""

    text: str


@dataclass(frozen=True, slots=True)
class AgentAudioStarted(Event):
    """The first packet with the agent's voice was sent."""


@dataclass(frozen=True, slots=True)
class AgentHeard(Event):
    """What the caller has heard of the agent's current utterance so far."""

    text: str


@dataclass(frozen=True, slots=True)
class AgentFinished(Event):
    """The agent's utterance is over: played out, stopped, or ended without a sound.

    ``answered`` is False where it only said that an answer will come: the caller's turn is still to be answered.
    """

    answered: bool = True


@dataclass(frozen=True, slots=True)
class AgentReady(Event):
    """The agent is able to give the answer that it has put off."""


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time passed (one every 20 ms)."""


class Decision:
    """What the call shall do now."""


@dataclass(frozen=True, slots=True)
class Speculate(Decision):
    """Prepare a reply to ``text``; nothing of it may be heard or change the world yet."""

    text: str


@dataclass(frozen=True, slots=True)
class DropSpeculation(Decision):
    """Throw the prepared reply away: the caller went on."""


@dataclass(frozen=True, slots=True)
class Commit(Decision):
    """The caller's turn is over and said ``text``: answer it.

    ``again``: an answer to it was put off, and the caller has said nothing since.
    """

    text: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Duck(Decision):
    """Lower the agent's voice: the caller made a sound while it speaks."""


@dataclass(frozen=True, slots=True)
class PauseAgent(Decision):
    """Silence the agent, keep what it still has to say."""


@dataclass(frozen=True, slots=True)
class ResumeAgent(Decision):
    """Go on at full volume, where it was paused."""


@dataclass(frozen=True, slots=True)
class StopAgent(Decision):
    """The caller claims the turn: end the utterance, cancel what produces it."""


@dataclass(frozen=True, slots=True)
class Reopen(Decision):
    """The turn committed last wasn't over, or nothing of an answer to it was heard: its words come once more, at the
    front of the next commit. Take back what answering it has changed.
    """
