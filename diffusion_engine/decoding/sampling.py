"""Drawing a token, with randomness that belongs to the request and the position alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffusion_engine.decoding.parameters import Sampling


class NonFiniteLogitsError(ArithmeticError):
    """The model returned NaN or infinity for a request."""


def uniform(seed: int, position: int, step: int = 0) -> float:
    """A number in [0, 1) that depends on its arguments only (Philox, Salmon et al. 2011)."""
    key = [seed & 0xFFFF_FFFF_FFFF_FFFF, (position << 20 | step) & 0xFFFF_FFFF_FFFF_FFFF]
    return float(np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64))).random())


@dataclass(frozen=True)
class Searches:
    """What takes most of a draw's time, and is best done differently on each device.

    Attributes:
        argmax: (rows, n) -> (rows,) int64, the first of equals.
        ascending: (rows, n) -> (rows, n), each row sorted.
    """

    argmax: Callable[[Tensor], Tensor]
    ascending: Callable[[Tensor], Tensor]


IN_TORCH = Searches(lambda rows: rows.argmax(-1), lambda rows: rows.sort(dim=-1).values)
"""Can be recorded."""
IN_NUMPY = Searches(
    lambda rows: torch.from_numpy(rows.numpy().argmax(-1)), lambda rows: torch.from_numpy(np.sort(rows.numpy(), -1))
)
"""On a CPU ten times as fast."""


def distributions(logits: Tensor, temperature: Tensor, top_p: Tensor | None, searches: Searches) -> Tensor:
    """The probabilities that tokens are drawn from, row by row.

    Args:
        logits: (rows, vocab_size) float32; minus infinity where a token is not allowed.
        temperature: (rows, 1) float64; a row of temperature 0 is read as of 1.
        top_p: (rows, 1) float64, the share to draw from: a token is kept while those more probable don't reach it. None
            where every row draws from all.
        searches: of the device.

    Returns:
        (rows, vocab_size) float64, each row summing to 1.
    """
    probabilities = torch.softmax(logits.double() / torch.where(temperature > 0.0, temperature, 1.0), dim=-1)
    if top_p is None:
        return probabilities
    ordered = searches.ascending(probabilities).flip(-1)
    kept = (ordered.cumsum(-1) - ordered < top_p).sum(-1, keepdim=True).clamp(min=1)
    nucleus = torch.where(probabilities >= ordered.gather(1, kept - 1), probabilities, 0.0)
    return torch.where(top_p < 1.0, nucleus / nucleus.sum(-1, keepdim=True), probabilities)


def distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """As `distributions`, of one row, (vocab_size,), at a temperature above 0."""
    temperature, top_p = (torch.tensor([[x]], dtype=torch.float64) for x in (sampling.temperature, sampling.top_p))
    return distributions(logits.unsqueeze(0), temperature, top_p if sampling.top_p < 1.0 else None, IN_NUMPY)[0]


def invert(probabilities: Tensor, drawn: Tensor) -> Tensor:
    """The token at which the cumulated probabilities exceed a number.

    Args:
        probabilities: (rows, vocab_size) float64.
        drawn: (rows, 1) float64, from 0 to below 1.

    Returns:
        (rows, 1) int64.
    """
    cumulated = probabilities.cumsum(-1)
    found = torch.searchsorted(cumulated, drawn * cumulated[:, -1:], right=True)
    return found.clamp(max=probabilities.shape[-1] - 1)


def pick(logits: Tensor, sampling: Sampling, position: int, step: int = 0) -> int:
    """Draw one token: by inversion of the cumulated probabilities, or the largest logit at temperature 0.

    Args:
        logits: (vocab_size,) float32, on the CPU; minus infinity where a token is not allowed.
        sampling: how to draw.
        position: the token's place in its sequence.
        step: the denoising step, where a position can be drawn more than once.
    """
    if sampling.temperature == 0.0:
        return int(logits.numpy().argmax())
    drawn = torch.tensor([[uniform(sampling.seed, position, step)]], dtype=torch.float64)
    return int(invert(distribution(logits, sampling).unsqueeze(0), drawn))
