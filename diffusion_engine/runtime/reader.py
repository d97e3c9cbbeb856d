"""Reading the logits of a step where they are, and the one transfer that a step waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from diffusion_engine.decoding import Pass, Reading, Reads
from diffusion_engine.decoding.reading import FIELDS, MOST_ROWS, QUESTIONS, read_rows, readings
from diffusion_engine.decoding.sampling import IN_NUMPY
from diffusion_engine.runtime.cuda_graphs import Recorder, recorder
from diffusion_engine.runtime.transfer import landing, receive, send


class Reader(Protocol):
    """Answers what the passes of a step ask about their rows."""

    def prepare(self, rows: int, width: int) -> None:
        """Do now what the first reading of each size would take longer for.

        Args:
            rows: in a step.
            width: of the logits.
        """
        ...

    def read(self, passes: list[Pass], logits: list[Tensor]) -> list[list[Reading]]:
        """Read what a runner returned.

        Args:
            passes: of the step.
            logits: of the wanted rows of each; written on.

        Returns:
            For each pass what was asked of its wanted rows. The logits behind it are gone with the next step.
        """
        ...


def make_reader(device: torch.device, suppressed: Tensor) -> Reader:
    """The one for a runner's device.

    Args:
        device: of the logits.
        suppressed: int64 ids that are never emitted.
    """
    if device.type == "cpu":
        return RowReader(suppressed)
    return StepReader(device, suppressed)


class RowReader:
    """Reads of each row no more than was asked of it: on the CPU, where every number costs and none must be sent."""

    def __init__(self, suppressed: Tensor) -> None:
        """See `make_reader`."""
        self._suppressed = suppressed

    def prepare(self, rows: int, width: int) -> None:
        """See `Reader`: nothing."""

    def read(self, passes: list[Pass], logits: list[Tensor]) -> list[list[Reading]]:
        """See `Reader`."""
        return [self._read(step, own) for step, own in zip(passes, logits, strict=True)]

    def _read(self, step: Pass, logits: Tensor) -> list[Reading]:
        rows = len(step.wanted)
        if not rows:
            return []
        query = step.query
        asked = torch.tensor(query.questions(rows) if query.asks else [], dtype=torch.float64)
        found = [
            read_rows(logits[own], asked[own], self._suppressed, reads, IN_NUMPY) for reads, own in query.groups(rows)
        ]
        return readings(torch.cat(found), self._suppressed, logits)


@dataclass
class _Buffers:
    """For steps of up to a number of rows.

    Attributes:
        logits: (rows, vocab_size).
        asked: (rows, QUESTIONS) float64.
        answers: (rows, FIELDS) float64.
        host: as `answers`, on the host.
        replays: by the leading rows that they read, and what.
    """

    logits: Tensor
    asked: Tensor
    answers: Tensor
    host: Tensor
    replays: dict[tuple[int, Reads], Callable[[], None]] = field(default_factory=dict)


class StepReader:
    """Reads all rows of a step at once, by a function of fixed buffers that is recorded once (see `cuda_graphs`).

    What comes to the host is one table of `FIELDS` numbers a row.
    """

    def __init__(self, device: torch.device, suppressed: Tensor, record: Recorder | None = None) -> None:
        """See `make_reader`.

        Args:
            device: of the logits.
            suppressed: int64 ids that are never emitted.
            record: `recorder` of the device when None.
        """
        self._device = device
        self._suppressed, self._suppressed_there = suppressed, suppressed.to(device)
        self._record = record or recorder(device)
        self._buffers: list[_Buffers] = []

    @torch.inference_mode()
    def prepare(self, rows: int, width: int) -> None:
        """See `Reader`: for greedy decoding, by a causal text or by confidence, with drafts and probes."""
        buffers = self._buffers_for(rows, width, Reads.BEST)
        for exponent in range((rows - 1).bit_length() + 1):
            for reads in (Reads.BEST, Reads.PROBABILITIES, Reads.ASKED, Reads.PROBABILITIES | Reads.ASKED):
                self._recorded(buffers, 1 << exponent, reads)

    @torch.inference_mode()
    def read(self, passes: list[Pass], logits: list[Tensor]) -> list[list[Reading]]:
        """See `Reader`."""
        counts = [len(step.wanted) for step in passes]
        rows = sum(counts)
        if not rows:
            return [[] for _ in passes]
        reads = Reads.BEST
        for step, count in zip(passes, counts, strict=True):
            for own, _ in step.query.groups(count):
                reads |= own
        buffers = self._buffers_for(rows, logits[0].shape[1], reads)
        torch.cat(logits, out=buffers.logits[:rows])
        if any(step.query.asks for step in passes):
            table = [row for step, count in zip(passes, counts, strict=True) for row in step.query.questions(count)]
            send(torch.tensor(table, dtype=torch.float64), buffers.asked[:rows])
        self._recorded(buffers, rows, reads)()
        receive(buffers.answers[:rows], buffers.host[:rows])
        found = iter(readings(buffers.host[:rows], self._suppressed, buffers.logits))
        return [[next(found) for _ in range(count)] for count in counts]

    def _recorded(self, buffers: _Buffers, rows: int, reads: Reads) -> Callable[[], None]:
        size = _padded(rows)
        if (size, reads) not in buffers.replays:
            buffers.replays[size, reads] = self._record(lambda: self._compute(buffers, size, reads))
        return buffers.replays[size, reads]

    def _compute(self, buffers: _Buffers, rows: int, reads: Reads) -> None:
        for first in range(0, rows, MOST_ROWS):
            part = slice(first, min(rows, first + MOST_ROWS))
            # Of a copy: a function that is recorded may run on the same inputs once more.
            logits = buffers.logits[part].clone()
            buffers.answers[part] = read_rows(logits, buffers.asked[part], self._suppressed_there, reads)

    def _buffers_for(self, rows: int, width: int, reads: Reads) -> _Buffers:
        """Those that this was recorded with, or the largest, or larger ones beside them: no recording is lost."""
        fitting = [buffers for buffers in self._buffers if len(buffers.logits) >= rows]
        if not fitting:
            answers = torch.zeros(_padded(rows), FIELDS, dtype=torch.float64, device=self._device)
            larger = _Buffers(
                logits=torch.zeros(_padded(rows), width, device=self._device),
                asked=torch.zeros(_padded(rows), QUESTIONS, dtype=torch.float64, device=self._device),
                answers=answers,
                host=landing(answers),
            )
            self._buffers.append(larger)
            return larger
        return next((buffers for buffers in fitting if (_padded(rows), reads) in buffers.replays), fitting[-1])


def _padded(rows: int) -> int:
    return 1 << (rows - 1).bit_length()
