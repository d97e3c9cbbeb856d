"""The whole measurement: the model's own figures, its baselines beside them, and what the speed costs in quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diffusion_engine.bench import engine_thread, forwards, machine, modes, quality
from diffusion_engine.bench.bed import Bed, Run, load_bed, prefill, run
from diffusion_engine.bench.figures import milliseconds, paired_ratio
from diffusion_engine.bench.llama_cpp_peer import LlamaCppPeer
from diffusion_engine.bench.modes import Mode, Report, Samples
from diffusion_engine.bench.prompts import ChatPrompt, engine_request, load_prompts
from diffusion_engine.bench.random_model import measure_floor
from diffusion_engine.chat.messages import normalised
from diffusion_engine.decoding import Strategy
from diffusion_engine.runtime import RunnerKind
from diffusion_engine.server.served_model import Dtype

OWN = "own"
"""The mode that the checkpoint names as its default."""
WITHOUT_BASELINES = "not measured: --baseline was not given"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure.

    Attributes:
        folder: of the checkpoint.
        dtype, device, runner, threads: as of `diffusion-engine serve`.
        prompts: JSON lines of chat requests.
        max_tokens: of a reply.
        baselines: measure them as well.
        quick: a quarter of the samples.
        peer_weights: GGUF of the base for llama.cpp; None where the checkpoint has no such base.
    """

    folder: Path
    dtype: Dtype
    device: str
    runner: RunnerKind
    threads: int | None
    prompts: Path
    max_tokens: int
    baselines: bool
    quick: bool
    peer_weights: Path | None

    @property
    def repeats(self) -> int:
        """Of what is short."""
        return 5 if self.quick else 20

    @property
    def rounds(self) -> int:
        """Of what takes seconds."""
        return 1 if self.quick else 3


def measure_all(plan: Plan, report: Report) -> dict[str, Any]:
    """Measure.

    Args:
        plan: of it.
        report: gets a line a stage.

    Returns:
        The JSON output; see docs/engine.md.

    Raises:
        CheckpointError, ValueError: the checkpoint or the prompts can't be used.
    """
    prompts = load_prompts(plan.prompts, 6 if plan.quick else None)
    load_before = machine.load_average()
    report("loading the model")
    bed = load_bed(plan.folder, dtype=plan.dtype, device=plan.device, runner=plan.runner, threads=plan.threads)
    own, baseline_modes, missing = _modes(bed, plan)
    resident = machine.resident_mb()

    peers = _peers(plan, bed, report)
    report("forward passes")
    timed = forwards.time_forwards({OWN: bed, **peers}, plan.repeats)
    report("replies")
    llama, llama_tokens = _llama(plan, bed, prompts[0]), list[int]()

    def ask_llama(prompt: ChatPrompt, ours: Run) -> None:
        if isinstance(llama, LlamaCppPeer):
            llama.run(engine_request(bed.model, prompt, "l", max_tokens=plan.max_tokens).prompt, len(ours.tokens))
            llama_tokens.append(len(ours.tokens))

    compared = [own, *baseline_modes]
    samples = modes.measure(
        bed, compared, prompts, rounds=1, max_tokens=plan.max_tokens, report=report, between=ask_llama
    )
    report("throughput")
    modes.measure_throughput(bed, [own], prompts, samples, rounds=plan.rounds, max_tokens=plan.max_tokens)
    modes.measure_throughput(bed, baseline_modes, prompts, samples, rounds=1, max_tokens=plan.max_tokens)
    report("prefix cache, concurrency, cancels")
    prefix = _prefix_states(bed, own, prompts[:: 1 if plan.quick else 2], plan.max_tokens)
    concurrency = engine_thread.measure_concurrency(bed, own, prompts, rounds=plan.rounds, max_tokens=plan.max_tokens)
    cancels = {
        mode.name: engine_thread.measure_cancel(
            bed, mode, prompts, count=10 if plan.quick else 50, max_tokens=plan.max_tokens
        )
        for mode in compared
        if not mode.recompute
    }
    memory = {**_memory(bed), "process": resident, "peak": machine.peak_mb()}
    report("quality")
    costs = _quality(plan, bed, peers, own, samples, prompts, report)
    fp32 = bed if plan.dtype == "fp32" else peers.get("torch_fp32")
    concurrency["identical_fp32"] = (
        WITHOUT_BASELINES if fp32 is None else _identical_in_fp32(fp32, own, prompts, plan.max_tokens)
    )

    results: dict[str, Any] = {
        "model": bed.model.name,
        "family": bed.model.config.family,
        "dtype": plan.dtype,
        "device": str(bed.scheduler.runner.device),
        "runner": bed.name,
        "strategy": str(bed.model.strategy),
        "threads": {"torch": torch.get_num_threads(), "runner": _runner_threads(bed, plan)},
        "prompts": {"file": plan.prompts.name, "n": len(prompts), "max_tokens": plan.max_tokens, "prefix": "cached"},
        **modes.summary(samples[OWN]),
        "cancel_steps": cancels[OWN]["steps"],
        "cancel": cancels[OWN],
        "prefix_cache": prefix,
        "concurrency": concurrency,
    }
    results["forward_ms"]["by_rows"] = forwards.by_rows(timed[OWN])
    if plan.baselines:
        for mode in baseline_modes:
            missing[mode.name] = _against(samples[OWN], samples[mode.name])
            if mode.name in cancels:
                missing[mode.name]["cancel_steps"] = cancels[mode.name]["steps"]
        missing["llama_cpp"] = _llama_figures(llama, samples[OWN], llama_tokens)
        results["runners"] = {
            name: {
                "forward_ms": forwards.by_rows(timed[name]),
                "ours_to_theirs": forwards.ratios(timed[OWN], timed[name]),
            }
            for name in peers
        }
    results["baselines"] = missing if plan.baselines else WITHOUT_BASELINES
    results["quality"] = costs
    results["memory_mb"] = memory
    results["gpu"] = machine.gpu(bed.scheduler.runner.device)
    if plan.baselines and not plan.quick:
        report("a 20 M model over HTTP")
        results["random_20m"] = measure_floor(dtype=plan.dtype, repeats=50, device=plan.device)
    results["machine"] = {
        **machine.describe_machine(),
        "load_before": load_before,
        "load_after": machine.load_average(),
    }
    return results


