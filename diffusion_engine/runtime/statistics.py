"""What is counted, for each request and in all, and the causes of an end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class EndCause(StrEnum):
    """Why a request ended: one cause each, told apart in metrics and logs."""

    STOP = "stop"
    """The model ended its text."""
    STOP_STRING = "stop_string"
    """A stop string of the request appeared."""
    COMPLETE = "complete"
    """The grammar allows nothing more."""
    REPETITION = "repetition"
    """The reply only repeated itself any more."""
    LENGTH = "length"
    """`max_tokens` was reached."""
    DEADLINE = "deadline"
    """The time that the request gave itself was over."""
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


@dataclass
class RequestStatistics:
    """What a request has used; times on the engine's clock, in seconds.

    Attributes:
        prompt_tokens: of the prompt.
        cached_tokens: of them, found in the prefix cache.
        completion_tokens: emitted, without the end token.
        forwards: passes that it took part in.
        verifications: of them, those that verified a draft made by diffusion.
        accepted: tokens drafted by diffusion that verification kept.
        reused: tokens of a warm draft, or of the prompt, that verification kept.
        hurried: passes that settled for more than the strategy would have, to meet the request's deadline.
        deadline_met: whether the reply ended within its deadline by itself; None without one.
        probability: of the token that `GenerationRequest.probe` names, given the text before it; None until then.
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
    reused: int = 0
    hurried: int = 0
    deadline_met: bool | None = None
    probability: float | None = None
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


@dataclass
class EngineStatistics:
    """Totals since the start. Seconds are wall time.

    Attributes:
        ended: requests by cause.
        forwards: forward passes.
        forward_s: spent in them.
        step_s: spent in steps, the forwards included; the difference is the engine's own overhead.
        rows: packed in forwards.
        prompt_tokens, cached_tokens, completion_tokens: of ended requests.
        late_steps: steps that ran a request although they began after its cancel was asked for.
        preempted: requests whose pages were taken for others and which started over.
    """

    ended: dict[EndCause, int] = field(default_factory=lambda: dict.fromkeys(EndCause, 0))
    forwards: int = 0
    forward_s: float = 0.0
    step_s: float = 0.0
    rows: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    accepted: int = 0
    verifications: int = 0
    late_steps: int = 0
    preempted: int = 0
