"""A long prefill attends in tiles: no row's result tells, whatever the chunks, the pages and what lies behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diffusion_engine.decoding import Pass
from diffusion_engine.models import load_model
from diffusion_engine.models.quantize import quantize
from diffusion_engine.runtime.attention import Segment
from diffusion_engine.runtime.onnx_runner import OnnxRunner
from diffusion_engine.runtime.onnx_tiles import LEAST_KEYS, LEAST_ROWS, Tiles
from tests.diffusion_engine.tiny import write_checkpoint

UNITS = {"llama_draft": None, "sdar": 4}
PAGES = 64
TEXT = [(7 * i + i // 11) % 250 for i in range(460)]


@dataclass
class Reference:
    runner: OnnxRunner
    unit: int | None
    logits: Tensor
    """Of all of TEXT, run in chunks too small for tiles."""


@pytest.fixture(scope="module", params=UNITS)
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    family = request.param
    folder = write_checkpoint(tmp_path_factory.mktemp("tiles") / family, family)
    runner = OnnxRunner(quantize(load_model(folder)), PAGES, threads=1)
    ends = [*range(LEAST_ROWS - 4, len(TEXT), LEAST_ROWS - 4), len(TEXT)]
    return Reference(runner, UNITS[family], in_chunks(runner, ends, list(range(29)), UNITS[family]))


def in_chunks(runner: OnnxRunner, ends: list[int], pages: list[int], unit: int | None) -> Tensor:
    """The logits of every row of TEXT up to the last end."""
    logits, start = [], 0
    for end in ends:
        rows = end - start
        step = Pass(tokens=TEXT[start:end], start=start, clean=rows, wanted=range(rows), block_length=unit)
        logits += runner.run([Segment(step, pages)])
        start = end
    return torch.cat(logits)


@given(cuts=st.sets(st.integers(1, 114), max_size=4), random=st.randoms(use_true_random=False), scatter=st.booleans())
@settings(deadline=None, max_examples=30)
def test_any_chunks_on_any_pages_give_the_same_bits(
    reference: Reference, cuts: set[int], random: object, scatter: bool
) -> None:
    pages = list(range(PAGES))
    if scatter:
        random.shuffle(pages)  # type: ignore[attr-defined]
    ends = [*(4 * cut for cut in sorted(cuts)), len(TEXT)]
    assert torch.equal(in_chunks(reference.runner, ends, pages[:29], reference.unit), reference.logits)


@pytest.mark.parametrize("end", [384, 400, 460])
def test_what_another_request_left_behind_the_last_key_is_not_seen(reference: Reference, end: int) -> None:
    reference.runner._pool[:] = np.nan
    got = in_chunks(reference.runner, [end], list(range(PAGES)), reference.unit)
    assert torch.equal(got, reference.logits[:end])
    reference.runner._pool[:] = 0


def test_a_chunk_without_wanted_rows_leaves_the_same_keys_and_values(reference: Reference) -> None:
    runner, cut = reference.runner, 320
    step = Pass(tokens=TEXT[:cut], start=0, clean=cut, wanted=range(0), block_length=reference.unit)
    assert runner.run([Segment(step, list(range(29)))])[0].shape == (0, runner.config.vocab_size)
    rest = Pass(tokens=TEXT[cut:], start=cut, clean=140, wanted=range(140), block_length=reference.unit)
    assert torch.equal(runner.run([Segment(rest, list(range(29)))])[0], reference.logits[cut:])


def tiled(reference: Reference, start: int, rows: int) -> int:
    step = Pass(
        tokens=TEXT[start : start + rows], start=start, clean=rows, wanted=range(0), block_length=reference.unit
    )
    width = reference.runner.config.num_heads * reference.runner.config.head_dim
    array = np.zeros((rows, width), np.float32)
    return Tiles(step, start + rows, reference.runner._tile, array, array).rows


def test_tiles_are_what_ends_before_the_last_whole_multiple_of_keys(reference: Reference) -> None:
    assert tiled(reference, 0, 448) == 448
    assert tiled(reference, 320, 128) == 128
    assert tiled(reference, 320, 140) == 128
    assert tiled(reference, 330, 118) == 118
    assert tiled(reference, 448, 12) == 0  # a running reply's pass
    assert tiled(reference, 0, LEAST_KEYS - 64) == 0  # a short text
