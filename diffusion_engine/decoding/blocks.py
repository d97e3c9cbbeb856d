"""Block denoising over an exact cache, for models whose clean text never changes: block-causal and causal ones.

A finished block is run once more, clean, before its keys and values are kept: those written while it was noisy are
wrong. That commit pass shares the forward of the next block's first step; but where the last row of clean text gives
the token behind it, the commit pass comes first: its last row opens the next block, and its first token is known to all
of the block's steps (so do the samplers of Fast-dLLM v2 and Nemotron-Labs-Diffusion).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from diffusion_engine.decoding.constraint import Constraint
from diffusion_engine.decoding.denoising import Denoiser
from diffusion_engine.decoding.parameters import DecodingParameters
from diffusion_engine.decoding.passes import Pass, Progress, prefill_chunk
from diffusion_engine.decoding.reading import Reading
from diffusion_engine.models import Attention, ModelConfig


class BlockDecoder:
    """See the module.

    Where clean text is block-causal, blocks lie on multiples of their length and the prompt's tail shares one with
    masks. Where it is causal, blocks begin behind the prompt; the open one sees itself in both directions, and its
    commit pass is causal.

    Where logits are shifted, position i is predicted by the row at i - 1.

    Attributes:
        text, logprobs: see `Denoiser`.
    """

    def __init__(
        self,
        config: ModelConfig,
        prompt: list[int],
        *,
        parameters: DecodingParameters,
        suppressed: Tensor,
        constraint: Constraint | None = None,
        draft: Sequence[int] = (),
    ) -> None:
        """Start a reply; see `Denoiser` for the arguments."""
        length = parameters.block_length
        self._aligned = config.attention is Attention.BLOCK_CAUSAL
        self._denoiser = Denoiser(
            config,
            prompt,
            start=len(prompt) // length * length if self._aligned else len(prompt),
            end=config.max_positions,
            parameters=parameters,
            suppressed=suppressed,
            constraint=constraint,
            draft=draft,
            opened=config.text_gives_next,
        )
        self.text = self._denoiser.text
        self.logprobs = self._denoiser.logprobs
        self._length = length
        self._unit = length if self._aligned else None
        self._shift = int(config.shift_logits)
        self._opened = config.text_gives_next
        self._ends = frozenset(config.eos_token_ids)
        self._fold = parameters.fold_commit

    @property
    def provisional(self) -> list[int | None]:
        """See `Decoder`."""
        return self._denoiser.provisional

    @property
    def complete(self) -> bool:
        """See `Decoder`."""
        return self._denoiser.complete

    @property
    def cacheable(self) -> int:
        """See `Decoder`."""
        return self._denoiser.start - self._denoiser.opening

    def hurry(self, passes: int, tokens: int) -> None:
        """See `Decoder`."""
        denoiser = self._denoiser
        further = math.ceil((tokens - len(denoiser.provisional)) / self._length)
        openings = denoiser.opening + max(0, further) if self._opened else 0
        denoiser.hurry(max(1, passes - openings), tokens)

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`."""
        denoiser = self._denoiser
        chunk = prefill_chunk(self.text, cached, denoiser.start, max_rows, self._unit)
        if chunk is not None:
            return chunk
        before = self.text[cached : denoiser.start]
        clean = len(before)
        targets = denoiser.targets()
        if denoiser.opening or (clean and not self._fold):
            wanted = [clean - 1] if denoiser.opening else []
            query = denoiser.query(targets if wanted else [])
            return Pass(tokens=before, start=cached, clean=clean, wanted=wanted, query=query, block_length=self._unit)
        return Pass(
            tokens=before + denoiser.inputs(),
            start=cached,
            clean=clean,
            masks=0 if self._aligned else len(denoiser.block),
            wanted=[clean + offset - self._shift for offset in targets],
            query=denoiser.query(targets),
            block_length=self._unit,
        )

    def observe(self, step: Pass, readings: Sequence[Reading]) -> Progress:
        """See `Decoder`."""
        denoiser = self._denoiser
        unsaid, denoiser.unsaid = denoiser.unsaid, []
        if len(step.tokens) == step.clean:
            if not len(step.wanted):
                return Progress(kept=step.clean, emitted=unsaid)
            (reading,) = readings
            return Progress(kept=step.clean, emitted=unsaid + denoiser.open(reading), reused=denoiser.reused)
        start, ran = denoiser.start, denoiser.inputs()
        emitted = denoiser.take(readings)
        # A pass that found nothing left to change was the block's commit pass. What follows an end token isn't kept.
        unchanged = ran == self.text[start : denoiser.start]
        committed = unchanged and not self._opened and self._ends.isdisjoint(emitted)
        kept = len(step.tokens) if committed and ran else step.clean
        return Progress(
            kept=kept, emitted=unsaid + emitted, denoising=True, reused=denoiser.reused, hurried=denoiser.hurried
        )
