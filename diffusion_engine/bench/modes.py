"""Ways to decode the same prompts on the same weights, taking turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from diffusion_engine.bench.bed import Bed, Run, prefill, run_together
from diffusion_engine.bench.figures import Figure, figure, milliseconds, paired_ratio
from diffusion_engine.bench.prompts import ChatPrompt, engine_request
from diffusion_engine.decoding import CAUSAL_STRATEGIES, Strategy
from diffusion_engine.models import Attention
from diffusion_engine.server.served_model import ServedModel

BATCH_SIZES = (1, 2, 4, 8)
Report = Callable[[str], None]


@dataclass(frozen=True)
class Mode:
    """One way to decode.

    Attributes:
        name: a key of the output.
        options: of the `diffusion` object.
        recompute: without any cache.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    recompute: bool = False


@dataclass
class Samples:
    """What one mode's runs came to, in the order of the prompts.

    Attributes:
        runs: one a prompt and round.
        throughput: tokens a second, by batch size.
    """

    runs: list[Run] = field(default_factory=list)
    throughput: dict[int, list[float]] = field(default_factory=dict)


def baselines_of(model: ServedModel) -> tuple[list[Mode], dict[str, str]]:
    """The modes to compare a model's own with, and why the others can't be measured."""
    modes = [Mode("no_cache", recompute=True)]
    missing: dict[str, str] = {}
    if model.strategy in CAUSAL_STRATEGIES:
        missing["unfolded"] = (
            f"not measured: {model.strategy} has no commit pass of its own to fold: its verification is the commit pass"
        )
    elif model.config.attention is Attention.BIDIRECTIONAL:
        missing["unfolded"] = "not measured: a bidirectional model has no commit pass"
    elif model.config.text_gives_next:
        missing["unfolded"] = "not measured: this model's commit pass opens the next block and is never folded into it"
    else:
        modes.append(Mode("unfolded", {"fold_commit": False}))
    modes.append(Mode("autoregressive", one_token_a_step(model)))
    if Strategy.PROMPT_LOOKUP in model.strategies:
        modes.append(Mode("prompt_lookup", {"strategy": "prompt_lookup"}))
    else:
        missing["prompt_lookup"] = "not measured: this model can't verify a draft causally"
    return modes, missing


def one_token_a_step(model: ServedModel) -> dict[str, Any]:
    """Options that decode left to right, one token a pass.

    Autoregressive where the model can. Blocks of one token make a block-causal model that; a bidirectional model keeps
    its canvas and uncovers it from the left.
    """
    if Strategy.AUTOREGRESSIVE in model.strategies:
        return {"strategy": "autoregressive"}
    if model.config.attention is Attention.BLOCK_CAUSAL:
        return {"strategy": "sequential", "block_length": 1}
    return {"strategy": "sequential"}


def measure(
    bed: Bed,
    modes: Sequence[Mode],
    prompts: Sequence[ChatPrompt],
    *,
    rounds: int,
    max_tokens: int,
    report: Report,
    between: Callable[[ChatPrompt, Run], None] | None = None,
) -> dict[str, Samples]:
    """Run every prompt in every mode, its prompt cached (but for `recompute`); who begins changes with the prompt.

    Args:
        bed: idle.
        modes: the first is the one that others are compared with.
        prompts: to ask.
        rounds: through all prompts.
        max_tokens: of a reply.
        report: gets a line now and then.
        between: called after a prompt's runs, with the first mode's run: for a peer outside of the engine.
    """
    samples = {mode.name: Samples() for mode in modes}
    for mode in modes:  # kernels, allocations and code paths of each mode
        _run_one(bed, mode, prompts[0], max_tokens)
    for number in range(rounds * len(prompts)):
        prompt = prompts[number % len(prompts)]
        first = number % len(modes)
        for mode in [*modes[first:], *modes[:first]]:
            samples[mode.name].runs.append(_run_one(bed, mode, prompt, max_tokens))
        if between is not None:
            between(prompt, samples[modes[0].name].runs[-1])
        if (number + 1) % 6 == 0:
            report(f"{number + 1} of {rounds * len(prompts)} prompts")
    return samples


def measure_throughput(
    bed: Bed,
    modes: Sequence[Mode],
    prompts: Sequence[ChatPrompt],
    samples: dict[str, Samples],
    *,
    rounds: int,
    max_tokens: int,
) -> None:
    """Add tokens a second when 1, 2, 4 and 8 of the same eight prompts are submitted at once, prompts cached.

    Args:
        bed: idle.
        modes: take turns.
        prompts: the first eight are taken, so that every batch size does the same work.
        samples: of the modes, added to.
        rounds: through the eight prompts at every size.
        max_tokens: of a reply.
    """
    chosen = [prompts[i % len(prompts)] for i in range(max(BATCH_SIZES))]
    for _ in range(rounds):
        for size in BATCH_SIZES:
            for mode in modes:
                tokens, seconds = 0, 0.0
                for first in range(0, len(chosen), size):
                    runs = _run_together(bed, mode, chosen[first : first + size], max_tokens)
                    tokens += sum(len(run.tokens) for run in runs)
                    seconds += max(run.reply_s for run in runs)
                samples[mode.name].throughput.setdefault(size, []).append(tokens / seconds)


def summary(samples: Samples) -> dict[str, Any]:
    """The figures of a mode, under the keys of the output."""
    runs = samples.runs
    steps = [step for run in runs for step in run.steps]
    accepted = figure(run.accepted_per_verification for run in runs)
    return {
        "first_token_ms": milliseconds(run.first_token_s for run in runs),
        "first_clause_ms": milliseconds(run.clause_s for run in runs),
        "reply_ms": milliseconds(run.reply_s for run in runs),
        "forward_ms": milliseconds(step.forward_s for step in steps),
        "overhead_ms": milliseconds(step.overhead_s for step in steps),
        "tokens_per_forward": tokens_per_forward(runs),
        "throughput_tok_s": {str(size): figure(taken) for size, taken in samples.throughput.items()},
        **({"accepted_per_verification": accepted} if accepted["n"] else {}),
    }


def tokens_per_forward(runs: Iterable[Run]) -> Figure:
    """Tokens of a reply divided by the forwards that it took."""
    return figure(len(run.tokens) / run.forwards for run in runs if run.forwards)


def ratio_to(ours: Samples, theirs: Samples) -> dict[str, float | None]:
    """Our times divided by a baseline's, prompt by prompt; below 1 we are faster."""
    return {
        "first_token": paired_ratio([r.first_token_s for r in ours.runs], [r.first_token_s for r in theirs.runs]),
        "first_clause": paired_ratio([r.clause_s for r in ours.runs], [r.clause_s for r in theirs.runs]),
        "reply": paired_ratio([r.reply_s for r in ours.runs], [r.reply_s for r in theirs.runs]),
    }


def _run_one(bed: Bed, mode: Mode, prompt: ChatPrompt, max_tokens: int) -> Run:
    return _run_together(bed, mode, [prompt], max_tokens)[0]


def _run_together(bed: Bed, mode: Mode, prompts: Sequence[ChatPrompt], max_tokens: int) -> list[Run]:
    requests = [
        engine_request(bed.model, prompt, f"{mode.name}/{i}", max_tokens=max_tokens, **mode.options)
        for i, prompt in enumerate(prompts)
    ]
    if not mode.recompute:
        for request in requests:
            prefill(bed, request)
    return run_together(bed, requests, recompute=mode.recompute)
