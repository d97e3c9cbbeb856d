"""Hybrid decoding is autoregressive decoding, sooner."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diffusion_engine.decoding import DecodingParameters, Sampling, Strategy, make_decoder, suppressed_tokens
from diffusion_engine.decoding.passes import Decoder, Pass
from diffusion_engine.decoding.sampling import distribution
from diffusion_engine.models import DenseAttention
from diffusion_engine.runtime.attention import visible
from tests.diffusion_engine.conftest import Loaded, observe, run_all, run_one

Oracle = Callable[[list[int]], torch.Tensor]
"""Text -> logits of the next token."""


def decoder_of(
    loaded: Loaded, prompt: list[int], sampling: Sampling, draft: int, length: int, hybrid: Strategy = Strategy.HYBRID
) -> Decoder:
    strategy = hybrid if draft else Strategy.AUTOREGRESSIVE
    return make_decoder(
        loaded.config,
        DecodingParameters(strategy=strategy, block_length=draft or 1, sampling=sampling),
        prompt,
        max_length=length,
        suppressed=suppressed_tokens(loaded.config),
    )


def drive(
    causal: Loaded, decoder: Decoder, oracle: Oracle, drafter: Callable[[list[int], int], int], tokens: int
) -> tuple[list[int], int]:
    """Decode with an invented model: causal rows get the oracle's logits, masks the drafter's guess of what follows.

    Returns:
        The emitted tokens and the number of passes.
    """
    emitted: list[int] = []
    cached = passes = 0
    while len(emitted) < tokens:
        step = decoder.plan(cached, 512)
        assert step.start == cached
        progress = observe(decoder, step, _logits(decoder.text[:cached], step, oracle, drafter), causal.config)
        cached += progress.kept
        # What is kept is text, and its last token is still to be run.
        assert cached < len(decoder.text)
        assert decoder.text[:cached] == (decoder.text[: step.start] + step.tokens)[:cached]
        emitted += progress.emitted
        passes += 1
    return emitted, passes


def _logits(before: list[int], step: Pass, oracle: Oracle, drafter: Callable[[list[int], int], int]) -> torch.Tensor:
    first_mask = len(step.tokens) - step.masks
    rows = []
    for row in step.wanted:
        if row < first_mask:
            rows.append(oracle(before + step.tokens[: row + 1]))
        else:
            guess = torch.zeros(264)
            group, offset = divmod(row - first_mask, step.masks // step.branches)
            text = before + step.tokens[: first_mask - (step.branches - 1 - group)]
            guess[drafter(text, offset)] = 1.0
            rows.append(guess)
    return torch.stack(rows)


def random_oracle(seed: int, sharpness: float) -> Oracle:
    def logits(text: list[int]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash((seed, *text[-3:])) % (1 << 60))
        out = torch.full((264,), -torch.inf)
        out[:20] = torch.randn(20, generator=generator) * sharpness
        return out

    return logits


@given(
    seed=st.integers(0, 10_000),
    draft=st.integers(1, 8),
    skill=st.floats(0, 1),
    temperature=st.sampled_from([0.0, 0.7, 1.3]),
    prompt=st.lists(st.integers(0, 19), min_size=1, max_size=6),
)
@settings(deadline=None, max_examples=60)
def test_whatever_is_drafted_the_text_is_the_autoregressive_one(
    causal: Loaded, seed: int, draft: int, skill: float, temperature: float, prompt: list[int]
) -> None:
    oracle = random_oracle(seed, 3.0)
    sampling = Sampling(temperature=temperature, seed=seed)
    expected, _ = drive(causal, decoder_of(causal, prompt, sampling, 0, 200), oracle, lambda text, offset: 0, 30)

    def drafter(text: list[int], offset: int) -> int:
        at = len(text) - len(prompt) + 1 + offset
        lucky = np.random.default_rng([seed, at]).random() < skill
        return expected[at] if lucky and at < len(expected) else 7

    got, passes = drive(causal, decoder_of(causal, prompt, sampling, draft, 200), oracle, drafter, 30)
    assert got[:30] == expected[:30]
    if skill == 1.0:
        assert passes <= 2 * -(-30 // (draft + 2))
    one_pass = decoder_of(causal, prompt, sampling, draft, 200, Strategy.HYBRID_ONE_PASS)
    got, passes = drive(causal, one_pass, oracle, drafter, 30)
    assert got[:30] == expected[:30]
    if skill == 1.0:
        assert passes <= 1 + -(-29 // (draft + 1))


def test_a_perfect_draft_of_k_brings_k_plus_two_tokens_in_two_passes(causal: Loaded) -> None:
    def oracle(text: list[int]) -> torch.Tensor:
        out = torch.zeros(264)
        out[len(text) % 20] = 5.0
        return out

    got, passes = drive(
        causal, decoder_of(causal, [3], Sampling(), 4, 500), oracle, lambda text, j: (len(text) + 1 + j) % 20, 60
    )
    assert got[:60] == [(1 + i) % 20 for i in range(60)]
    assert passes == 20


def test_where_logits_are_not_shifted_a_mask_drafts_its_own_place(loaded: dict[str, Loaded]) -> None:
    """The first mask's token is known from the row before it, so k masks bring k - 1 drafted tokens, and two more."""
    model = loaded["nemotron_labs_diffusion"]
    decoder = decoder_of(model, [3], Sampling(), 5, 500)

    def at(position: int) -> Tensor:
        out = torch.zeros(264)
        out[position % 20] = 5.0
        return out

    cached, emitted = 0, []
    for _ in range(10):
        step = decoder.plan(cached, 512)
        texts = len(step.tokens) - step.masks
        logits = [at(step.start + row + (row < texts)) for row in step.wanted]
        progress = observe(decoder, step, torch.stack(logits), model.config)
        cached, emitted = cached + progress.kept, emitted + progress.emitted
        assert progress.accepted in (None, 4)
    assert emitted == [(1 + i) % 20 for i in range(5 * (5 - 1 + 2))]


