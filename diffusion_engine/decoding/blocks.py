"""Block denoising over an exact cache, for models whose clean text never changes: block-causal and causal ones.

A finished block is run once more, clean, before its keys and values are kept: those written while it was noisy are
wrong. That commit pass shares the forward of the next block's first step.
"""

from __future__ import annotations

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

    Where logits are shifted, position i is predicted by the row at i - 1; and a causal model, shifted or not, knows the
    first token of a block by its last row of text. That row before the block is clean: its logits stay the same as long
    as the block is open, so what the block's first step read off them is carried, and the first position needn't wait.

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
        )
        self.text = self._denoiser.text
        self.logprobs = self._denoiser.logprobs
        self._unit = length if self._aligned else None
        self._shift = int(config.shift_logits)
        self._has_border = config.shift_logits or not self._aligned
        self._ends = frozenset(config.eos_token_ids)
        self._fold = parameters.fold_commit
        self._border: Reading | None = None
        """Of the last row before block `_border_of`."""
        self._border_of = -1

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
        start = self._denoiser.start
        return start - 1 if self._needs_border and self._border_of != start else start

    def hurry(self, passes: int, tokens: int) -> None:
        """See `Decoder`."""
        self._denoiser.hurry(passes, tokens)

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`."""
        denoiser = self._denoiser
        chunk = prefill_chunk(self.text, cached, denoiser.start, max_rows, self._unit)
        if chunk is not None:
            return chunk
        before = self.text[cached : denoiser.start]
        clean = len(before)
        if clean and not self._fold:
            border = [clean - 1] if self._needs_border else []
            query = denoiser.query([0] if border else [])
            return Pass(tokens=before, start=cached, clean=clean, wanted=border, query=query, block_length=self._unit)
        rows = {
            offset: clean - 1 if offset == 0 and self._has_border else clean + offset - self._shift
            for offset in denoiser.targets()
        }
        asked = [offset for offset, row in rows.items() if row >= 0]
        return Pass(
            tokens=before + denoiser.inputs(),
            start=cached,
            clean=clean,
            masks=0 if self._aligned else len(denoiser.block),
            wanted=[rows[offset] for offset in asked],
            query=denoiser.query(asked),
            block_length=self._unit,
        )

    def observe(self, step: Pass, readings: Sequence[Reading]) -> Progress:
        """See `Decoder`."""
        denoiser = self._denoiser
        unsaid, denoiser.unsaid = denoiser.unsaid, []
        if self._needs_border and step.clean and len(step.wanted):
            self._border, self._border_of = readings[0].kept(), denoiser.start
        if len(step.tokens) == step.clean:
            return Progress(kept=step.clean, emitted=unsaid)
        if self._needs_border and not step.clean:
            assert self._border is not None
            readings = [self._border, *readings]
        start, ran = denoiser.start, denoiser.inputs()
        emitted = denoiser.take(readings, settled=self._has_border)
        # A pass that found nothing left to change was the block's commit pass. What follows an end token isn't kept.
        unchanged = ran == self.text[start : denoiser.start]
        committed = unchanged and not self._has_border and self._ends.isdisjoint(emitted)
        kept = len(step.tokens) if committed and ran else step.clean
        return Progress(
            kept=kept, emitted=unsaid + emitted, denoising=True, reused=denoiser.reused, hurried=denoiser.hurried
        )

    @property
    def _needs_border(self) -> bool:
        return self._has_border and self._denoiser.targets()[:1] == [0]
