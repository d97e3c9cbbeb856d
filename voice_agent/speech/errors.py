"""What can go wrong between a call and the speech process."""

from __future__ import annotations


class SpeechError(Exception):
    """Base of the errors of this package."""


class SpeechConnectionError(SpeechError):
    """The speech process can't be reached, or went away before it had answered."""


class SpeechTimeoutError(SpeechConnectionError):
    """The speech process is there, but hasn't answered in time."""


class SpeechRequestError(SpeechError):
    """The speech process refused or failed one request; others go on.

    Attributes:
        code: Stable name of the reason, e.g. `bad_request`, `failed`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PassDroppedError(SpeechError):
    """A recogniser pass was dropped before it ran: a newer one of its stream took its place, or it was cancelled."""


class MissingModelError(SpeechError):
    """A model's files are missing or damaged; the message says which and what to do."""
