"""What a speed costs: how far replies agree that were computed differently, and accuracy against tokens per forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffusion_engine.bench.bed import Bed, Run
from diffusion_engine.bench.modes import Mode, Report, measure, one_token_a_step, tokens_per_forward
from diffusion_engine.bench.prompts import ChatPrompt, reference_tokens
from diffusion_engine.decoding import Strategy

THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
Tokens = Sequence[int]


def compare(ours: Sequence[Tokens], theirs: Sequence[Tokens]) -> dict[str, Any]:
    """How far replies to the same prompts agree.

    Returns:
        `replies`: compared; `differ`: share of them that are not equal, token for token; `token_agreement`: share of
        positions with the same token, over the longer reply of each pair, so what follows an insertion counts as wrong.
    """
    pairs = list(zip(ours, theirs, strict=True))
    positions = sum(max(len(a), len(b)) for a, b in pairs)
    equal = sum(x == y for a, b in pairs for x, y in zip(a, b, strict=False))
    return {
        "replies": len(pairs),
        "differ": round(sum(list(a) != list(b) for a, b in pairs) / len(pairs), 4) if pairs else None,
        "token_agreement": round(equal / positions, 4) if positions else None,
    }


def tokens_of(runs: Sequence[Run]) -> list[Tokens]:
    """The replies."""
    return [run.tokens for run in runs]


def right_replies(bed: Bed, prompts: Sequence[ChatPrompt], runs: Sequence[Run]) -> dict[str, Any] | str:
    """Share of replies that are the one that the prompts' file calls right, token for token."""
    known = [
        (reference_tokens(bed.model, prompt), list(run.tokens)) for prompt, run in zip(prompts, runs, strict=False)
    ]
    pairs = [(right, said) for right, said in known if right is not None]
    if not pairs:
        return "not measured: the prompts bring no replies"
    return {"replies": len(pairs), "exact": round(sum(right == said for right, said in pairs) / len(pairs), 4)}


def threshold_curve(
    bed: Bed, prompts: Sequence[ChatPrompt], *, max_tokens: int, report: Report
) -> list[dict[str, Any]] | str:
    """Agreement with the text of one token a step, and tokens per forward, as the threshold moves."""
    if Strategy.DYNAMIC not in bed.model.strategies:
        own = ", ".join(bed.model.strategies)
        return (
            f"not measured: no strategy of this model has a threshold ({own}); "
            "their drafts are verified, so the text is the autoregressive one"
        )
    reference = Mode("reference", {**one_token_a_step(bed.model), "block_length": bed.model.config.block_length})
    if Strategy.AUTOREGRESSIVE in bed.model.strategies:
        # The text of denoising, which has to be compared with itself: the causal text is another one.
        reference = Mode("reference", {"strategy": "sequential"})
    modes = [reference, *(Mode(str(t), {"strategy": "dynamic", "threshold": t}) for t in THRESHOLDS)]
    samples = measure(bed, modes, prompts, rounds=1, max_tokens=max_tokens, report=report)
    reference_replies = tokens_of(samples["reference"].runs)
    return [
        {
            "threshold": threshold,
            "tokens_per_forward": tokens_per_forward(samples[str(threshold)].runs),
            "right": right_replies(bed, prompts, samples[str(threshold)].runs),
            **compare(tokens_of(samples[str(threshold)].runs), reference_replies),
        }
        for threshold in THRESHOLDS
    ]
