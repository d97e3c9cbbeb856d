"""How long the phases of a request took, for our extension object and the `Server-Timing` header."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from diffusion_engine.runtime import EndEvent, RequestStatistics


@dataclass
class Phases:
    """Clock of one HTTP request.

    Attributes:
        received: when its body was read, on the engine's clock, in seconds.
        tokenized: when its prompt was tokens and its grammar compiled.
    """

    received: float = field(default_factory=time.perf_counter)
    tokenized: float = 0.0

    def mark_tokenized(self) -> None:
        """The prompt is ready."""
        self.tokenized = time.perf_counter()

    def milliseconds(self, statistics: RequestStatistics) -> dict[str, float]:
        """Durations in ms, of the phases that are over.

        `queue`: submitted to admitted. `tokenize`: template, tokenizer, grammar. `prefill`: admitted until the pass
        with the prompt's last row was done. `first_token` and `total`: since the request was received. `steps`: first
        token to end.
        """
        spans = {
            "queue": (statistics.submitted, statistics.admitted),
            "tokenize": (self.received, self.tokenized),
            "prefill": (statistics.admitted, statistics.prefilled),
            "first_token": (self.received, statistics.first_token),
            "steps": (statistics.first_token, statistics.finished),
            "total": (self.received, statistics.finished),
        }
        return {
            name: round((end - start) * 1000, 2)
            for name, (start, end) in spans.items()
            if start is not None and end is not None
        }

    def server_timing(self, statistics: RequestStatistics) -> str:
        """The header's value (W3C Server Timing)."""
        return ", ".join(f"{name};dur={ms}" for name, ms in self.milliseconds(statistics).items())


def usage(statistics: RequestStatistics) -> dict[str, object]:
    """OpenAI's `usage`."""
    return {
        "prompt_tokens": statistics.prompt_tokens,
        "completion_tokens": statistics.completion_tokens,
        "total_tokens": statistics.prompt_tokens + statistics.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": statistics.cached_tokens},
    }


def extension(end: EndEvent, phases: Phases, request_id: str) -> dict[str, object]:
    """Our `diffusion` object of a response."""
    statistics = end.statistics
    accepted = statistics.accepted_per_verification
    return {
        "request_id": request_id,
        "end_cause": end.cause.value,
        "forwards": statistics.forwards,
        "accepted_per_verification": None if accepted is None else round(accepted, 3),
        "reused_tokens": statistics.reused,
        **({} if statistics.probability is None else {"turn_complete": round(statistics.probability, 6)}),
        **({} if statistics.deadline_met is None else {"deadline_met": statistics.deadline_met}),
        **({"hurried_forwards": statistics.hurried} if statistics.hurried else {}),
        "cached_tokens": statistics.cached_tokens,
        "phases_ms": phases.milliseconds(statistics),
    }
