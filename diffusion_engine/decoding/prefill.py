"""Running a prompt into the prefix cache and nothing more."""

from __future__ import annotations

from collections.abc import Sequence

from diffusion_engine.decoding.logprobs import LogprobRecorder
from diffusion_engine.decoding.passes import Pass, Progress, prefill_chunk
from diffusion_engine.decoding.reading import Reading


class PrefillDecoder:
    """Emits nothing; complete once all of the prompt that can be cached is.

    Attributes:
        logprobs: none.
        text: the prompt, cut to whole blocks where blocks matter.
    """

    logprobs: LogprobRecorder | None = None

    def __init__(self, prompt: list[int], block_length: int | None) -> None:
        """Start.

        Args:
            prompt: token ids.
            block_length: of a block-causal model, whose unfinished last block can't be cached; else None.
        """
        whole = len(prompt) if block_length is None else len(prompt) // block_length * block_length
        self.text = prompt[:whole]
        self._block_length = block_length
        self._kept = 0

    @property
    def provisional(self) -> list[int | None]:
        """See `Decoder`."""
        return []

    @property
    def complete(self) -> bool:
        """See `Decoder`."""
        return self._kept >= len(self.text)

    @property
    def cacheable(self) -> int:
        """See `Decoder`."""
        return len(self.text)

    def hurry(self, passes: int, tokens: int) -> None:
        """See `Decoder`: a prompt is run in as few passes as it can be."""

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`."""
        chunk = prefill_chunk(self.text, cached, len(self.text), max_rows, self._block_length)
        if chunk is not None:
            return chunk
        rest = self.text[cached:]
        return Pass(tokens=rest, start=cached, clean=len(rest), wanted=range(0), block_length=self._block_length)

    def observe(self, step: Pass, readings: Sequence[Reading]) -> Progress:
        """See `Decoder`."""
        self._kept = step.start + step.clean
        return Progress(kept=step.clean, emitted=[])
