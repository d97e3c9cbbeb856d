"""The time of one forward pass by its number of rows, several runners taking turns."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import torch

from diffusion_engine.bench.bed import Bed
from diffusion_engine.bench.figures import milliseconds, paired_ratio
from diffusion_engine.decoding import Pass
from diffusion_engine.models import Attention
from diffusion_engine.runtime.attention import Segment
from diffusion_engine.runtime.pages import PAGE_TOKENS

ROWS = (1, 8, 16, 32)
PREFIX_TOKENS = 256

Samples = dict[str, dict[int, list[float]]]
"""Seconds, by runner and rows."""


def time_forwards(beds: Mapping[str, Bed], repeats: int) -> Samples:
    """Time forwards of clean rows behind a cached prefix, the logits of every row wanted, after a warm-up of each.

    Args:
        beds: idle, of the same checkpoint; what their prefix caches hold is dropped.
        repeats: of each size; the runners take turns within a repeat.
    """
    samples: Samples = {name: {rows: [] for rows in ROWS} for name in beds}
    for repeat in range(repeats + 1):
        for rows in ROWS:
            for name, bed in beds.items():
                seconds = _forward(bed, rows)
                if repeat:
                    samples[name][rows].append(seconds)
    return samples


def by_rows(samples: Mapping[int, list[float]]) -> dict[str, Any]:
    """Summarise one runner's samples in ms."""
    return {str(rows): milliseconds(taken) for rows, taken in samples.items()}


def ratios(ours: Mapping[int, list[float]], theirs: Mapping[int, list[float]]) -> dict[str, float | None]:
    """Our time divided by theirs, by rows (see `paired_ratio`)."""
    return {str(rows): paired_ratio(ours[rows], theirs[rows]) for rows in ours}


def _forward(bed: Bed, rows: int) -> float:
    scheduler, config = bed.scheduler, bed.model.config
    scheduler.cache.prefix.clear()  # the pages are written on
    prefix = min(PREFIX_TOKENS, config.max_positions // 2 // config.block_length * config.block_length)
    unit = {Attention.BLOCK_CAUSAL: config.block_length, Attention.BIDIRECTIONAL: prefix + rows}.get(config.attention)
    tokens = [(7 * i + 1) % config.vocab_size for i in range(rows)]
    step = Pass(tokens=tokens, start=prefix, clean=rows, wanted=range(rows), block_length=unit)
    segment = Segment(step, list(range(math.ceil((prefix + rows) / PAGE_TOKENS))))
    began = time.perf_counter()
    scheduler.runner.run([segment])
    if scheduler.runner.device.type == "cuda":
        torch.cuda.synchronize(scheduler.runner.device)
    return time.perf_counter() - began
