"""Attention of packed rows over the paged KV pool."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from diffusion_engine.decoding import Pass
from diffusion_engine.models import ModelConfig
from diffusion_engine.models.transformer import attend
from diffusion_engine.runtime.pages import PAGE_TOKENS


class KVStorage:
    """Keys and values of all pages.

    Attributes:
        keys: per layer (slots, num_kv_heads, head_dim); slot = page * PAGE_TOKENS + offset.
        values: likewise.
    """

    def __init__(self, config: ModelConfig, pages: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        shape = (config.num_layers, 2, pages * PAGE_TOKENS, config.num_kv_heads, config.head_dim)
        self._all = torch.zeros(shape, dtype=dtype, device=device)
        self.keys = [layer[0] for layer in self._all]
        self.values = [layer[1] for layer in self._all]

    def copy(self, source: slice, target: slice) -> None:
        """Copy slots, all layers."""
        self._all[:, :, target] = self._all[:, :, source]


@dataclass(frozen=True)
class Segment:
    """One request's rows in a forward pass.

    Attributes:
        step: what its decoder planned.
        pages: hold its cached text and have room for the rows.
    """

    step: Pass
    pages: list[int]

    @property
    def length(self) -> int:
        """Tokens up to the last row."""
        return self.step.start + len(self.step.tokens)

    @property
    def seen(self) -> int:
        """Tokens that the rows may see at most: the cached ones, themselves, and those behind."""
        return self.length + self.step.behind


def wanted_rows(segments: list[Segment]) -> list[int]:
    """The rows of a packed pass whose logits are asked for, segment after segment."""
    wanted: list[int] = []
    at = 0
    for segment in segments:
        wanted += [at + row for row in segment.step.wanted]
        at += len(segment.step.tokens)
    return wanted


def slots_of(pages: list[int], start: int, end: int) -> Tensor:
    """Slots of a text's positions `start` to `end`, (end - start,) int64."""
    positions = torch.arange(start, end)
    return torch.tensor(pages)[positions // PAGE_TOKENS] * PAGE_TOKENS + positions % PAGE_TOKENS


def runs_of(pages: list[int], target: list[int], tokens: int) -> list[tuple[slice, slice]]:
    """Slots to copy for the first `tokens` positions of some pages, in pieces that are adjacent on both sides.

    Copied slot by slot, a conversation of 600 tokens took longer than a forward pass.
    """
    runs: list[tuple[slice, slice]] = []
    first = 0
    count = -(-tokens // PAGE_TOKENS)
    for page in range(1, count + 1):
        if page < count and pages[page] == pages[page - 1] + 1 and target[page] == target[page - 1] + 1:
            continue
        length = min(page * PAGE_TOKENS, tokens) - first * PAGE_TOKENS
        source, to = pages[first] * PAGE_TOKENS, target[first] * PAGE_TOKENS
        runs.append((slice(source, source + length), slice(to, to + length)))
        first = page
    return runs


def spans(step: Pass) -> tuple[Tensor, Tensor | None]:
    """Who sees whom in one request, as spans of keys.

    Text rows are causal or, with a block length, see their block and all before it. Trailing masks see their group and
    the text that it stands behind.

    Returns:
        Of each row, the end of the span from the first key on, (rows,) int64, not beyond `start + rows + behind`; and
        first and end of a second span, (rows, 2) int64, empty for text rows, or None where no row has one.
    """
    rows = len(step.tokens)
    query = torch.arange(step.start, step.start + rows)
    if step.block_length is not None:
        before = (query // step.block_length + 1) * step.block_length
        return before.clamp_(max=step.start + rows + step.behind), None
    before = query + 1
    if not step.masks:
        return before, None
    first_mask = step.start + rows - step.masks
    size = step.masks // step.branches
    group = torch.arange(step.masks) // size
    before[rows - step.masks :] = first_mask - (step.branches - 1) + group
    beside = torch.zeros(rows, 2, dtype=torch.int64)
    beside[rows - step.masks :, 0] = first_mask + group * size
    beside[rows - step.masks :, 1] = first_mask + group * size + size
    return before, beside


def visible(step: Pass) -> Tensor:
    """The spans as a mask.

    Returns:
        (rows, start + rows + behind) bool.
    """
    before, beside = spans(step)
    key = torch.arange(step.start + len(step.tokens) + step.behind)
    seen = key < before.unsqueeze(1)
    return seen if beside is None else seen | ((key >= beside[:, :1]) & (key < beside[:, 1:]))


class PagedAttention:
    """The `AttentionFn` of one forward pass: writes the rows' KV to their slots, attends request by request.

    Everything that does not depend on the layer is prepared once.
    """

    def __init__(self, storage: KVStorage, segments: list[Segment], dtype: torch.dtype) -> None:
        """Prepare one pass.

        Args:
            storage: where keys and values live.
            segments: the requests' rows, in the order in which they are packed.
            dtype: to attend in. Sums of float32 depend, in their last bits, on how many rows and keys stand beside;
                float64, rounded to float32 at the end, makes a row's result the same bit for bit in any company.
        """
        self._storage = storage
        self._dtype = dtype
        device = storage.keys[0].device
        self._rows: list[slice] = []
        self._seen: list[slice | Tensor] = []
        self._masks: list[Tensor | None] = []
        written: list[Tensor] = []
        at = 0
        for segment in segments:
            rows = len(segment.step.tokens)
            self._rows.append(slice(at, at + rows))
            at += rows
            first = contiguous(segment.pages)
            self._seen.append(
                slots_of(segment.pages, 0, segment.seen).to(device)
                if first is None
                else slice(first * PAGE_TOKENS, first * PAGE_TOKENS + segment.seen)
            )
            written.append(slots_of(segment.pages, segment.step.start, segment.length))
            self._masks.append(
                None
                if rows == 1 and segment.step.block_length is None
                else _additive(visible(segment.step), dtype).to(device)
            )
        self._written = (written[0] if len(written) == 1 else torch.cat(written)).to(device)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """See `AttentionFn`."""
        keys, values = self._storage.keys[layer], self._storage.values[layer]
        keys.index_copy_(0, self._written, key)
        values.index_copy_(0, self._written, value)
        precise = query.to(self._dtype)
        out = [
            attend(precise[rows], keys[seen].to(self._dtype), values[seen].to(self._dtype), mask)
            for rows, seen, mask in zip(self._rows, self._seen, self._masks, strict=True)
        ]
        return (out[0] if len(out) == 1 else torch.cat(out)).to(query.dtype)


def contiguous(pages: list[int]) -> int | None:
    """The first page when they lie side by side in their order, else None."""
    first = pages[0]
    return first if pages == list(range(first, first + len(pages))) else None


def _additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask as a summand: attention would convert a boolean one again in every layer."""
    return torch.zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, -torch.inf)
