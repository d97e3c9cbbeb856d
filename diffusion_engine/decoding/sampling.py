"""Drawing a token, with randomness that belongs to the request and the position alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from diffusion_engine.decoding.parameters import Sampling


class NonFiniteLogitsError(ArithmeticError):
    """The model returned NaN or infinity for a request."""


def uniform(seed: int, position: int, step: int = 0) -> float:
    """A number in [0, 1) that depends on its arguments only (Philox, Salmon et al. 2011)."""
    key = [seed & 0xFFFF_FFFF_FFFF_FFFF, (position << 20 | step) & 0xFFFF_FFFF_FFFF_FFFF]
    return float(np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64))).random())


def distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """The probabilities a token is drawn from.

    Args:
        logits: (vocab_size,) float32; minus infinity where a token is not allowed.
        sampling: temperature above 0, and top_p.

    Returns:
        (vocab_size,) float64, summing to 1.
    """
    probabilities = torch.softmax(logits.double() / sampling.temperature, dim=-1)
    if sampling.top_p < 1.0:
        ordered, order = probabilities.sort(descending=True, stable=True)
        beyond = ordered.cumsum(-1) - ordered >= sampling.top_p
        beyond[0] = False
        probabilities[order[beyond]] = 0.0
        probabilities /= probabilities.sum()
    return probabilities


def most_likely(logits: Tensor) -> npt.NDArray[np.intp]:
    """The index of the largest logit of each row, the first of equals: NumPy's search is ten times torch's on a CPU.

    Args:
        logits: (..., vocab_size) float32, on the CPU.

    Returns:
        (...).
    """
    found: npt.NDArray[np.intp] = logits.numpy().argmax(-1)
    return found


def pick(logits: Tensor, sampling: Sampling, position: int, step: int = 0) -> int:
    """Draw one token: by inversion of the cumulated probabilities, or the largest logit at temperature 0.

    Args:
        logits: (vocab_size,) float32; minus infinity where a token is not allowed.
        sampling: how to draw.
        position: the token's place in its sequence.
        step: the denoising step, where a position can be drawn more than once.
    """
    if sampling.temperature == 0.0:
        return int(most_likely(logits))
    cumulated = distribution(logits, sampling).cumsum(-1)
    drawn = uniform(sampling.seed, position, step) * float(cumulated[-1])
    return int(torch.searchsorted(cumulated, torch.tensor(drawn, dtype=torch.float64), right=True))
