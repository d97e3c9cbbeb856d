"""What a decoder asks of one forward pass, and what it makes of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from diffusion_engine.decoding.logprobs import LogprobRecorder
from diffusion_engine.decoding.reading import BEST, Query, Reading


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The rows that one request adds to a forward pass.

    Attributes:
        tokens: input ids of the rows, text first, masks last (a block being denoised mixes both).
        start: position of the first row, which is also how many tokens are cached before it.
        clean: leading rows that hold final text. Their keys and values are kept; those of later rows are scratch until
            `Progress.kept` says otherwise.
        masks: trailing rows that see each other in both directions (causal families only): the masks of a draft, or an
            open block with what is written of it.
        wanted: rows whose logits the decoder needs, ascending.
        query: what it wants to know of them.
        block_length: rows see their whole block of this length and all before it; None for causal rows.
        branches: groups that the masks divide into evenly (causal families only). The last group stands behind all text
            rows, the one before it behind all but the last, and so on; groups don't see each other.
        behind: positions behind the rows whose keys and values, of an earlier pass, they see as well (approximate
            caches of bidirectional families only).
    """

    tokens: list[int]
    start: int
    clean: int
    masks: int = 0
    wanted: range | list[int]
    query: Query = BEST
    block_length: int | None = None
    branches: int = 1
    behind: int = 0

    @property
    def positions(self) -> list[int]:
        """Each row's place in its sequence. Groups of masks stand at places that overlap."""
        if self.branches == 1:
            return list(range(self.start, self.start + len(self.tokens)))
        texts, size = len(self.tokens) - self.masks, self.masks // self.branches
        places = list(range(self.start, self.start + texts))
        for missing in range(self.branches - 1, -1, -1):
            first = self.start + texts - missing
            places += range(first, first + size)
        return places


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a pass brought.

    Attributes:
        kept: leading rows of the pass whose keys and values are those of final text.
        emitted: new tokens, in order, never taken back.
        accepted: tokens drafted by diffusion that the verification kept; None when the pass verified none.
        reused: tokens of a looked-up draft that the verification kept; None when the pass verified none.
        denoising: the pass unmasked positions of a block.
        hurried: the deadline made the pass settle for more than the strategy would have.
        probability: of the token that the request asked about; None in passes that don't run the row before it.
    """

    kept: int
    emitted: list[int]
    accepted: int | None = None
    reused: int | None = None
    denoising: bool = False
    hurried: bool = False
    probability: float | None = None


class Decoder(Protocol):
    """One request's decoding, as a sequence of passes.

    `plan` changes nothing, so a pass can be dropped and planned again: a pre-empted request starts over with `cached` 0
    and goes on where it was.
    """

    text: list[int]
    """Final tokens: the prompt and what was emitted."""

    logprobs: LogprobRecorder | None
    """Of the reply's tokens; None where they weren't asked for."""

    @property
    def provisional(self) -> list[int | None]:
        """What stands behind `text` and may still change; None where masked."""
        ...

    @property
    def complete(self) -> bool:
        """The grammar allows nothing more (or there is nothing to generate): no further pass is needed."""
        ...

    @property
    def cacheable(self) -> int:
        """Leading tokens of `text` whose keys and values may come from a cache; the others must be run."""
        ...

    def hurry(self, passes: int, tokens: int) -> None:
        """There is time for so many more passes, at least one, until `tokens` more tokens should be out.

        Told before each pass of a request with a deadline. Where the time is short, less care is taken.
        """
        ...

    def plan(self, cached: int, max_rows: int) -> Pass:
        """Say what to run next.

        Args:
            cached: leading tokens of `text` whose keys and values are cached.
            max_rows: text beyond this many rows is prefilled in several passes.
        """
        ...

    def observe(self, step: Pass, readings: Sequence[Reading]) -> Progress:
        """Take what was read off the rows of `step.wanted`, and move on."""
        ...


def prefill_chunk(text: list[int], cached: int, end: int, max_rows: int, block_length: int | None) -> Pass | None:
    """The next chunk of a text that is too long for one pass, or None when `text[cached:end]` fits.

    Chunks end on block borders where blocks matter: a block's rows must see each other.
    """
    if end - cached <= max_rows:
        return None
    rows = max_rows
    if block_length is not None:
        rows = max(block_length, (cached + max_rows) // block_length * block_length - cached)
        if cached + rows >= end:
            return None
    return Pass(
        tokens=text[cached : cached + rows], start=cached, clean=rows, wanted=range(0), block_length=block_length
    )