def _modes(bed: Bed, plan: Plan) -> tuple[Mode, list[Mode], dict[str, Any]]:
    own = Mode(OWN)
    if not plan.baselines:
        return own, [], {}
    measured, missing = modes.baselines_of(bed.model)
    return own, measured, {**missing}


def _peers(plan: Plan, bed: Bed, report: Report) -> dict[str, Bed]:
    """The same checkpoint in torch: in fp32, and quantized where ONNX Runtime serves it."""
    if not plan.baselines:
        return {}
    peers = {}
    if plan.dtype != "fp32":
        report("loading it in fp32")
        peers["torch_fp32"] = load_bed(plan.folder, dtype="fp32", device=plan.device, runner="torch")
    if bed.name == "onnx int8":
        report("loading it in torch int8")
        peers["torch_int8"] = load_bed(plan.folder, dtype="int8", runner="torch")
    return peers


def _runner_threads(bed: Bed, plan: Plan) -> int:
    from diffusion_engine.runtime.runners import ONNX_THREADS

    return (plan.threads or ONNX_THREADS) if bed.name.startswith("onnx") else torch.get_num_threads()


def _llama(plan: Plan, bed: Bed, prompt: ChatPrompt) -> LlamaCppPeer | str:
    if not plan.baselines:
        return WITHOUT_BASELINES
    if plan.peer_weights is None:
        return "not measured: no GGUF of this checkpoint's base is known; --gguf names one"
    obstacle = LlamaCppPeer.obstacle(plan.peer_weights)
    if obstacle is not None:
        return obstacle
    peer = LlamaCppPeer(plan.peer_weights, min(2048, bed.model.config.max_positions), torch.get_num_threads())
    peer.run(engine_request(bed.model, prompt, "l", max_tokens=plan.max_tokens).prompt, 16)
    peer.forget()
    return peer


def _llama_figures(peer: LlamaCppPeer | str, own: Samples, tokens: list[int]) -> dict[str, Any] | str:
    if isinstance(peer, str):
        return peer
    runs = own.runs
    return {
        **peer.summary(tokens),
        "threads": torch.get_num_threads(),
        "ours_to_theirs": peer.ratio(
            [r.first_token_s for r in runs], [r.clause_s for r in runs], [r.reply_s for r in runs]
        ),
    }


