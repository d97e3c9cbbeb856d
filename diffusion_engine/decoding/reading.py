"""What is read off the logits of a pass: a few numbers a row, where the logits are, and never more than was asked for.

A decision needs of a row its token, how sure the model is of it, and little else. Computed beside the model, that is
some dozens of bytes a row to wait for; its logits, half a megabyte with a large vocabulary, stay where they are. Where
a grammar or a log-probability needs all of a row after all, that row is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from diffusion_engine.decoding.parameters import Sampling
from diffusion_engine.decoding.sampling import IN_TORCH, Searches, distributions, invert

MOST_ROWS = 64
"""Read at a time: what is computed on the way is twice as large as their logits, and more with nuclei."""


class Reads(Flag):
    """What there is to read; the largest logit of each row always is."""

    BEST = 0
    PROBABILITIES = auto()
    ENTROPY = auto()
    MARGIN = auto()
    ASKED = auto()
    DRAWN = auto()
    NUCLEUS = auto()


@dataclass(frozen=True, kw_only=True)
class Query:
    """What a decoder wants to know about the wanted rows of a pass.

    Attributes:
        reads: of every row; of `PROBABILITIES`, `ENTROPY` and `MARGIN`, since the others follow from what is below.
        sampling: how tokens are drawn.
        drawn: for each wanted row a number in [0, 1) that decides its token (see `uniform`), or None for the best one;
            empty when all are.
        asked: for each wanted row a token whose probability is asked for, or None; empty when none is.
    """

    reads: Reads = Reads.BEST
    sampling: Sampling = field(default_factory=Sampling)
    drawn: Sequence[float | None] = ()
    asked: Sequence[int | None] = ()

    @property
    def asks(self) -> bool:
        """There are questions of single rows."""
        return bool(self.drawn or self.asked)

    def groups(self, rows: int) -> Iterator[tuple[Reads, slice]]:
        """Neighbours among so many wanted rows of which the same is to be read, at most `MOST_ROWS`."""
        drawing = Reads.DRAWN | (Reads.NUCLEUS if self.sampling.top_p < 1.0 else Reads.BEST)
        asks: Iterable[tuple[bool, bool]] = [(False, False)] * rows
        if self.asks:
            drawn, asked = self.drawn or [None] * rows, self.asked or [None] * rows
            asks = ((a is not None, b is not None) for a, b in zip(drawn, asked, strict=True))
        end = 0
        for (draws, asks_one), group in groupby(asks):
            reads = self.reads | (drawing if draws else Reads.BEST) | (Reads.ASKED if asks_one else Reads.BEST)
            first, end = end, end + len(list(group))
            for at in range(first, end, MOST_ROWS):
                yield reads, slice(at, min(end, at + MOST_ROWS))

    def questions(self, rows: int) -> list[tuple[float, ...]]:
        """(temperature, top_p, drawn, asked) of each of so many wanted rows."""
        sampling = self.sampling
        drawn, asked = self.drawn or [None] * rows, self.asked or [None] * rows
        return [
            (0.0, 1.0, 0.0, token or 0)
            if number is None
            else (sampling.temperature, sampling.top_p, number, token or 0)
            for number, token in zip(drawn, asked, strict=True)
        ]

    def behind(self, asked: int, rows: int) -> Query:
        """The same of `rows` rows, behind one more row that is only asked about a token."""
        drawn = [None, *self.drawn] if self.drawn else ()
        return replace(self, drawn=drawn, asked=[asked, *(self.asked or [None] * rows)])


BEST = Query()
QUESTIONS = 4
"""Numbers of a row's question."""


