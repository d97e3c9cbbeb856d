"""What goes into the engine and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from diffusion_engine.decoding import Constraint, DecodingParameters, TokenLogprobs
from diffusion_engine.runtime.statistics import EndCause, RequestStatistics


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
        repetition_limit: tokens in a row that only repeat a short stretch before the reply is ended; None for any. Not
            for replies held to a grammar, which must end as it says.
        snapshots: also tell, after every step, what the open block looks like.
        priority: the larger goes first; see `Scheduler`.
        deadline_s: from submission until the reply must have ended, in seconds; fewer and less careful passes are
            spent to meet it, and what is there is the reply.
        probe: position in the prompt, from 1, of a token whose probability is told; causal models only.
        draft: token ids of an earlier draft of the reply; what still fits is kept without being drafted again.
    """

    id: str
    prompt: list[int]
    parameters: DecodingParameters
    max_tokens: int
    stop: tuple[str, ...] = ()
    constraint: Constraint | None = None
    prefill_only: bool = False
    repetition_limit: int | None = None
    snapshots: bool = False
    draft: tuple[int, ...] = ()
    probe: int | None = None
    priority: int = 0
    deadline_s: float | None = None


@dataclass(frozen=True)
class TextEvent:
    """More of the reply; final, never taken back.

    Attributes:
        text: whole characters.
        statistics: of the request, still being counted.
        logprobs: of its tokens, and of those before it that brought no text; empty where they weren't asked for.
    """

    text: str
    statistics: RequestStatistics
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True)
class SnapshotEvent:
    """What stands behind the text that is final, for those who want to see it change.

    Attributes:
        provisional: text that may still change; masked positions leave no trace.
        progress: share of the open block's positions that hold a token.
        statistics: of the request, still being counted.
    """

    provisional: str
    progress: float
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


Event = TextEvent | SnapshotEvent | EndEvent
