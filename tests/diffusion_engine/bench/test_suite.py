"""The whole measurement on tiny random models: every figure is there, counted, and compares what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffusion_engine.bench.bed import Bed, run
from diffusion_engine.bench.modes import BATCH_SIZES, baselines_of
from diffusion_engine.bench.prompts import engine_request, load_prompts
from diffusion_engine.bench.quality import THRESHOLDS
from tests.diffusion_engine.bench.conftest import MESSAGES

Bench = Callable[..., dict[str, Any]]
TIMES = ("first_token_ms", "first_clause_ms", "reply_ms", "forward_ms", "overhead_ms", "tokens_per_forward")


def is_figure(value: Any) -> bool:
    return isinstance(value, dict) and {"p50", "p95", "n"} <= set(value)


@pytest.fixture
def measured(bench: Bench, checkpoint: Callable[[str], Path], prompts_file: Path) -> Callable[..., dict[str, Any]]:
    return lambda family, *more: bench(
        "--quick", "--model", str(checkpoint(family)), "--prompts", str(prompts_file), "--max-tokens", "16", *more
    )


def check_figures(figures: dict[str, Any]) -> None:
    for key in TIMES:
        assert is_figure(figures[key]), key
        assert figures[key]["p50"] is None or 0 <= figures[key]["p50"] <= figures[key]["p95"]
    assert figures["reply_ms"]["n"] == len(MESSAGES)
    assert list(figures["throughput_tok_s"]) == [str(size) for size in BATCH_SIZES]
    assert all(is_figure(figure) and figure["n"] for figure in figures["throughput_tok_s"].values())


def test_a_causal_model_beside_its_baselines(measured: Callable[..., dict[str, Any]]) -> None:
    results = measured("llama_draft", "--baseline")
    check_figures(results)
    assert results["runner"] == "onnx int8"
    assert set(results["forward_ms"]["by_rows"]) == {"1", "8", "16", "32"}
    assert results["machine"]["load_before"]
    assert results["device"] == "cpu"
    assert results["gpu"].startswith("not measured here")
    assert results["memory_mb"]["process"] > 0

    baselines = results["baselines"]
    assert set(baselines) == {"no_cache", "unfolded", "autoregressive", "prompt_lookup", "llama_cpp"}
    for name in ("no_cache", "autoregressive", "prompt_lookup"):
        check_figures(baselines[name])
        assert baselines[name]["ours_to_theirs"]["reply"] > 0
    assert "not measured" in baselines["unfolded"]
    assert "--gguf" in baselines["llama_cpp"]
    assert baselines["autoregressive"]["tokens_per_forward"]["p50"] == 1.0
    assert set(results["runners"]) == {"torch_fp32", "torch_int8"}

    assert results["cancel_steps"]["p95"] <= 1
    assert results["cancel"]["pages_returned"] is True
    assert results["concurrency"]["identical_fp32"] == 1.0

    quality = results["quality"]
    exact = quality["torch fp32: hybrid and autoregressive"]
    assert exact == {"replies": len(MESSAGES), "differ": 0.0, "token_agreement": 1.0}
    for pair in ("onnx int8 and torch fp32", "onnx int8 and torch int8", "onnx int8: hybrid and autoregressive"):
        assert quality[pair]["replies"] == len(MESSAGES)
    assert quality["right_replies"]["own"] == {"replies": len(MESSAGES), "exact": 0.0}
    assert "verified" in quality["thresholds"]


def test_a_block_causal_model_beside_its_baselines(measured: Callable[..., dict[str, Any]]) -> None:
    results = measured("sdar", "--baseline", "--dtype", "fp32")
    check_figures(results)
    baselines = results["baselines"]
    for name in ("no_cache", "unfolded", "autoregressive"):
        check_figures(baselines[name])
    assert "not measured" in baselines["prompt_lookup"]
    # The commit pass costs forwards, and changes no text.
    assert baselines["unfolded"]["tokens_per_forward"]["p50"] < results["tokens_per_forward"]["p50"]
    for name in ("no_cache", "unfolded"):
        assert results["quality"][f"torch fp32: dynamic and {name}"]["differ"] == 0.0
    curve = results["quality"]["thresholds"]
    assert [point["threshold"] for point in curve] == list(THRESHOLDS)
    assert all(point["tokens_per_forward"]["n"] == point["replies"] == len(MESSAGES) for point in curve)


def test_without_baselines(measured: Callable[..., dict[str, Any]]) -> None:
    results = measured("llama_draft")
    check_figures(results)
    assert "--baseline" in results["baselines"]
    assert "runners" not in results


@pytest.mark.parametrize("family", ["llama_draft", "sdar", "Dream", "Fast_dLLM_Qwen"])
def test_recomputing_everything_gives_the_same_reply(
    beds: Callable[[str], Bed], prompts_file: Path, family: str
) -> None:
    bed = beds(family)
    for prompt in load_prompts(prompts_file, 2):
        cached = run(bed, engine_request(bed.model, prompt, "cached", max_tokens=12))
        again = run(bed, engine_request(bed.model, prompt, "again", max_tokens=12))
        without = run(bed, engine_request(bed.model, prompt, "without", max_tokens=12), recompute=True)
        assert without.tokens == cached.tokens == again.tokens
        assert without.cached_tokens == 0
        exact = bed.model.config.attention.exact
        assert (again.cached_tokens > 0) is exact


@pytest.mark.parametrize("family", ["llama_draft", "sdar", "Dream", "Fast_dLLM_Qwen"])
def test_every_baseline_is_measured_or_says_why_not(beds: Callable[[str], Bed], family: str) -> None:
    modes, missing = baselines_of(beds(family).model)
    assert {mode.name for mode in modes} | set(missing) == {"no_cache", "unfolded", "autoregressive", "prompt_lookup"}
    assert all(why.startswith("not measured: ") for why in missing.values())
