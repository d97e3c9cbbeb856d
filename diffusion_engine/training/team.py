"""Processes that share each training step: on few cores, single threads that never wait for each other inside a layer.

Every process draws the same dialogues, runs its share of the batches, and the gradients are added up.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.multiprocessing.spawn import spawn

from diffusion_engine.training.layout import Batch

Arguments = TypeVar("Arguments")
Work = Callable[["Team", Arguments], int]


class Team:
    """This process's place among those that share a step."""

    def __init__(self, index: int = 0, size: int = 1) -> None:
        """Be process `index` of `size`."""
        self.index = index
        self.size = size

    def share(self, batches: Sequence[Batch]) -> list[Batch]:
        """This process's batches: the largest first, each to whom has least work so far."""
        work = [0] * self.size
        mine = []
        for batch in sorted(batches, key=lambda b: -len(b.tokens)):
            index = work.index(min(work))
            work[index] += len(batch.tokens)
            if index == self.index:
                mine.append(batch)
        return mine

    def add_up(self, parameters: Sequence[nn.Parameter], figures: dict[str, float]) -> None:
        """Replace gradients and figures by their sums over the team."""
        if self.size == 1:
            return
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([*(part.flatten() for part in parts), torch.tensor(list(figures.values()))])
        dist.all_reduce(flat)
        at = 0
        for parameter in parameters:
            parameter.grad = flat[at : at + parameter.numel()].view_as(parameter).clone()
            at += parameter.numel()
        figures.update(zip(figures, flat[at:].tolist(), strict=True))


def run_team(work: Work[Arguments], arguments: Arguments, size: int) -> int:
    """Run `work(team, arguments)` in `size` processes; returns the first one's status.

    Raises:
        ProcessRaisedException: one of them failed; the others are ended.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    status = mp.get_context("spawn").Value("i", 0)
    spawn(_member, args=(work, arguments, size, port, status), nprocs=size)  # type: ignore[no-untyped-call]
    return int(status.value)


def _member(index: int, work: Work[Arguments], arguments: Arguments, size: int, port: int, status: object) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=index, world_size=size)
    try:
        result = work(Team(index, size), arguments)
        if index == 0:
            status.value = result  # type: ignore[attr-defined]
    finally:
        dist.destroy_process_group()
