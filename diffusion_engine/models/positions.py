"""What a row's position does to it: rotary tables, stretched where a checkpoint says so, and scaled queries."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from diffusion_engine.models.config import ModelConfig, QueryScaling, Yarn


def rotary_table(config: ModelConfig, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary embedding.

    Returns:
        Two float32 tensors of shape (max_positions, config.rotated), the frequencies repeated over both halves.
    """
    exponents = torch.arange(0, config.rotated, 2, device=device, dtype=torch.float32) / config.rotated
    frequencies = config.rope_theta**-exponents
    factor = 1.0
    if config.yarn is not None:
        frequencies = stretch(frequencies, config.rope_theta, config.yarn)
        factor = config.yarn.attention_factor
    angles = torch.outer(torch.arange(config.max_positions, device=device, dtype=torch.float32), frequencies)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos() * factor, angles.sin() * factor


def stretch(frequencies: Tensor, theta: float, yarn: Yarn) -> Tensor:
    """YaRN: keep the fast frequencies, divide the slow ones by the factor, ramp between.

    Args:
        frequencies: (rotated / 2,), descending.
        theta: base of the frequencies.
        yarn: how to stretch them.
    """
    count = len(frequencies)

    def index_of(rotations: float) -> float:
        """Where in the table a frequency makes so many rotations over the original context."""
        return count * math.log(yarn.original_positions / (rotations * 2 * math.pi)) / math.log(theta)

    low, high = index_of(yarn.beta_fast), index_of(yarn.beta_slow)
    if yarn.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * count - 1)
    if low == high:
        high += 0.001
    slow = ((torch.arange(count, device=frequencies.device, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    return frequencies / yarn.factor * slow + frequencies * (1 - slow)


def yarn_attention_factor(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    """What cosines and sines are multiplied by where the checkpoint names no factor itself.

    The paper's 0.1 ln(factor) + 1, or the quotient of two such terms (DeepSeek-V2's `mscale`, `mscale_all_dim`).
    """

    def term(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    return term(mscale) / term(mscale_all_dim) if mscale and mscale_all_dim else term(1.0)


def query_scale(positions: Tensor, scaling: QueryScaling) -> Tensor:
    """What queries are multiplied by: (N,) int64 positions -> (N, 1, 1) float32."""
    steps = torch.floor(positions.float() / scaling.original_positions)
    return (1 + scaling.beta * torch.log(1 + steps)).view(-1, 1, 1)
