"""How long the agent waits for a caller who says nothing, and how long a call may last."""

from __future__ import annotations

from voice_agent.dialogue import phrases
from voice_agent.dialogue.speaker import Speaker
from voice_agent.turn_taking import NoInput, NoInputTimer


class Patience:
    """Asks a silent caller twice and then says goodbye; so it does when the call's time is up.

    Args:
        speaker: Says it.
        max_call_s: Longest time of a call (s).
    """

    def __init__(self, speaker: Speaker, max_call_s: float) -> None:
        self._speaker = speaker
        self._max_call_s = max_call_s
        self.timer = NoInputTimer()
        self.caller_sounds = False
        """The gate hears the caller."""
        self.muted = False
        """The caller can't be heard, and knows."""

    def tick(self, now: float, *, owing: bool) -> None:
        """It is ``now`` (s of the call); while the agent is ``owing`` an answer, the caller is right to be silent."""
        idle = self._speaker.utterance is None and not self.caller_sounds and not self.muted and not owing
        match self.timer.tick(now, idle=idle):
            case NoInput.PROMPT:
                self._speaker.say(phrases.STILL_THERE[min(self.timer.prompts, len(phrases.STILL_THERE)) - 1])
            case NoInput.GOODBYE:
                self._speaker.say(phrases.GOODBYE_SILENT, then_hang_up="the caller was silent")
        if now > self._max_call_s and self._speaker.utterance is None:
            self._speaker.say(phrases.GOODBYE_TIME, then_hang_up="the longest time of a call was reached")
