"""Denoising for bidirectional models: the whole canvas, prompt and masks, runs in every step.

The model sees all masks to the right, so the room that a reply is given (`max_tokens`) changes the reply. A block
limits which positions are committed next, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from diffusion_engine.decoding.constraint import Constraint
from diffusion_engine.decoding.denoising import Denoiser
from diffusion_engine.decoding.parameters import CanvasCache, DecodingParameters
from diffusion_engine.decoding.passes import Pass, Progress
from diffusion_engine.decoding.reading import Reading
from diffusion_engine.models import ModelConfig


class CanvasDecoder:
    """Exact by default; with a `CanvasCache` a block's first step runs the canvas, the others a part of it.

    Attributes:
        text, logprobs: see `Denoiser`.
    """

    cacheable = 0
    """No key or value outlives a step exactly."""

    def __init__(
        self,
        config: ModelConfig,
        prompt: list[int],
        *,
        max_length: int,
        parameters: DecodingParameters,
        suppressed: Tensor,
        constraint: Constraint | None = None,
        draft: Sequence[int] = (),
    ) -> None:
        """Start a reply; see `Denoiser` for the arguments.

        Args:
            max_length: of the canvas.
        """
        self._denoiser = Denoiser(
            config,
            prompt,
            start=len(prompt),
            end=max_length,
            parameters=parameters,
            suppressed=suppressed,
            constraint=constraint,
            draft=draft,
        )
        self.text = self._denoiser.text
        self.logprobs = self._denoiser.logprobs
        self._length = max_length
        self._mask = config.mask_token_ids[0]
        self._shift = int(config.shift_logits)
        self._cache = parameters.canvas_cache
        self._snapshot: list[int] = []
        """The canvas of the block's first step, whose keys and values the others lean on."""
        self._snapshot_of = -1
        self._border: Reading | None = None

    @property
    def provisional(self) -> list[int | None]:
        """See `Decoder`."""
        return self._denoiser.provisional

    @property
    def complete(self) -> bool:
        """See `Decoder`."""
        return self._denoiser.complete

    def hurry(self, passes: int, tokens: int) -> None:
        """See `Decoder`."""
        self._denoiser.hurry(passes, tokens)

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`. A bidirectional prompt can't be run in parts: `max_rows` doesn't hold."""
        denoiser = self._denoiser
        start, block = denoiser.start, denoiser.inputs()
        end = start + len(block)
        canvas = self.text[:start] + block + [self._mask] * (self._length - end)
        targets = denoiser.targets()
        if self._cache is CanvasCache.NONE or self._snapshot_of != start:
            return self._pass(canvas, 0, self._length, targets)
        if not cached:
            # The pages were given up: what was in them is computed again, from what it was computed from.
            return self._pass(self._snapshot, 0, self._length, [])
        last = end if self._cache is CanvasCache.DUAL else self._length
        return self._pass(canvas, start, last, targets)

    def observe(self, step: Pass, readings: Sequence[Reading]) -> Progress:
        """See `Decoder`."""
        denoiser = self._denoiser
        unsaid, denoiser.unsaid = denoiser.unsaid, []
        if self._cache is CanvasCache.NONE:
            return Progress(
                kept=0,
                emitted=unsaid + denoiser.take(readings),
                denoising=True,
                reused=denoiser.reused,
                hurried=denoiser.hurried,
            )
        kept = len(step.tokens) + step.behind
        first = bool(self._shift) and denoiser.targets()[:1] == [0]
        if self._snapshot_of != denoiser.start:
            self._snapshot, self._snapshot_of = step.tokens, denoiser.start
            self._border = readings[0].kept() if first else None
        elif not step.start:
            return Progress(kept=kept, emitted=unsaid)
        elif first:
            assert self._border is not None
            readings = [self._border, *readings]
        emitted = unsaid + denoiser.take(readings, settled=first)
        return Progress(kept=kept, emitted=emitted, denoising=True, reused=denoiser.reused, hurried=denoiser.hurried)

    def _pass(self, canvas: list[int], first: int, last: int, targets: list[int]) -> Pass:
        rows = {offset: self._denoiser.start + offset - self._shift - first for offset in targets}
        asked = [offset for offset, row in rows.items() if row >= 0]
        return Pass(
            tokens=canvas[first:last],
            start=first,
            clean=0,
            wanted=[rows[offset] for offset in asked],
            query=self._denoiser.query(asked),
            block_length=self._length,
            behind=self._length - last,
        )
