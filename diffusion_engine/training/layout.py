"""The rows of one training pass: the clean dialogue once, and blocks of masks that draft from points inside it.

A block hangs on an *anchor*, a clean position. Its masks stand at the positions after the anchor, see the clean text up
to the anchor and each other, and nothing else. The body's shift is kept: the row at position p predicts the token at
p + 1. The anchor's own row already gives the next token, so the mask at offset j learns the token at anchor + 2 + j:
exactly what a hybrid decoder asks of it (TiDAR, arXiv 2511.08923, trains with every draft position masked as well).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from diffusion_engine.training.data import Dialogue

NO_TARGET = -1
CLEAN = -1
"""The block number of a clean row."""


@dataclass
class Rows:
    """Rows of one dialogue, clean ones first.

    Attributes:
        tokens: input ids.
        positions: place in the dialogue.
        block: number of the draft block, `CLEAN` for clean rows.
        anchor: last clean position that the row sees.
        targets: id that the row predicts, `NO_TARGET` where it isn't supervised.
        weights: weight of that prediction.
    """

    tokens: list[int]
    positions: list[int]
    block: list[int]
    anchor: list[int]
    targets: list[int]
    weights: list[float]

    def __len__(self) -> int:
        return len(self.tokens)


def draft_anchors(reply: tuple[int, int], length: int, rng: random.Random) -> list[int]:
    """Choose the anchors of one reply: the last token before it, then on at random distances of about a block.

    Args:
        reply: half-open span of the reply.
        length: masks a block.
        rng: source of the distances.

    Returns:
        Clean positions with at least one draft target inside the reply.
    """
    start, end = reply
    anchors = []
    anchor = start - 1
    while anchor + 2 < end:
        anchors.append(anchor)
        anchor += rng.randint(2, length + 2)
    return anchors


def layout(
    dialogue: Dialogue, masks: Sequence[int], rng: random.Random, *, length: int, decay: float = 1.0, max_rows: int
) -> Rows:
    """Lay out one dialogue with its draft blocks.

    Args:
        dialogue: tokens, weights and replies.
        masks: the input id of the mask at each offset.
        rng: chooses anchors, and which blocks are kept when they don't all fit.
        length: masks a block.
        decay: factor of a draft's weight per offset; what stands left decides how many drafts are accepted.
        max_rows: rows at the most; blocks are dropped first, then the dialogue's end.
    """
    tokens = dialogue.tokens[:max_rows]
    count = len(tokens)
    rows = Rows(
        tokens=list(tokens),
        positions=list(range(count)),
        block=[CLEAN] * count,
        anchor=list(range(count)),
        targets=[*tokens[1:], NO_TARGET],
        weights=[*dialogue.weights[1:count], 0.0],
    )
    choices = [(a, span) for span in dialogue.replies if span[1] <= count for a in draft_anchors(span, length, rng)]
    rng.shuffle(choices)
    for number, (anchor, (_, end)) in enumerate(choices[: (max_rows - count) // length]):
        for offset in range(length):
            target = anchor + 2 + offset
            rows.tokens.append(masks[offset])
            rows.positions.append(anchor + 1 + offset)
            rows.block.append(number)
            rows.anchor.append(anchor)
            rows.targets.append(tokens[target] if target < end else NO_TARGET)
            rows.weights.append(decay**offset if target < end else 0.0)
    return rows


@dataclass(frozen=True)
class Batch:
    """Several dialogues' rows, padded to one length R and packed to (B * R,) rows.

    Attributes:
        tokens: (B * R,) int64.
        positions: (B * R,) int64.
        visible: (B, 1, R, R) bool; every row sees at least itself.
        targets: (B * R,) int64.
        weights: (B * R,) float32.
        draft: (B * R,) bool, rows of masks.
        offset: (B * R,) int64, a mask's offset in its block.
    """

    tokens: Tensor
    positions: Tensor
    visible: Tensor
    targets: Tensor
    weights: Tensor
    draft: Tensor
    offset: Tensor


def collate(dialogues: Sequence[Rows]) -> Batch:
    """Pad and stack rows, and say who sees whom."""
    size = max(len(rows) for rows in dialogues)

    def stack(name: str, fill: float, dtype: torch.dtype) -> Tensor:
        values = [[*getattr(rows, name), *[fill] * (size - len(rows))] for rows in dialogues]
        return torch.tensor(values, dtype=dtype)

    positions = stack("positions", 0, torch.int64)
    block = stack("block", CLEAN - 1, torch.int64)
    anchor = stack("anchor", -1, torch.int64)
    clean = block == CLEAN
    sees_clean = clean[:, None, :] & (positions[:, None, :] <= anchor[:, :, None])
    same_block = (block[:, :, None] == block[:, None, :]) & (block >= 0)[:, None, :]
    visible = sees_clean | same_block | torch.eye(size, dtype=torch.bool)
    return Batch(
        tokens=stack("tokens", 0, torch.int64).flatten(),
        positions=positions.flatten(),
        visible=visible.unsqueeze(1),
        targets=stack("targets", NO_TARGET, torch.int64).flatten(),
        weights=stack("weights", 0.0, torch.float32).flatten(),
        draft=(block >= 0).flatten(),
        offset=(positions - anchor - 1).clamp(min=0).flatten(),
    )
