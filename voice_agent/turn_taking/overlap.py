"""A stretch of caller speech over the agent: a claim to the turn, a backchannel, or a mere noise?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from voice_agent.turn_taking.wording import is_backchannel, words


class Verdict(Enum):
    """What an overlap is, as far as can be told."""

    OPEN = "open"
    CLAIM = "claim"
    NOISE = "noise"


@dataclass(slots=True)
class Overlap:
    """One overlap, from the caller's onset on.

    Attributes:
        started: When the gate heard the caller (s).
        after_question: What the caller had heard of the agent ended in a question.
        unanswered: Nothing of the agent's reply was heard when it began: the caller goes on with their turn.
        ended: When the caller's sound ended (s); None while it lasts.
        text: The recogniser's latest words for it.
        settled: The recogniser is done with it, and no more words will come.
        tentative: Only the nervous trigger hears it so far.
        ducked: The agent's voice was lowered.
        paused: The agent was silenced.
    """

    started: float
    after_question: bool = False
    unanswered: bool = False
    ended: float | None = None
    text: str = ""
    settled: bool = False
    tentative: bool = False
    ducked: bool = False
    paused: bool = False

    def verdict(self, at: float, *, patience_s: float, burst_s: float, transcript_patience_s: float) -> Verdict:
        """Judge at time ``at`` (s).

        A word that is no backchannel claims the turn; where the agent was silent any word does, a filler too. Length
        alone claims nothing: the agent is silent by then, and a long noise must not cost the caller the rest of the
        reply. What is over and brought no such word is a noise: a burst of up to ``burst_s`` after ``patience_s``; what
        was long enough for words when the recogniser is done with it, or after ``transcript_patience_s`` if it never
        is.
        """
        listening = not self.unanswered and is_backchannel(self.text, after_question=self.after_question)
        if words(self.text) and not listening:
            return Verdict.CLAIM
        if self.ended is None:
            return Verdict.OPEN
        if self.settled:
            return Verdict.NOISE
        burst = self.ended - self.started <= burst_s
        return Verdict.NOISE if at - self.ended >= (patience_s if burst else transcript_patience_s) else Verdict.OPEN
