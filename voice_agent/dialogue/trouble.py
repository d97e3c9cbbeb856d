"""What the caller is told while a process that the call needs is being restarted."""

from __future__ import annotations

from typing import Literal

from voice_agent.dialogue import phrases
from voice_agent.dialogue.page import Page
from voice_agent.dialogue.speaker import Speaker
from voice_agent.telemetry.clock import CallClock
from voice_agent.telemetry.metrics import Metrics

_NOTICE_EVERY_S = 8.0


class Trouble:
    """Tells a caller who waits, with prepared audio, but not again and again.

    Args:
        clock: The call's clock.
        page: Shown what is the matter.
        speaker: Says it, unless it is speaking.
        metrics: Count it.
    """

    def __init__(self, clock: CallClock, page: Page, speaker: Speaker, metrics: Metrics) -> None:
        self._clock = clock
        self._page = page
        self._speaker = speaker
        self._metrics = metrics
        self._told_at: float | None = None
        self.engine_up = True
        """Whether the language model's process runs."""

    def apology(self) -> str:
        """What to say where the model fails to answer."""
        return phrases.APOLOGY if self.engine_up else phrases.OUTAGE

    def tell(self, code: Literal["engine", "speech"], message: str) -> None:
        """Tell that a process is being restarted."""
        now = self._clock.seconds()
        if self._told_at is not None and now - self._told_at < _NOTICE_EVERY_S:
            return
        self._told_at = now
        self._metrics.errors.labels(code).inc()
        self._page.error(code, message)
        if self._speaker.utterance is None:
            self._speaker.say(phrases.TROUBLE)
