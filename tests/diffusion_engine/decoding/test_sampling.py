"""Draws: their distribution, and what they depend on."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.decoding import Sampling
from diffusion_engine.decoding.sampling import distribution, pick, uniform


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 100_000), st.integers(0, 64))
def test_a_draw_depends_on_seed_position_and_step_only(seed: int, position: int, step: int) -> None:
    first = uniform(seed, position, step)
    assert 0.0 <= first < 1.0
    assert first == uniform(seed, position, step)
    assert first != uniform(seed + 1, position, step)
    assert first != uniform(seed, position + 1, step)
    assert first != uniform(seed, position, step + 1)


def test_drawn_tokens_have_the_models_distribution() -> None:
    logits = torch.tensor([1.0, 0.0, -torch.inf, 2.0, -1.0])
    sampling = Sampling(temperature=0.7, top_p=1.0)
    expected = distribution(logits, sampling).numpy()
    n = 4000
    counts = np.bincount([pick(logits, Sampling(temperature=0.7, seed=seed), 11) for seed in range(n)], minlength=5)
    assert counts[2] == 0
    with np.errstate(invalid="ignore"):
        chi_square = np.nansum((counts - n * expected) ** 2 / (n * expected))
    assert chi_square < 16.3  # 3 degrees of freedom, p = 0.001; the seeds are fixed


def test_top_p_draws_from_the_smallest_set_that_reaches_it() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert distribution(logits, Sampling(temperature=1.0, top_p=0.8)).tolist()[2:] == [0.0, 0.0]
    assert distribution(logits, Sampling(temperature=1.0, top_p=0.81)).tolist()[3] == 0.0
    assert distribution(logits, Sampling(temperature=1.0, top_p=0.01)).tolist() == [1.0, 0.0, 0.0, 0.0]


@given(
    st.lists(st.floats(-20, 20), min_size=2, max_size=50), st.floats(0.05, 2), st.floats(0.01, 1), st.integers(0, 99)
)
@settings(deadline=None)
def test_a_drawn_token_is_always_a_possible_one(
    values: list[float], temperature: float, top_p: float, seed: int
) -> None:
    logits = torch.tensor(values)
    logits[0] = -torch.inf
    sampling = Sampling(temperature=temperature, top_p=top_p, seed=seed)
    assert distribution(logits, sampling)[pick(logits, sampling, 3)] > 0
