"""What goes into the engine and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from diffusion_engine.decoding import Constraint, DecodingParameters


class EndCause(StrEnum):
    """Why a request ended: one cause each, told apart in metrics and logs."""

    STOP = "stop"
    """The model ended its text."""
    STOP_STRING = "stop_string"
    """A stop string of the request appeared."""
    COMPLETE = "complete"
    """The grammar allows nothing more."""
    LENGTH = "length"
    """`max_tokens` was reached."""
    CONTEXT = "context"
    """The end of the model's context was reached."""
    PREFILLED = "prefilled"
    """The prompt is in the cache, and no more was asked for."""
    CANCELLED = "cancelled"
    """By request id."""
    DISCONNECTED = "disconnected"
    """The client closed the connection."""
    TIMEOUT = "timeout"
    """The request ran longer than the engine allows."""
    ERROR = "error"
    """The model's logits were not finite, or the grammar failed."""
    SHUTDOWN = "shutdown"
    """The engine was stopped."""


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """One request, checked.

    Attributes:
        id: unique among the requests in the engine.
        prompt: token ids, at least one, shorter than the context.
        parameters: of its decoding.
        max_tokens: tokens of the reply at most.
        stop: the reply ends before the first of these strings.
        constraint: a grammar at its beginning, this request's own; None for free text.
        prefill_only: cache the prompt, generate nothing.
    """

    id: str
    prompt: list[int]
    parameters: DecodingParameters
    max_tokens: int
    stop: tuple[str, ...] = ()
    constraint: Constraint | None = None
    prefill_only: bool = False


@dataclass
class RequestStatistics:
    """What a request has used; times on the engine's clock, in seconds.

    Attributes:
        prompt_tokens: of the prompt.
        cached_tokens: of them, found in the prefix cache.
        completion_tokens: emitted, without the end token.
        forwards: passes that it took part in.
        verifications: of them, those that verified a draft.
        accepted: drafted tokens that verification kept.
        denoising: passes that unmasked positions of a block.
        submitted, admitted, prefilled, first_token, finished: when; None until then. `prefilled` is when the pass with
            the prompt's last row returned.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    forwards: int = 0
    verifications: int = 0
    accepted: int = 0
    denoising: int = 0
    submitted: float = 0.0
    admitted: float | None = None
    prefilled: float | None = None
    first_token: float | None = None
    finished: float | None = None

    @property
    def accepted_per_verification(self) -> float | None:
        """Mean drafted tokens that a verification kept; None when nothing was verified."""
        return self.accepted / self.verifications if self.verifications else None


@dataclass(frozen=True)
class TextEvent:
    """More of the reply; final, never taken back.

    Attributes:
        text: whole characters.
        statistics: of the request, still being counted.
    """

    text: str
    statistics: RequestStatistics


@dataclass(frozen=True)
class EndEvent:
    """The request has ended, its pages are returned.

    Attributes:
        cause: why.
        statistics: of the request.
        message: for the user, when the cause is an error.
    """

    cause: EndCause
    statistics: RequestStatistics = field(default_factory=RequestStatistics)
    message: str | None = None


Event = TextEvent | EndEvent
