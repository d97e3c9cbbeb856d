"""Logits in half precision against those in fp32, in every family."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from diffusion_engine.decoding import Pass
from diffusion_engine.models import Attention, Transformer, load_model
from diffusion_engine.runtime import TorchRunner
from diffusion_engine.runtime.attention import Segment
from tests.diffusion_engine.conftest import EVERY_FAMILY, Loaded

ROUNDINGS = 8
"""Tolerance: the mean difference of a logit is at most so many roundings (half the type's epsilon) of a mean logit. Two
layers have about twenty roundings in a row, which partly cancel out; 2 to 6 were seen."""


def logits(model: Transformer) -> Tensor:
    block_length = None if model.config.attention is Attention.CAUSAL else 64
    step = Pass(
        tokens=[(7 * i) % 250 for i in range(40)], start=0, clean=40, wanted=range(40), block_length=block_length
    )
    return TorchRunner(model, 4).run([Segment(step, [0, 1, 2, 3])])[0]


@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_a_few_roundings_from_fp32(
    loaded: dict[str, Loaded], family: str, dtype: torch.dtype
) -> None:
    exact = logits(loaded[family].model)
    rounded = logits(load_model(loaded[family].folder, dtype=dtype))
    assert rounded.dtype is torch.float32
    difference = float((rounded - exact).abs().mean() / exact.abs().mean())
    assert 0 < difference <= ROUNDINGS * torch.finfo(dtype).eps / 2