class Reading(NamedTuple):
    """Of one row. What was not asked for is 0.

    Probabilities are of the softmax of the raw logits, untempered, tokens that are never emitted included.

    Attributes:
        finite: neither NaN nor infinity is among the logits.
        best: the token of the largest logit, the first of equals, among those that may be emitted.
        token: the one drawn; at temperature 0 the best.
        best_probability, probability: of these.
        asked: the probability of the token asked about.
        entropy: of the row's distribution, in nats.
        margin: how far the two most probable tokens lie apart.
        suppressed: tokens that are never emitted, int64 on the host.
        source, row: the logits that it was read off, wherever they are.
    """

    finite: bool
    best: int
    token: int
    best_probability: float
    probability: float
    asked: float
    entropy: float
    margin: float
    suppressed: Tensor
    source: Tensor
    row: int

    def logits(self) -> Tensor:
        """The row itself, (vocab_size,) float32, fetched to the host: the caller's to write on.

        Tokens that are never emitted are at minus infinity. To be called before the next pass, unless `kept`.
        """
        return self.source[self.row].to("cpu", copy=True).index_fill_(0, self.suppressed, -torch.inf)

    def kept(self) -> Reading:
        """The same, with logits that outlive the next pass."""
        return self._replace(source=self.source[self.row : self.row + 1].clone(), row=0)

    def of(self, token: int) -> Reading:
        """The same with another token chosen, whose logits are fetched for its probability."""
        if token == self.token:
            return self
        if token == self.best:
            return self._replace(token=token, probability=self.best_probability)
        logits = self.logits()
        ratio = float(torch.exp(logits[token].double() - logits[self.best].double()))
        return self._replace(token=token, probability=self.best_probability * ratio)


FIELDS = 8
"""Numbers that are read off a row, in the order of `Reading`."""


def read_rows(logits: Tensor, asked: Tensor, suppressed: Tensor, reads: Reads, searches: Searches = IN_TORCH) -> Tensor:
    """Read some rows, each by itself: what is found in one depends on no other.

    Every shape follows from those of the arguments, and nothing comes back to the host.

    Args:
        logits: (rows, vocab_size) float32; the suppressed columns are set to minus infinity.
        asked: (rows, QUESTIONS) float64, see `Query.questions`; used as far as `reads` needs it.
        suppressed: int64 ids that are never emitted.
        reads: what to compute, for all rows.
        searches: of the device.

    Returns:
        (rows, FIELDS) float64.
    """
    out = torch.zeros(len(logits), FIELDS, dtype=torch.float64, device=logits.device)
    probabilities = None
    out[:, 0] = torch.isfinite(logits.sum(-1))
    if reads & (Reads.PROBABILITIES | Reads.ENTROPY | Reads.MARGIN | Reads.ASKED):
        probabilities = torch.softmax(logits, -1, dtype=torch.float64)
    if probabilities is not None and reads & Reads.ASKED:
        out[:, 5:6] = probabilities.gather(1, asked[:, 3:4].long())
    if probabilities is not None and reads & Reads.ENTROPY:
        out[:, 6] = torch.special.entr(probabilities).sum(-1)
    if probabilities is not None and reads & Reads.MARGIN:
        surest = probabilities.topk(2, dim=-1).values
        out[:, 7] = surest[:, 0] - surest[:, 1]
    logits.index_fill_(1, suppressed, -torch.inf)
    best = searches.argmax(logits).unsqueeze(1)
    token = best
    if reads & Reads.DRAWN:
        temperature, top_p, drawn = asked[:, 0:1], asked[:, 1:2], asked[:, 2:3]
        share = top_p if reads & Reads.NUCLEUS else None
        found = invert(distributions(logits, temperature, share, searches), drawn)
        token = torch.where(temperature > 0.0, found, best)
    out[:, 1:2] = best
    out[:, 2:3] = token
    if probabilities is not None and reads & Reads.PROBABILITIES:
        out[:, 3:4] = probabilities.gather(1, best)
        out[:, 4:5] = probabilities.gather(1, token)
    return out


def readings(rows: Tensor, suppressed: Tensor, logits: Tensor) -> list[Reading]:
    """From numbers that have come to the host, (rows, FIELDS), and the logits that they were read off.

    Args:
        rows: of `read_rows`.
        suppressed: on the host.
        logits: wherever they are.
    """
    return [
        Reading._make((bool(finite), int(best), int(token), *others, suppressed, logits, row))
        for row, (finite, best, token, *others) in enumerate(rows.tolist())
    ]
