"""Reading the probability that a given text stops at a place, off the pass that runs the text anyway.

Asked at the end of the caller's words, it tells whether the caller's turn is complete: the chance that the model gives
to what follows them in the prompt (the end of the message, or of the line) against any further word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diffusion_engine.decoding.logprobs import LogprobRecorder
from diffusion_engine.decoding.passes import Decoder, Pass, Progress
from diffusion_engine.decoding.reading import Reading


class ProbingDecoder:
    """Another decoder, and the probability of one token of its prompt.

    The token is judged by the row before it, which must therefore be run and see nothing behind itself: the model is
    causal over clean text.
    """

    def __init__(self, decoder: Decoder, position: int) -> None:
        """Wrap a decoder that has not run yet.

        Args:
            decoder: of a causal model.
            position: of the token in the prompt, at least 1.

        Raises:
            ValueError: there is no such token.
        """
        if not 1 <= position < len(decoder.text):
            raise ValueError(f"position {position} is not within the prompt, behind its first token")
        self.text = decoder.text
        self.logprobs: LogprobRecorder | None = decoder.logprobs
        self._decoder = decoder
        self._position = position
        self._probed = False

    @property
    def provisional(self) -> list[int | None]:
        """See `Decoder`."""
        return self._decoder.provisional

    @property
    def complete(self) -> bool:
        """See `Decoder`."""
        return self._decoder.complete

    @property
    def cacheable(self) -> int:
        """See `Decoder`."""
        return self._decoder.cacheable if self._probed else min(self._decoder.cacheable, self._position - 1)

    def hurry(self, passes: int, tokens: int) -> None:
        """See `Decoder`."""
        self._decoder.hurry(passes, tokens)

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`."""
        step = self._decoder.plan(cached, max_rows)
        row = self._row(step)
        # The wrapped decoder wants the prompt's last row at the earliest, and that is not this one.
        if row is None:
            return step
        query = step.query.behind(self.text[self._position], len(step.wanted))
        return replace(step, wanted=[row, *step.wanted], query=query)

    def observe(self, step: Pass, readings: Sequence[Reading]) -> Progress:
        """See `Decoder`."""
        row = self._row(step)
        if row is None:
            return self._decoder.observe(step, readings)
        self._probed = True
        progress = self._decoder.observe(replace(step, wanted=list(step.wanted)[1:]), readings[1:])
        return replace(progress, probability=readings[0].asked)

    def _row(self, step: Pass) -> int | None:
        row = self._position - 1 - step.start
        return row if not self._probed and 0 <= row < step.clean else None
