"""How much the engine takes on."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_ROWS = 64
"""Of a chunk, however long the text before it: with fewer, the layers cost more than is gained."""
_MULTIPLE = 64
"""Chunks end at multiples of so many tokens, where the ONNX runner attends in tiles (`KEY_MULTIPLE`)."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the engine takes on.

    Attributes:
        max_requests: run at the same time.
        max_waiting: wait beyond those; the next one is refused.
        prefill_rows: prompt tokens of one request in one step. Bounds how long a step takes, and a cancel with it.
        prefill_pairs: of a prompt token and one that it sees, in one step, shared by the requests that run. Bounds the
            same where the text before a chunk is long and attention is most of the work.
        timeout_s: of a request, in seconds since it was submitted.
        prefix_cache: keep clean text for later requests.
    """

    max_requests: int = 8
    max_waiting: int = 32
    prefill_rows: int = 256
    prefill_pairs: int = 1 << 19
    timeout_s: float = 120.0
    prefix_cache: bool = True

    def chunk_rows(self, cached: int, running: int) -> int:
        """Prompt tokens that a request may run in a step.

        Args:
            cached: tokens before them.
            running: requests that share the steps, this one among them; at least 1.
        """
        affordable = self.prefill_pairs // running // (cached + LEAST_ROWS)
        rows = min(self.prefill_rows, max(LEAST_ROWS, affordable))
        end = (cached + rows) // _MULTIPLE * _MULTIPLE
        # Down to a border, if that leaves a chunk worth its layers; else up to one, by less than a multiple.
        return end - cached if end - cached >= LEAST_ROWS else min(self.prefill_rows, end + _MULTIPLE - cached)
