"""Processes that share a step do all of it, once."""

from __future__ import annotations

import random

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from diffusion_engine.training.data import Dialogue
from diffusion_engine.training.layout import collate, layout
from diffusion_engine.training.team import Team, run_team


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_every_batch_is_one_members_and_work_is_spread(lengths: list[int], size: int) -> None:
    batches = []
    for length in lengths:
        dialogue = Dialogue(tuple(range(length)), (1.0,) * length, ())
        batches.append(collate([layout(dialogue, (100,) * 8, random.Random(0), length=8, max_rows=100)]))
    shares = [Team(index, size).share(batches) for index in range(size)]
    assert sorted(id(b) for share in shares for b in share) == sorted(id(b) for b in batches)
    work = [sum(len(b.tokens) for b in share) for share in shares]
    assert max(work) - min(work) <= max(lengths)


def add_up_member(team: Team, expected: float) -> int:
    """Each member has a gradient and a figure of its own; all must see the sums."""
    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.full((3,), float(team.index + 1)) if team.index else None
    figures = {"loss": float(team.index + 1)}
    team.add_up([parameter], figures)
    assert parameter.grad is not None
    return 0 if figures["loss"] == expected and parameter.grad.tolist() == [2.0] * 3 else 1


def test_gradients_and_figures_are_summed_over_the_team() -> None:
    assert run_team(add_up_member, 3.0, 2) == 0
