"""Passes of few fixed shapes over fixed memory, so that a GPU can replay them as CUDA graphs.

A graph of some thousand kernels starts as fast as one kernel does. For that, requests, rows and keys are padded to a
small set of sizes, and whatever changes from pass to pass stands in a buffer. The host waits for nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from diffusion_engine.models import ModelConfig, Transformer
from diffusion_engine.runtime.attention import KVStorage, Segment, slots_of, spans
from diffusion_engine.runtime.cuda_graphs import Recorder, recorder
from diffusion_engine.runtime.pages import PAGE_TOKENS
from diffusion_engine.runtime.runner import TorchRunner
from diffusion_engine.runtime.transfer import send

ROWS = (1, 4, 8, 16, 32, 64)
"""Rows a request that passes are padded to. Requests with more (a long prompt's chunks) run in eager torch."""
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
        """The smallest that holds some requests, none of more than `ROWS[-1]` rows."""
        most = max(len(segment.step.tokens) for segment in segments)
        return cls(
            requests=_power_of_two(len(segments)),
            rows=next(rows for rows in ROWS if rows >= most),
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
    """The output projection of a number of rows: from `hidden`, (rows, hidden_size), to `logits`, float32."""

    def __init__(self, model: Transformer, rows: int) -> None:
        weight = model.embedding.weight
        self.hidden = weight.new_zeros(rows, model.config.hidden_size)
        self.logits = torch.zeros(rows, model.config.vocab_size, device=weight.device)
        self.replay: Callable[[], None] | None = None
        self._model = model

    def compute(self) -> None:
        """One projection."""
        self.logits.copy_(self._model.logits(self.hidden))


class StaticRunner:
    """See `Runner`. Requests of up to `ROWS[-1]` rows run padded and, on a GPU, as a CUDA graph; others eagerly."""

    def __init__(self, model: Transformer, pages: int, record: Recorder | None = None) -> None:
        """Allocate the KV pool; shapes are recorded when they first occur.

        Args:
            model: in evaluation mode, on its device, not quantized.
            pages: in the pool, beside a spare one.
            record: `recorder` of the model's device when None.
        """
        self.config: ModelConfig = model.config
        self._model = model.with_packed_experts()
        self.device = model.embedding.weight.device
        self._spare = pages
        self._eager = TorchRunner(model, pages + 1)
        self._storage = self._eager.storage
        self._record = record or recorder(self.device)
        self._passes: dict[Shape, _PaddedPass] = {}
        self._heads: dict[int, _PaddedHead] = {}

    @torch.inference_mode()
    def run(self, segments: list[Segment]) -> list[Tensor]:
        """See `Runner`."""
        long = [segment for segment in segments if len(segment.step.tokens) > ROWS[-1]]
        if not long:
            return self._run(segments)
        short = [segment for segment in segments if len(segment.step.tokens) <= ROWS[-1]]
        eager, padded = iter(self._eager.run(long)), iter(self._run(short) if short else ())
        return [next(eager if len(segment.step.tokens) > ROWS[-1] else padded) for segment in segments]

    def copy(self, pages: list[int], target: list[int], tokens: int) -> None:
        """See `Runner`."""
        self._eager.copy(pages, target, tokens)

    def _run(self, segments: list[Segment]) -> list[Tensor]:
        with self._context():
            shape = Shape.of(segments)
            padded = self._passes.get(shape)
            if padded is None:
                padded = self._passes[shape] = _PaddedPass(self._model, self._storage, shape)
            send(pack(shape, segments, self._spare), padded.memory)
            self._replay(padded)
            counts = [len(segment.step.wanted) for segment in segments]
            if not sum(counts):
                return [torch.empty(0, self.config.vocab_size, device=self.device) for _ in segments]
            return list(torch.split(self._logits(padded, sum(counts)), counts))

    def _logits(self, padded: _PaddedPass, wanted: int) -> Tensor:
        rows = _power_of_two(wanted)
        head = self._heads.get(rows)
        if head is None:
            head = self._heads[rows] = _PaddedHead(self._model, rows)
        torch.index_select(padded.hidden, 0, padded.inputs.wanted[:wanted], out=head.hidden[:wanted])
        self._replay(head)
        return head.logits[:wanted]

    def _replay(self, part: _PaddedPass | _PaddedHead) -> None:
        if part.replay is None:
            part.replay = self._record(part.compute)
        part.replay()

    def _context(self) -> AbstractContextManager[object]:
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()


def _power_of_two(at_least: int) -> int:
    return 1 << (at_least - 1).bit_length()
