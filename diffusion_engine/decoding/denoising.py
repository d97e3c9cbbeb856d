"""Block denoising for block-causal families: SDAR's rule (see `unmasking`), one block of masks after the other.

A finished block is run once more, clean, before its keys and values are kept: those written while it was noisy are
wrong. That commit pass shares the forward of the next block's first step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diffusion_engine.decoding.constraint import Constraint
from diffusion_engine.decoding.parameters import DecodingParameters
from diffusion_engine.decoding.passes import Pass, Progress, prefill_chunk
from diffusion_engine.decoding.sampling import pick
from diffusion_engine.decoding.unmasking import UNMASKING, quota
from diffusion_engine.models import ModelConfig


class BlockDecoder:
    """Denoises the block that `text` ends in, releases its clean prefix after every step, and opens the next.

    Attributes:
        text: the prompt and what was released: the contiguous clean prefix, so a later step never takes it back.
    """

    def __init__(
        self,
        config: ModelConfig,
        prompt: list[int],
        *,
        parameters: DecodingParameters,
        suppressed: Tensor,
        constraint: Constraint | None = None,
    ) -> None:
        """Start a reply.

        Args:
            config: of the model; its family must be block-causal, without a shift of the logits.
            prompt: its tail shares a block with masks. Its positions are given, whatever their tokens.
            parameters: the strategy must be one of block denoising.
            suppressed: int64 ids that are never emitted.
            constraint: a grammar at its beginning.
        """
        self.text = list(prompt)
        self._config = config
        self._parameters = parameters
        self._unmask = UNMASKING[parameters.strategy]
        self._steps = parameters.denoising_steps or parameters.block_length
        self._suppressed = suppressed
        self._constraint = constraint
        self._forced: list[int] = []
        self._step = 0
        self._released = 0
        self._block: list[int | None] = []
        self._start = len(prompt) // parameters.block_length * parameters.block_length
        self._open_block(given=prompt[self._start :])
        if constraint is not None:
            self._forced = constraint.begin()
        self._unsaid = self._release()

    @property
    def complete(self) -> bool:
        """See `Decoder`."""
        return self._constraint is not None and self._constraint.complete and not self._forced

    @property
    def cacheable(self) -> int:
        """See `Decoder`."""
        return self._start

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`."""
        length = self._parameters.block_length
        chunk = prefill_chunk(self.text, cached, self._start, max_rows, length)
        if chunk is not None:
            return chunk
        clean = self._start - cached
        mask = self._config.mask_token_ids[0]
        return Pass(
            tokens=self.text[cached : self._start] + [mask if token is None else token for token in self._block],
            start=cached,
            clean=clean,
            wanted=[clean + i for i, token in enumerate(self._block) if token is None],
            block_length=length,
        )

    def observe(self, step: Pass, logits: Tensor) -> Progress:
        """See `Decoder`."""
        unsaid, self._unsaid = self._unsaid, []
        if not len(step.wanted):
            return Progress(kept=step.clean, emitted=unsaid)
        masked = [i for i, token in enumerate(self._block) if token is None]
        raw = torch.softmax(logits.double(), dim=-1)
        logits[:, self._suppressed] = -torch.inf
        candidates = self._candidates(logits, masked)
        confidences = raw.gather(1, torch.tensor(candidates).unsqueeze(1)).squeeze(1).tolist()
        allowance = quota(self._parameters.block_length, self._steps, self._step)
        chosen = self._unmask(confidences, allowance, self._parameters.threshold)
        if self._constraint is not None:
            # The leftmost pick is valid by construction: with it every step makes progress.
            chosen = sorted({0, *chosen})
        for index in chosen:
            self._block[masked[index]] = candidates[index]
        self._step = min(self._step + 1, self._steps - 1)
        return Progress(kept=step.clean, emitted=unsaid + self._release(), denoising=True)

    def _candidates(self, logits: Tensor, masked: list[int]) -> list[int]:
        """One token for each masked position."""
        sampling = self._parameters.sampling
        if sampling.temperature == 0.0:
            candidates = logits.argmax(-1).tolist()
        else:
            candidates = [
                pick(row, sampling, self._start + i, self._step + 1) for row, i in zip(logits, masked, strict=True)
            ]
        if self._constraint is not None:
            # All before the leftmost mask is final: there, and only there, the grammar's state is known.
            position, step = self._start + masked[0], self._step + 1
            candidates[0] = self._constraint.pick(
                logits[0], lambda row, attempt: pick(row, sampling, position, step + (attempt << 12))
            )
        return [int(token) for token in candidates]

    def _release(self) -> list[int]:
        """Move the clean prefix of the block into the text; open the next block when this one is done."""
        emitted: list[int] = []
        while not self.complete:
            if self._released == len(self._block):
                if not self._block:
                    break  # the end of the context
                self._start += len(self._block)
                self._open_block(given=[])
                continue
            if self._forced:
                token = self._forced.pop(0)
                self._block[self._released] = token
            else:
                provisional = self._block[self._released]
                if provisional is None or not self._grammar_takes(provisional):
                    self._block[self._released] = None
                    break
                token = provisional
            self._released += 1
            self.text.append(token)
            emitted.append(token)
        return emitted

    def _grammar_takes(self, token: int) -> bool:
        """Accept a token that was unmasked before all on its left was final; refuse it and it is masked again."""
        if self._constraint is None:
            return True
        if self._constraint.fitting([token]) == 0:
            return False
        if token not in self._config.eos_token_ids:
            self._forced = self._constraint.take(token)
        return True

    def _open_block(self, given: list[int]) -> None:
        length = min(self._parameters.block_length, self._config.max_positions - self._start)
        self._block = [*given, *[None] * (length - len(given))]
        self._released = len(given)
        self._step = 0
