"""What a training pass sees is what a hybrid decoder will ask."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.training.data import Dialogue
from diffusion_engine.training.layout import CLEAN, NO_TARGET, collate, draft_anchors, layout

MASKS = tuple(range(1000, 1016))


@st.composite
def dialogues(draw: st.DrawFn) -> Dialogue:
    tokens: list[int] = []
    weights: list[float] = []
    replies = []
    for _ in range(draw(st.integers(1, 4))):
        prompt, reply = draw(st.integers(1, 12)), draw(st.integers(1, 30))
        tokens += [draw(st.integers(0, 999)) for _ in range(prompt)]
        weights += [0.0] * prompt
        replies.append((len(tokens), len(tokens) + reply))
        tokens += [draw(st.integers(0, 999)) for _ in range(reply)]
        weights += [1.0] * reply
    return Dialogue(tuple(tokens), tuple(weights), tuple(replies))


@given(dialogues(), st.sampled_from([4, 8, 16]), st.integers(0, 1000))
@settings(deadline=None)
def test_a_mask_learns_the_token_after_the_one_that_its_anchor_gives(
    dialogue: Dialogue, length: int, seed: int
) -> None:
    rows = layout(dialogue, MASKS, random.Random(seed), length=length, max_rows=2000)
    ends = dict.fromkeys(range(len(dialogue.tokens)), 0)
    for start, end in dialogue.replies:
        ends.update(dict.fromkeys(range(start - 1, end), end))
    drafts = 0
    for row in range(len(rows)):
        if rows.block[row] == CLEAN:
            continue
        offset = rows.positions[row] - rows.anchor[row] - 1
        target = rows.anchor[row] + 2 + offset
        inside = target < ends[rows.anchor[row]]
        assert rows.tokens[row] == MASKS[offset]
        assert rows.targets[row] == (dialogue.tokens[target] if inside else NO_TARGET)
        assert (rows.weights[row] > 0) == inside
        drafts += 1
    assert drafts % length == 0


@given(dialogues(), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_a_row_sees_the_clean_text_before_it_and_its_own_block(dialogue: Dialogue, seed: int) -> None:
    rows = layout(dialogue, MASKS, random.Random(seed), length=4, max_rows=2000)
    shorter = layout(dialogue, MASKS, random.Random(seed), length=4, max_rows=len(dialogue.tokens))
    visible = collate([rows, shorter]).visible[0, 0]
    for i in range(len(rows)):
        for j in range(len(rows)):
            same_block = rows.block[i] == rows.block[j]
            expected = rows.positions[j] <= rows.anchor[i] if rows.block[j] == CLEAN else same_block
            assert bool(visible[i, j]) == expected


def test_the_first_anchor_of_a_reply_is_the_last_token_of_the_prompt() -> None:
    assert draft_anchors((10, 30), 8, random.Random(0))[0] == 9


@pytest.mark.parametrize("end", [10, 11])
def test_a_reply_too_short_to_draft_has_no_anchor(end: int) -> None:
    assert draft_anchors((10, end), 8, random.Random(0)) == []


def test_blocks_that_do_not_fit_are_dropped_before_the_dialogue_is_cut() -> None:
    dialogue = Dialogue(tuple(range(50)), (0.0,) * 10 + (1.0,) * 40, ((10, 50),))
    rows = layout(dialogue, MASKS, random.Random(0), length=8, max_rows=60)
    assert sum(block == CLEAN for block in rows.block) == 50
    assert len(rows) == 58


def test_padding_rows_see_only_themselves_and_are_not_supervised() -> None:
    long = Dialogue(tuple(range(20)), (1.0,) * 20, ())
    short = Dialogue(tuple(range(5)), (1.0,) * 5, ())
    rows = [layout(d, MASKS, random.Random(0), length=4, max_rows=100) for d in (long, short)]
    batch = collate(rows)
    assert torch.equal(batch.visible[1, 0, 5:], torch.eye(20, dtype=torch.bool)[5:])
    assert float(batch.weights.view(2, 20)[1, 4:].sum()) == 0
