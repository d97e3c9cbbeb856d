"""While a process that the call needs is being restarted: what the caller is told, and which answer they are owed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

from livekit.agents import APIConnectionError, APIError, APITimeoutError

from voice_agent.dialogue import phrases
from voice_agent.dialogue.page import Page
from voice_agent.dialogue.speaker import Speaker
from voice_agent.telemetry.clock import CallClock
from voice_agent.telemetry.metrics import Metrics

Process = Literal["engine", "speech"]

_TOLD: dict[Process, str] = {
    "engine": "The language model is being restarted.",
    "speech": "The recogniser and the voice are being restarted.",
}
_NOTICE_EVERY_S = 8.0
_GIVE_UP_S = 60.0
_RETRIES = 1
"""A turn that fails again when the process is back may be what kills it: it isn't tried for ever."""
_KNOWN_WITHIN_S = 0.3
"""The connections of a process that is killed break some milliseconds before its parent learns that it is dead."""


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
        self._owing_since: float | None = None
        self._retries = 0  # of the caller's latest turn
        self._down: set[Process] = set()
        self._any_down = asyncio.Event()

    @property
    def owing(self) -> bool:
        """The caller waits for an answer that was put off."""
        return self._owing_since is not None

    def changed(self, process: Process, up: bool) -> None:
        """A process died, or is back."""
        if up:
            self._down.discard(process)
            if not self._down:
                self._any_down.clear()
        else:
            self._down.add(process)
            self._any_down.set()
            self.tell(process)

    async def apology(self, error: APIError) -> str:
        """What to say where a reply fails by ``error``: the answer will come, or the caller must ask again."""
        if isinstance(error, APIConnectionError) and not isinstance(error, APITimeoutError):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._any_down.wait(), _KNOWN_WITHIN_S)
        return phrases.OUTAGE if self._down and self._retries < _RETRIES else phrases.APOLOGY

    def put_off(self) -> None:
        """A reply said that the answer will come."""
        self._owing_since = self._told_at = self._clock.seconds()

    def answering(self, *, again: bool) -> None:
        """A turn of the caller is being answered; ``again``: after an answer to it was put off."""
        self._owing_since = None
        self._retries = self._retries + 1 if again else 0

    def tick(self, now: float) -> bool:
        """Whether the answer that is owed can be given now (``now``: s of the call)."""
        if self._owing_since is None:
            return False
        if not self._down:
            return True
        if now - self._owing_since > _GIVE_UP_S:
            self._owing_since = None  # from now on the caller's silence is silence
        elif self._told_at is not None and now - self._told_at >= _NOTICE_EVERY_S and self._speaker.utterance is None:
            self._told_at = now
            self._speaker.say(phrases.TROUBLE)
        return False

    def tell(self, process: Process) -> None:
        """Tell that a process is being restarted."""
        now = self._clock.seconds()
        if self._told_at is not None and now - self._told_at < _NOTICE_EVERY_S:
            return
        self._told_at = now
        self._metrics.errors.labels(process).inc()
        self._page.error(process, _TOLD[process])
        if self._speaker.utterance is None:
            self._speaker.say(phrases.TROUBLE)
