"""Passes of few fixed shapes over fixed memory, so that a GPU can replay them as CUDA graphs.

A graph of some thousand kernels starts as fast as one kernel does. For that, requests, rows and keys are padded to a
small set of sizes, and whatever changes from pass to pass stands in a buffer. The host waits for nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from diffusion_engine.models import ModelConfig, Transformer
from diffusion_engine.runtime.attention import KVStorage, Segment, runs_of, slots_of, spans
from diffusion_engine.runtime.cuda_graphs import Recorder, recorder
from diffusion_engine.runtime.pages import PAGE_TOKENS
from diffusion_engine.runtime.transfer import send

ROWS = (1, 4, 8, 16, 32, 64)
"""Rows a request that passes are padded to. A request with more (a prompt's chunk, a canvas) runs by itself, padded to
a power of two: beside others it would have them padded as well."""
FEWEST_KEYS = 256
"""Keys a request are padded to this, or the next power of two above it."""


@dataclass(frozen=True)
class Shape:
    """Of a padded pass: requests, rows of each, keys that each sees."""

    requests: int
    rows: int
    keys: int

    @classmethod
    def of(cls, segments: list[Segment]) -> Shape:
        """The smallest that holds some requests."""
        most = max(len(segment.step.tokens) for segment in segments)
        return cls(
            requests=_power_of_two(len(segments)),
            rows=next((rows for rows in ROWS if rows >= most), _power_of_two(most)),
            keys=max(FEWEST_KEYS, _power_of_two(max(segment.seen for segment in segments))),
        )


@dataclass(frozen=True)
class Inputs:
    """All that changes from pass to pass, as views of one piece of memory: one copy to the device.

    Attributes:
        tokens, positions: (requests, rows) int64.
        written: (requests, rows), the slot of each row's keys and values.
        before, beside, beside_end: (requests, rows), see `spans`.
        seen: (requests,), keys that a request has.
        pages: (requests, keys / PAGE_TOKENS), the page table.
        wanted: (requests * rows,), rows whose logits are asked for, as far as they go.
    """

    tokens: Tensor
    positions: Tensor
    written: Tensor
    before: Tensor
    beside: Tensor
    beside_end: Tensor
    seen: Tensor
    pages: Tensor
    wanted: Tensor

    @staticmethod
    def size(shape: Shape) -> int:
        """Numbers in all."""
        return shape.requests * (7 * shape.rows + 1 + shape.keys // PAGE_TOKENS)

    @classmethod
    def views(cls, shape: Shape, memory: Tensor) -> Inputs:
        """Of `size(shape)` numbers."""
        by_row = shape.requests * shape.rows
        pages = shape.requests * (shape.keys // PAGE_TOKENS)
        parts = torch.split(memory, [by_row] * 6 + [shape.requests, pages, by_row])
        tokens, positions, written, before, beside, beside_end = (part.view(-1, shape.rows) for part in parts[:6])
        return cls(
            tokens=tokens,
            positions=positions,
            written=written,
            before=before,
            beside=beside,
            beside_end=beside_end,
            seen=parts[6],
            pages=parts[7].view(shape.requests, -1),
            wanted=parts[8],
        )


def pack(shape: Shape, segments: list[Segment], spare_page: int) -> Tensor:
    """The inputs of a pass, on the host.

    Rows that only pad write to the spare page, and see the first key of their request.

    Returns:
        (Inputs.size(shape),) int64; the requests' wanted rows follow each other in `wanted`.
    """
    memory = torch.zeros(Inputs.size(shape), dtype=torch.int64)
    inputs = Inputs.views(shape, memory)
    inputs.written.fill_(spare_page * PAGE_TOKENS + 1)
    inputs.before.fill_(1)
    wanted: list[int] = []
    for index, segment in enumerate(segments):
        step, rows = segment.step, len(segment.step.tokens)
        inputs.tokens[index, :rows] = torch.tensor(step.tokens)
        inputs.positions[index, :rows] = torch.tensor(step.positions)
        inputs.written[index, :rows] = slots_of(segment.pages, step.start, segment.length)
        inputs.seen[index] = segment.seen
        used = segment.pages[: -(-segment.seen // PAGE_TOKENS)]
        inputs.pages[index, : len(used)] = torch.tensor(used)
        before, beside = spans(step)
        inputs.before[index, :rows] = before
        if beside is not None:
            inputs.beside[index, :rows], inputs.beside_end[index, :rows] = beside.unbind(1)
        wanted += [index * shape.rows + row for row in step.wanted]
    inputs.wanted[: len(wanted)] = torch.tensor(wanted, dtype=torch.int64)
    return memory


class GatheredAttention:
    """The `AttentionFn` of a padded pass: writes the rows' KV, gathers each request's keys through its page table."""

    def __init__(
        self, storage: KVStorage, shape: Shape, inputs: Inputs, key: Tensor, group: int, dtype: torch.dtype
    ) -> None:
        """Compute what all layers share.

        Args:
            storage: its last page is spare: the first slot is zero for ever, the second one takes what padding writes.
            shape: of the pass.
            inputs: of the pass.
            key: 0, 1, ... on the device, (shape.keys,).
            group: query heads that share a key head.
            dtype: of queries.
        """
        self._storage, self._shape, self._group = storage, shape, group
        self._written = inputs.written.flatten()
        # Behind a request's keys, its last page may hold another's leavings, be they NaN: read zeros instead.
        slots = inputs.pages.repeat_interleave(PAGE_TOKENS, dim=1, output_size=shape.keys) * PAGE_TOKENS
        slots = slots + key % PAGE_TOKENS
        spare = storage.keys[0].shape[0] - PAGE_TOKENS
        self._slots = torch.where(key < inputs.seen.unsqueeze(1), slots, spare).flatten()
        before, beside, end = (part.unsqueeze(-1) for part in (inputs.before, inputs.beside, inputs.beside_end))
        seen = (key < before) | ((key >= beside) & (key < end))
        mask = torch.zeros(seen.shape, dtype=dtype, device=key.device).masked_fill_(~seen, -torch.inf)
        self._mask = mask.repeat(1, group, 1).unsqueeze(1)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """See `AttentionFn`; rows of all requests, padding included."""
        shape = self._shape
        keys, values = self._storage.keys[layer], self._storage.values[layer]
        keys.index_copy_(0, self._written, key)
        values.index_copy_(0, self._written, value)
        kv_heads, width = key.shape[1:]
        group = self._group
        # Query heads of one key head become rows of it, so that no key is repeated.
        folded = query.view(shape.requests, shape.rows, kv_heads, group, width).permute(0, 2, 3, 1, 4)
        out = functional.scaled_dot_product_attention(
            folded.reshape(shape.requests, kv_heads, group * shape.rows, width),
            self._gather(keys),
            self._gather(values),
            attn_mask=self._mask,
        )
        unfolded = out.view(shape.requests, kv_heads, group, shape.rows, width).permute(0, 3, 1, 2, 4)
        return unfolded.reshape(query.shape)

    def _gather(self, pool: Tensor) -> Tensor:
        """(slots, num_kv_heads, head_dim) -> (requests, num_kv_heads, keys, head_dim)."""
        return pool.index_select(0, self._slots).view(self._shape.requests, -1, *pool.shape[1:]).transpose(1, 2)


class _PaddedPass:
    """The layers over one shape: from `inputs` to `hidden`, (requests * rows, hidden_size)."""

    def __init__(self, model: Transformer, storage: KVStorage, shape: Shape) -> None:
        weight = model.embedding.weight
        self.shape = shape
        self.memory = torch.zeros(Inputs.size(shape), dtype=torch.int64, device=weight.device)
        self.inputs = Inputs.views(shape, self.memory)
        self.hidden = weight.new_zeros(shape.requests * shape.rows, model.config.hidden_size)
        self.replay: Callable[[], None] | None = None
        self._key = torch.arange(shape.keys, device=weight.device)
        self._model, self._storage = model, storage

    def compute(self) -> None:
        """One forward."""
        inputs, config = self.inputs, self._model.config
        group = config.num_heads // config.num_kv_heads
        attention = GatheredAttention(self._storage, self.shape, inputs, self._key, group, self.hidden.dtype)
        self.hidden.copy_(self._model(inputs.tokens.flatten(), inputs.positions.flatten(), attention))


class _PaddedHead:
    """The output projection of a number of rows: from `hidden`, (rows, hidden_size), to `logits`, float32.

    Args:
        larger: one of more rows, whose memory it shares; None if it needs its own.
    """

    def __init__(self, model: Transformer, rows: int, larger: _PaddedHead | None) -> None:
        weight = model.embedding.weight
        if larger is None:
            self.hidden = weight.new_zeros(rows, model.config.hidden_size)
            self.logits = torch.zeros(rows, model.config.vocab_size, device=weight.device)
        else:
            self.hidden, self.logits = larger.hidden[:rows], larger.logits[:rows]
        self.replay: Callable[[], None] | None = None
        self._model = model

    def compute(self) -> None:
        """One projection."""
        self.logits.copy_(self._model.logits(self.hidden))


class StaticRunner:
    """See `Runner`. Every pass is padded and, on a GPU, a CUDA graph."""

    def __init__(self, model: Transformer, pages: int, record: Recorder | None = None) -> None:
        """Allocate the KV pool; a shape is recorded when it first occurs, or by `prepare`.

        Args:
            model: in evaluation mode, on its device, not quantized.
            pages: in the pool, beside a spare one.
            record: `recorder` of the model's device when None.
        """
        self.config: ModelConfig = model.config
        self._model = model.with_packed_experts()
        weight = model.embedding.weight
        self.device = weight.device
        self._spare = pages
        self._storage = KVStorage(model.config, pages + 1, weight.dtype, self.device)
        self._record = record or recorder(self.device)
        self._passes: dict[Shape, _PaddedPass] = {}
        self._heads: dict[int, _PaddedHead] = {}

    @torch.inference_mode()
    def prepare(self, requests: int, rows: int, wanted: int) -> None:
        """See `Runner`: record all shapes that such steps can have."""
        with self._context():
            for shape in _shapes(requests, rows, self.config.max_positions):
                padded = self._pass(shape)
                send(pack(shape, [], self._spare), padded.memory)
                self._recorded(padded)
            for exponent in reversed(range(_power_of_two(wanted).bit_length())):
                self._recorded(self._head(1 << exponent))

    @torch.inference_mode()
    def run(self, segments: list[Segment]) -> list[Tensor]:
        """See `Runner`."""
        short = [i for i, segment in enumerate(segments) if len(segment.step.tokens) <= ROWS[-1]]
        groups = [[i] for i in range(len(segments)) if i not in short] + ([short] if short else [])
        logits = [torch.empty(0, self.config.vocab_size, device=self.device)] * len(segments)
        with self._context():
            for group in groups:
                members = [segments[i] for i in group]
                counts = [len(segment.step.wanted) for segment in members]
                found = self._run(members, sum(counts))
                # The next group of this size would write over them.
                parts = torch.split(found.clone() if len(groups) > 1 else found, counts)
                for i, part in zip(group, parts, strict=True):
                    logits[i] = part
        return logits

    @torch.inference_mode()
    def copy(self, pages: list[int], target: list[int], tokens: int) -> None:
        """See `Runner`."""
        for source, to in runs_of(pages, target, tokens):
            self._storage.copy(source, to)

    def _run(self, segments: list[Segment], wanted: int) -> Tensor:
        """The logits of all wanted rows, which the next pass writes over."""
        shape = Shape.of(segments)
        padded = self._pass(shape)
        send(pack(shape, segments, self._spare), padded.memory)
        self._recorded(padded)()
        if not wanted:
            return padded.hidden.new_empty(0, self.config.vocab_size, dtype=torch.float32)
        head = self._head(_power_of_two(wanted))
        torch.index_select(padded.hidden, 0, padded.inputs.wanted[:wanted], out=head.hidden[:wanted])
        self._recorded(head)()
        return head.logits[:wanted]

    def _pass(self, shape: Shape) -> _PaddedPass:
        if shape not in self._passes:
            self._passes[shape] = _PaddedPass(self._model, self._storage, shape)
        return self._passes[shape]

    def _head(self, rows: int) -> _PaddedHead:
        if rows not in self._heads:
            largest = max(self._heads, default=0)
            self._heads[rows] = _PaddedHead(self._model, rows, self._heads[largest] if largest > rows else None)
        return self._heads[rows]

    def _recorded(self, part: _PaddedPass | _PaddedHead) -> Callable[[], None]:
        if part.replay is None:
            part.replay = self._record(part.compute)
        return part.replay

    def _context(self) -> AbstractContextManager[object]:
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()


def _shapes(requests: int, rows: int, keys: int) -> Iterator[Shape]:
    """All of steps of up to so many requests, with up to so many rows and keys each."""
    longest = max(FEWEST_KEYS, _power_of_two(keys))
    widths = [FEWEST_KEYS << i for i in range((longest // FEWEST_KEYS).bit_length())]
    together = [1 << i for i in range(_power_of_two(requests).bit_length())]
    alone = [ROWS[-1] << i for i in range(1, max(1, (_power_of_two(rows) // ROWS[-1]).bit_length()))]
    for width in widths:
        yield from (Shape(n, each, width) for n in together for each in ROWS)
        yield from (Shape(1, each, width) for each in alone if each <= width)


def _power_of_two(at_least: int) -> int:
    return 1 << (at_least - 1).bit_length()