def test_sampled_hybrid_text_has_the_causal_models_distribution(causal: Loaded) -> None:
    """Two tokens after a prompt: the second is drafted. Counts against exact probabilities, over fixed seeds."""

    def oracle(text: list[int]) -> torch.Tensor:
        out = torch.full((264,), -torch.inf)
        out[:3] = torch.tensor([0.9, 0.2, -0.4]) * (1.0 + len(text) % 2) + 0.3 * float(text[-1] == 1)
        return out

    n, counts = 3000, np.zeros((3, 3))
    for seed in range(n):
        decoder = decoder_of(causal, [9], Sampling(temperature=1.0, seed=seed), 3, 100)
        first, second = drive(causal, decoder, oracle, lambda text, j: 0, 2)[0][:2]
        counts[first, second] += 1
    one = Sampling(temperature=1.0)
    expected = np.array(
        [
            [float(distribution(oracle([9]), one)[a] * distribution(oracle([9, a]), one)[b]) for b in range(3)]
            for a in range(3)
        ]
    )
    chi_square = ((counts - n * expected) ** 2 / (n * expected)).sum()
    assert chi_square < 26.1  # 8 degrees of freedom, p = 0.001


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@given(
    prompt=st.lists(st.integers(0, 250), min_size=1, max_size=40),
    draft=st.integers(1, 8),
    seed=st.integers(0, 1000),
    mates=st.integers(0, 3),
)
@settings(deadline=None, max_examples=15)
def test_on_a_real_model_hybrid_equals_autoregressive_also_among_others(
    causal: Loaded, temperature: float, prompt: list[int], draft: int, seed: int, mates: int
) -> None:
    alone = run_one(
        causal.scheduler(),
        causal.request(prompt, Strategy.AUTOREGRESSIVE, temperature=temperature, seed=seed),
    )
    others = [causal.request([i, *prompt], id=f"m{i}", temperature=1.0, seed=i, max_tokens=9) for i in range(mates)]
    for strategy in (Strategy.HYBRID, Strategy.HYBRID_ONE_PASS):
        hybrid = causal.request(prompt, strategy, block_length=draft, temperature=temperature, seed=seed)
        assert run_all(causal.scheduler(), [hybrid, *others])[0].tokens == alone.tokens


@pytest.mark.parametrize("family", ["llama_draft", "nemotron_labs_diffusion"])
@torch.inference_mode()
def test_every_branch_of_one_pass_drafts_what_a_draft_pass_would(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    text, draft, masks = [9, 8, 7, 6, 5], [11, 12, 13], model.config.mask_block(4)

    def hidden(step: Pass) -> Tensor:
        out: Tensor = model.model(
            torch.tensor(step.tokens), torch.tensor(step.positions), DenseAttention(visible(step))
        )
        return out

    branched = hidden(Pass(tokens=text + draft + masks * 4, start=0, clean=5, masks=16, branches=4, wanted=range(0)))[
        8:
    ]
    for accepted in range(4):
        kept = text + draft[:accepted]
        alone = hidden(Pass(tokens=kept + masks, start=0, clean=len(kept), masks=4, wanted=range(0)))[-4:]
        assert torch.allclose(branched[4 * accepted : 4 * accepted + 4], alone, atol=1e-5)


def test_the_first_token_comes_with_the_pass_that_prefills(causal: Loaded) -> None:
    scheduler = causal.scheduler()
    scheduler.submit(causal.request(list(range(60))))
    assert [type(event).__name__ for _, event in scheduler.step()] == ["TextEvent"]


def test_nothing_is_drafted_beyond_the_last_token_wanted(causal: Loaded) -> None:
    decoder = decoder_of(causal, [1, 2, 3], Sampling(), 8, 6)
    assert decoder.plan(0, 512).masks == 2
