"""int8: close to float, and a row never depends on the rows beside it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from diffusion_engine.models.quantize import LARGEST, LARGEST_IN_PAIRS, Int8Linear, largest_weight


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=40)
def test_a_rows_result_does_not_depend_on_its_mates(seed: int, rows: int, loudness: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    layer = Int8Linear(nn.Linear(64, 96, bias=False))
    x = torch.randn(rows, 64, generator=generator)
    mates = torch.randn(5, 64, generator=generator) * loudness
    assert torch.equal(layer(torch.cat([mates, x]))[5:], layer(x))


def test_the_result_is_within_a_hundredth_of_the_float_layer() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(576, 1536, bias=True)
    x = torch.randn(9, 576)
    wanted, got = linear(x), Int8Linear(linear)(x)
    assert float((wanted - got).detach().abs().mean() / wanted.detach().abs().mean()) < 0.01


def test_a_row_of_zeros_stays_zero() -> None:
    layer = Int8Linear(nn.Linear(16, 16, bias=False))
    assert torch.equal(layer(torch.zeros(1, 16)), torch.zeros(1, 16))


@pytest.mark.parametrize(
    ("machine", "flags", "largest"),
    [
        ("x86_64", "fma avx2 bmi2", LARGEST_IN_PAIRS),
        ("x86_64", "avx2 avx512f avx512bw avx512vl", LARGEST_IN_PAIRS),
        ("AMD64", "", LARGEST_IN_PAIRS),
        ("x86_64", "avx2 avx_vnni", LARGEST),
        ("x86_64", "avx2 avx512f avx512_vnni", LARGEST),
        ("aarch64", "asimd", LARGEST),
    ],
)
def test_weights_are_as_wide_as_the_cpu_multiplies_exactly(machine: str, flags: str, largest: float) -> None:
    assert largest_weight(machine, flags) == largest


def test_narrow_weights_keep_pairs_of_products_within_16_bits() -> None:
    layer = Int8Linear(nn.Linear(64, 96), LARGEST_IN_PAIRS)
    assert int(layer.weight.abs().max()) == LARGEST_IN_PAIRS
    assert 2 * 255 * int(layer.weight.abs().max()) < 2**15
