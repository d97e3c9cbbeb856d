from livekit.agents import APIConnectionError, APIStatusError, APITimeoutError

from voice_agent.speech.api_errors import as_api_error
from voice_agent.speech.errors import (
    PassDroppedError,
    SpeechConnectionError,
    SpeechError,
    SpeechRequestError,
    SpeechTimeoutError,
)


def test_every_error_has_its_counterpart() -> None:
    cases: list[tuple[SpeechError, type[Exception], bool]] = [
        (SpeechConnectionError("gone"), APIConnectionError, True),
        (SpeechTimeoutError("late"), APITimeoutError, True),
        (SpeechRequestError("failed", "broke"), APIStatusError, True),
        (SpeechRequestError("bad_request", "no words"), APIStatusError, False),
        (PassDroppedError("superseded"), APIStatusError, True),
    ]
    for error, kind, retryable in cases:
        made = as_api_error(error)
        assert type(made) is kind
        assert made.retryable is retryable
        assert str(error) in str(made)