def _against(own: Samples, baseline: Samples) -> dict[str, Any]:
    pairs = list(zip(own.runs, baseline.runs, strict=True))
    return {
        **modes.summary(baseline),
        "ours_to_theirs": modes.ratio_to(own, baseline),
        "replies_slower_than_theirs": round(sum(a.reply_s > b.reply_s for a, b in pairs) / len(pairs), 4),
    }


def _prefix_states(bed: Bed, own: Mode, prompts: Sequence[ChatPrompt], max_tokens: int) -> dict[str, Any]:
    """First token with nothing cached, with the conversation before the last message, and with the whole prompt."""
    states: dict[str, list[float | None]] = {"cold": [], "conversation": [], "whole": []}
    for prompt in prompts:
        request = engine_request(bed.model, prompt, "p", max_tokens=max_tokens, **own.options)
        lengths = {"cold": 0, "conversation": _conversation_tokens(bed, prompt, request.prompt), "whole": None}
        for state, tokens in lengths.items():
            bed.scheduler.cache.prefix.clear()
            if tokens != 0:
                prefill(bed, request, tokens)
            fresh = engine_request(bed.model, prompt, "p", max_tokens=max_tokens, **own.options)
            states[state].append(run(bed, fresh).first_token_s)
    return {"first_token_ms": {state: milliseconds(taken) for state, taken in states.items()}} | {
        "whole_to_cold": paired_ratio(states["whole"], states["cold"])
    }


def _conversation_tokens(bed: Bed, prompt: ChatPrompt, whole: list[int]) -> int:
    """Tokens that the prompt shares with the conversation before its last message."""
    template = bed.model.template
    if template is None or len(prompt.messages) < 2:
        return 0
    before = template.render(normalised(prompt.messages[:-1]), None, generation_prompt=False)
    tokens = bed.model.tokenizer.encode(before)
    return next(
        (i for i, (a, b) in enumerate(zip(tokens, whole, strict=False)) if a != b), min(len(tokens), len(whole))
    )


def _memory(bed: Bed) -> dict[str, float]:
    config, cache = bed.model.config, bed.scheduler.cache
    from diffusion_engine.runtime.pages import PAGE_TOKENS

    width = 2 if bed.name.endswith(("bf16", "fp16")) else 4
    entries = cache.pool.total * PAGE_TOKENS * config.num_layers * 2 * config.num_kv_heads * config.head_dim
    return {"kv_pool": round(entries * width / 1e6, 1), "kv_pool_tokens": cache.pool.total * PAGE_TOKENS}


def _identical_in_fp32(fp32: Bed, own: Mode, prompts: Sequence[ChatPrompt], max_tokens: int) -> float:
    shown = engine_thread.measure_concurrency(fp32, own, prompts, rounds=1, max_tokens=max_tokens)
    return float(shown["identical"])


def _quality(
    plan: Plan,
    bed: Bed,
    peers: dict[str, Bed],
    own: Mode,
    samples: dict[str, Samples],
    prompts: Sequence[ChatPrompt],
    report: Report,
) -> dict[str, Any]:
    mine = quality.tokens_of(samples[OWN].runs)
    costs: dict[str, Any] = {"right_replies": {OWN: quality.right_replies(bed, prompts, samples[OWN].runs)}}
    if plan.baselines:
        for name, other in samples.items():
            if name != OWN:
                theirs = quality.tokens_of(other.runs)
                costs[f"{bed.name}: {bed.model.strategy} and {name}"] = quality.compare(mine, theirs)
        for name, peer in peers.items():
            wanted = [own]
            if name == "torch_fp32" and bed.model.strategy is Strategy.HYBRID:
                wanted.append(Mode("autoregressive", modes.one_token_a_step(bed.model)))
            report(f"quality: {name}")
            theirs_by_mode = modes.measure(peer, wanted, prompts, rounds=1, max_tokens=plan.max_tokens, report=report)
            costs["right_replies"][name] = quality.right_replies(peer, prompts, theirs_by_mode[OWN].runs)
            costs[f"{bed.name} and {peer.name}"] = quality.compare(mine, quality.tokens_of(theirs_by_mode[OWN].runs))
            if len(wanted) > 1:
                costs["torch fp32: hybrid and autoregressive"] = quality.compare(
                    quality.tokens_of(theirs_by_mode[OWN].runs),
                    quality.tokens_of(theirs_by_mode["autoregressive"].runs),
                )
    costs["thresholds"] = quality.threshold_curve(bed, prompts, max_tokens=plan.max_tokens, report=report)
    return costs
