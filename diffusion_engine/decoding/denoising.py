"""What a denoising step does to the open block, whatever kind of model the logits came from.

A warm draft is written into a block when it opens, and judged in two passes, each half of it masked while the other
stands: masked, as the model has learned to tell what belongs there. What it is not sure of is masked again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from diffusion_engine.decoding.constraint import Constraint
from diffusion_engine.decoding.logprobs import LogprobRecorder
from diffusion_engine.decoding.lookup import sayable
from diffusion_engine.decoding.parameters import DecodingParameters
from diffusion_engine.decoding.reading import Query, Reading, Reads
from diffusion_engine.decoding.sampling import pick, uniform
from diffusion_engine.decoding.unmasking import UNMASKING, Candidates
from diffusion_engine.models import ModelConfig

FEWEST_STEPS = 2
"""Of a block, however near a deadline is: written in one step, a block tends to repeat itself."""


class Denoiser:
    """Commits positions of the open block, releases its clean prefix after every step, and opens the next.

    Attributes:
        text: the prompt and what was released: the contiguous clean prefix, so a later step never takes it back.
        start: position of the open block.
        block: its tokens, None where masked; empty at the end of what can be written.
        logprobs: see `Decoder`.
        reused: positions of a warm draft that the last step kept; None when it judged none.
        hurried: the last step committed more positions than the strategy would have, for the deadline's sake.
    """

    def __init__(
        self,
        config: ModelConfig,
        prompt: list[int],
        *,
        start: int,
        end: int,
        parameters: DecodingParameters,
        suppressed: Tensor,
        constraint: Constraint | None,
        draft: Sequence[int] = (),
        opened: bool = False,
    ) -> None:
        """Open the first block.

        Args:
            config: of the model.
            prompt: token ids. Its positions are given, whatever their tokens.
            start: of the first block; prompt tokens from here on share it with masks.
            end: of what can be written.
            parameters: the strategy must be one of denoising.
            suppressed: int64 ids that are never emitted.
            constraint: a grammar at its beginning, or None.
            draft: an earlier draft of the reply, token ids.
            opened: the text before a block gives its first token, which is written before any step; see `open`.
        """
        self.text = list(prompt)
        self.start = start
        self.block: list[int | None] = []
        self._config = config
        self._end = end
        self._prompt_length = len(prompt)
        self._parameters = parameters
        self._unmasking = UNMASKING[parameters.strategy]
        # A grammar advances with the final text and can't go back: what it has taken isn't edited.
        self._edits = self._unmasking.edits and constraint is None
        self._sub_block = parameters.sub_block_length or config.sub_block_length
        self._suppressed = suppressed
        self._constraint = constraint
        top = parameters.top_logprobs
        self.logprobs = None if top is None else LogprobRecorder(top)
        self._opened = opened
        self._forced: list[int] = []
        self._draft = sayable(draft, {*suppressed.tolist(), *config.mask_token_ids}, config.eos_token_ids)
        self._unjudged: list[list[int]] = []
        self.reused: int | None = None
        self._released = 0
        self._step = 0
        self._steps_allowed: int | None = None
        self.hurried = False
        self._edits_left = 0
        self._confirmed: set[int] = set()
        self._open_block(given=prompt[start:])
        if constraint is not None:
            self._forced = constraint.begin()
        self.unsaid = self._release()

    @property
    def provisional(self) -> list[int | None]:
        """The block behind what was released."""
        return self.block[self._released :]

    @property
    def opening(self) -> bool:
        """The block's first token is still to come from the text before it."""
        return self._opened and self._released == 0 and bool(self.block)

    @property
    def complete(self) -> bool:
        """The grammar allows nothing more."""
        return self._constraint is not None and self._constraint.complete and not self._forced

    def hurry(self, passes: int, tokens: int) -> None:
        """See `Decoder`: the passes are divided among the blocks that are still to come.

        A draft is judged only where there is time for that and for the steps behind it.
        """
        if passes < len(self._unjudged) + FEWEST_STEPS:
            for part in self._unjudged:
                for offset in part:
                    self.block[offset] = None
            self._unjudged = []
        blocks = max(1, math.ceil(tokens / self._parameters.block_length))
        self._steps_allowed = max(1, FEWEST_STEPS - self._step, (passes - len(self._unjudged)) // blocks)

    def inputs(self) -> list[int]:
        """The block's input ids."""
        mask = self._config.mask_token_ids[0]
        hidden = set(self._unjudged[0]) if self._unjudged else set()
        return [mask if token is None or i in hidden else token for i, token in enumerate(self.block)]

    def targets(self) -> list[int]:
        """Offsets in the block whose logits the next step needs, ascending.

        They are the first alone while the block is opening; then the masked ones of the first sub-block that has any,
        and, where the strategy edits, those written and not yet released.
        """
        if self.opening:
            return [0]
        if self._unjudged:
            return self._unjudged[0]
        masked = [i for i, token in enumerate(self.block) if token is None]
        if masked and self._sub_block is not None:
            border = (masked[0] // self._sub_block + 1) * self._sub_block
            masked = [i for i in masked if i < border]
        if not self._edits:
            return masked
        written = [i for i in range(self._released, len(self.block)) if self.block[i] is not None]
        return sorted(masked + written)

    def query(self, offsets: Sequence[int]) -> Query:
        """What the next step wants to know of some of its targets."""
        sampling, step = self._parameters.sampling, self._step + 1
        drawn: list[float | None] = []
        if sampling.temperature > 0.0:
            drawn = [uniform(sampling.seed, self.start + offset, step) for offset in offsets]
        asked = [self.block[offset] for offset in offsets] if self._unjudged else []
        return Query(reads=Reads.PROBABILITIES | self._unmasking.reads, sampling=sampling, drawn=drawn, asked=asked)

    def open(self, reading: Reading) -> list[int]:
        """Write the first token of the block.

        It counts as no step: nothing was chosen among positions.

        Args:
            reading: of the text's last row.

        Returns:
            Tokens that are final now.
        """
        self.hurried = False
        self.reused = None
        drafted = self.block[0]
        if drafted is not None:
            self._unjudged.pop(0)
            fits = self._constraint is None or self._constraint.fitting([drafted]) > 0
            self.reused = int(fits and reading.asked > self._parameters.threshold)
        if drafted is not None and self.reused:
            self._write(0, reading._replace(token=drafted))
        else:
            self._write(0, self._candidates({0: reading})[0])
        self._confirmed.add(0)
        return self._release()

    def take(self, readings: Sequence[Reading], *, settled: bool = False) -> list[int]:
        """Do one step.

        Args:
            readings: of `targets()`.
            settled: those of offset 0 will not change any more, so waiting gains nothing: it is committed.

        Returns:
            Tokens that are final now.
        """
        targets = self.targets()
        self.reused = None
        self.hurried = False
        if self._unjudged:
            return self._judge(readings)
        masked = {i: reading for i, reading in zip(targets, readings, strict=True) if self.block[i] is None}
        written = {i: reading for i, reading in zip(targets, readings, strict=True) if i not in masked}
        # Decided before anything is written: all tokens of a step are read off the same pass.
        edited = self._better(written)
        if masked:
            self._commit(masked, settled=settled and targets[0] == 0)
        for offset, reading in edited.items():
            self._write(offset, reading)
        self._confirmed.update(written.keys() - edited.keys())
        self._confirmed.difference_update(edited)
        self._step += 1
        return self._release()

    def _judge(self, readings: Sequence[Reading]) -> list[int]:
        """Keep what the model is sure of in the half of the draft that was masked; the rest stays masked."""
        self.reused = 0
        for offset, reading in zip(self._unjudged.pop(0), readings, strict=True):
            token = self.block[offset]
            assert token is not None
            if reading.asked > self._parameters.threshold:
                self.reused += 1
                self._write(offset, reading._replace(token=token))
            else:
                self.block[offset] = None
        return self._release()

    def _commit(self, masked: dict[int, Reading], *, settled: bool) -> None:
        """Write the positions that the strategy selects among the masked ones."""
        offsets = list(masked)
        candidates = self._candidates(masked)
        steps = min(self._parameters.denoising_steps or len(self.block), len(self.block))
        left = sum(token is None for token in self.block)
        scores = [self._unmasking.score(candidate) for candidate in candidates]
        owed = 0 if self._steps_allowed is None else math.ceil(left / self._steps_allowed)
        selected = self._unmasking.select(
            Candidates(
                confidences=[candidate.probability for candidate in candidates],
                scores=scores,
                offset=self.start + offsets[0] - self._prompt_length,
                quota=self._unmasking.schedule(len(self.block), left, steps, min(self._step, steps - 1)),
                parameters=self._parameters,
            )
        )
        self.hurried = owed > len(selected) and len(selected) < len(scores)
        if self.hurried:
            surest = sorted(set(range(len(scores))).difference(selected), key=lambda i: (-scores[i], i))
            selected = sorted([*selected, *surest[: owed - len(selected)]])
        if settled or self._constraint is not None:
            # With a grammar the leftmost pick is valid by construction: every step makes progress.
            selected = sorted({0, *selected})
        for index in selected:
            self._write(offsets[index], candidates[index])

    def _write(self, offset: int, reading: Reading) -> None:
        self.block[offset] = reading.token
        if self.logprobs is not None:
            self.logprobs.note(self.start + offset, reading.token, reading.logits())

    def _candidates(self, masked: dict[int, Reading]) -> list[Reading]:
        """What each masked position would be written as."""
        candidates = list(masked.values())
        if self._constraint is not None:
            # All before the leftmost mask is final: there, and only there, the grammar's state is known.
            sampling, step = self._parameters.sampling, self._step + 1
            position = self.start + min(masked)
            token = self._constraint.pick(
                candidates[0],
                lambda row, attempt: pick(row, sampling, position, step + (attempt << 12)),
                greedy=sampling.temperature == 0.0,
            )
            candidates[0] = candidates[0].of(token)
        return candidates

    def _better(self, written: dict[int, Reading]) -> dict[int, Reading]:
        """Written positions whose best token is another one, and above the threshold."""
        edited: dict[int, Reading] = {}
        for offset, reading in written.items():
            sure = reading.best_probability > self._parameters.edit_threshold
            if sure and reading.best != self.block[offset] and self._edits_left:
                edited[offset] = reading.of(reading.best)
                self._edits_left -= 1
        return edited

    def _release(self) -> list[int]:
        """Move the clean prefix of the block into the text; open the next block when this one is done."""
        emitted: list[int] = []
        while not self.complete:
            if self._released == len(self.block):
                if not self.block:
                    break  # the end of what can be written
                self.start += len(self.block)
                self._open_block(given=[])
                continue
            if self._forced:
                token = self._forced.pop(0)
                self.block[self._released] = token
            else:
                provisional = self.block[self._released]
                if any(self._released in half for half in self._unjudged):
                    break
                if provisional is None or (self._edits and self._released not in self._confirmed):
                    break
                if not self._grammar_takes(provisional):
                    self.block[self._released] = None
                    break
                token = provisional
            self._released += 1
            self.text.append(token)
            emitted.append(token)
        # What a grammar forced is final, whatever was drafted at its place.
        left = ([offset for offset in part if offset >= self._released] for part in self._unjudged)
        self._unjudged = [part for part in left if part]
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
        length = min(self._parameters.block_length, self._end - self.start)
        self.block = [*given, *[None] * (length - len(given))]
        drafted = []
        for offset in range(len(given), length):
            at = self.start + offset - self._prompt_length
            if at < len(self._draft):
                self.block[offset] = self._draft[at]
                drafted.append(offset)
        first = [drafted.pop(0)] if self._opened and drafted[:1] == [0] else []
        self._unjudged = [part for part in (first, drafted[::2], drafted[1::2]) if part]
        self._released = len(given)
        self._step = 0
        # Each edit needs one of these, so a block that keeps changing its mind ends.
        self._edits_left = length
        self._confirmed = set()
