"""The speech process's errors as livekit-agents' plugins raise them."""

from __future__ import annotations

from livekit.agents import APIConnectionError, APIError, APIStatusError, APITimeoutError

from voice_agent.speech.errors import SpeechConnectionError, SpeechError, SpeechRequestError, SpeechTimeoutError


def as_api_error(error: SpeechError) -> APIError:
    """The error that the framework retries, or doesn't: a refused request isn't worth a second try."""
    if isinstance(error, SpeechTimeoutError):
        return APITimeoutError(str(error))
    if isinstance(error, SpeechConnectionError):
        return APIConnectionError(str(error))
    code = error.code if isinstance(error, SpeechRequestError) else "dropped"
    refused = code == "bad_request"
    return APIStatusError(str(error), status_code=400 if refused else 500, body=code, retryable=not refused)
