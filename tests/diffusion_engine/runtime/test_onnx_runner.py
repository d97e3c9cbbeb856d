"""ONNX Runtime computes what torch does, and a row never depends on its mates, its cache or its pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diffusion_engine.decoding import Pass
from diffusion_engine.models import load_model
from diffusion_engine.models.quantize import LARGEST_IN_PAIRS, quantize
from diffusion_engine.runtime import Limits, Scheduler, TorchRunner, make_runner
from diffusion_engine.runtime.attention import Segment
from diffusion_engine.runtime.onnx_graph import ZERO_POINT, head
from diffusion_engine.runtime.onnx_runner import OnnxRunner
from diffusion_engine.runtime.pages import PAGE_TOKENS
from tests.diffusion_engine.conftest import Loaded
from tests.diffusion_engine.tiny import write_checkpoint

FAMILIES = ("llama_draft", "sdar")
PAGES = 64


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    """With biases in one family, and query and key norms in the other."""
    root = tmp_path_factory.mktemp("onnx")
    folders = {name: write_checkpoint(root / name, name) for name in FAMILIES}
    return {name: Loaded(folder, quantize(load_model(folder))) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def runners(quantized: dict[str, Loaded]) -> dict[str, OnnxRunner]:
    return {name: OnnxRunner(model.model, PAGES, threads=1) for name, model in quantized.items()}


def prefill(runner: OnnxRunner | TorchRunner, step: Pass, pages: list[int]) -> Tensor:
    """The logits of a pass, run on a pool that holds its prefix."""
    if step.start:
        before = [(7 * i) % 250 for i in range(step.start)]
        clean = Pass(tokens=before, start=0, clean=len(before), wanted=range(0), block_length=step.block_length)
        runner.run([Segment(clean, pages)])
    return runner.run([Segment(step, pages)])[0]


def whole(step: Pass) -> Pass:
    """The same rows with everything before them, in one pass."""
    before = [(7 * i) % 250 for i in range(step.start)]
    wanted = range(step.start + step.wanted.start, step.start + step.wanted.stop)
    return replace(step, tokens=before + step.tokens, start=0, clean=step.start + step.clean, wanted=wanted)


@st.composite
def passes(draw: st.DrawFn, family: str) -> Pass:
    start, clean, masks = draw(st.integers(0, 150)), draw(st.integers(1, 20)), draw(st.integers(0, 8))
    block_length = None
    if family == "sdar":
        block_length, masks = 4, 0
        start = start // 4 * 4
    tokens = [draw(st.integers(0, 250)) for _ in range(clean)]
    ids = list(range(264, 264 + masks))
    rows = clean + masks
    return Pass(
        tokens=tokens + ids, start=start, clean=clean, masks=masks, wanted=range(rows), block_length=block_length
    )


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_a_cached_pass_equals_one_without_a_cache_bit_for_bit(
    runners: dict[str, OnnxRunner], family: str, data: st.DataObject
) -> None:
    runner, step = runners[family], data.draw(passes(family))
    cached = prefill(runner, step, list(range(16)))
    assert torch.equal(cached, runner.run([Segment(whole(step), list(range(16, 32)))])[0])


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15)
def test_scattered_pages_and_mates_change_no_bit(
    runners: dict[str, OnnxRunner], family: str, data: st.DataObject, random: object
) -> None:
    runner, steps = runners[family], data.draw(st.lists(passes(family), min_size=2, max_size=4))
    numbers = list(range(PAGES))
    random.shuffle(numbers)  # type: ignore[attr-defined]
    alone = [prefill(runner, step, list(range(16))) for step in steps]
    segments = []
    for step in steps:
        pages, numbers = numbers[:12], numbers[12:]
        prefill(runner, step, pages)
        segments.append(Segment(step, pages))
    for own, together in zip(alone, runner.run(segments), strict=True):
        assert torch.equal(own, together)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_the_logits_are_the_torch_runners_but_for_rounding(
    quantized: dict[str, Loaded], runners: dict[str, OnnxRunner], family: str, data: st.DataObject
) -> None:
    step = data.draw(passes(family))
    wanted = prefill(TorchRunner(quantized[family].model, PAGES), step, list(range(16)))
    got = prefill(runners[family], step, list(range(16)))
    # One activation rounded the other way moves a logit by a step or two of its scale.
    assert float((got - wanted).abs().mean()) < 0.02 * float(wanted.abs().mean())


@pytest.mark.parametrize("family", FAMILIES)
def test_copied_pages_hold_the_same_text(runners: dict[str, OnnxRunner], family: str) -> None:
    runner = runners[family]
    step = Pass(tokens=[5, 6, 7, 8], start=40, clean=4, wanted=range(4), block_length=4 if family == "sdar" else None)
    expected = prefill(runner, step, [0, 1, 2])
    runner.copy([0, 1, 2], [9, 30, 4], 2 * PAGE_TOKENS + 8)
    assert torch.equal(runner.run([Segment(step, [9, 30, 4])])[0], expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_of_a_shared_batch_are_those_of_single_runs(quantized: dict[str, Loaded], family: str) -> None:
    from tests.diffusion_engine.conftest import run_all, run_one

    model = quantized[family]

    def scheduler() -> Scheduler:
        return Scheduler(OnnxRunner(model.model, PAGES, threads=1), PAGES, model.tokenizer, Limits())

    requests = [
        model.request([i] * (5 + 9 * i), strategy, id=f"{i}{strategy}", max_tokens=12)
        for i in range(3)
        for strategy in model.strategies
    ]
    for request, result in zip(requests, run_all(scheduler(), requests), strict=True):
        assert run_one(scheduler(), request).tokens == result.tokens


def test_a_bias_is_added(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "biased", "llama_draft")
    model = load_model(folder)
    layer = model.layers[0].qkv
    layer.bias = torch.nn.Parameter(torch.linspace(-1, 1, layer.out_features))
    quantize(model)
    step = Pass(tokens=[1, 2, 3], start=0, clean=3, wanted=range(3))
    wanted = prefill(TorchRunner(model, 4), step, [0])
    got = prefill(OnnxRunner(model, 4, threads=1), step, [0])
    assert float((got - wanted).abs().mean()) < 0.02 * float(wanted.abs().mean())


def test_seven_bit_weights_for_cpus_without_vnni_are_close(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "narrow", "llama_draft")
    step = Pass(tokens=[1, 2, 3], start=0, clean=3, wanted=range(3))
    wanted = prefill(TorchRunner(load_model(folder), 4), step, [0])
    got = prefill(OnnxRunner(quantize(load_model(folder), LARGEST_IN_PAIRS), 4, threads=1), step, [0])
    assert float((got - wanted).abs().mean()) < 0.04 * float(wanted.abs().mean())


@pytest.mark.parametrize("rows", [1, 3, 8, 33])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_products_of_this_cpus_kernel_do_not_saturate(tmp_path: Path, rows: int, sign: float) -> None:
    model = load_model(write_checkpoint(tmp_path / "loud", "llama_draft"))
    width = model.config.hidden_size
    model.head.weight = torch.nn.Parameter(torch.full_like(model.head.weight, sign))
    session = onnxruntime.InferenceSession(head(quantize(model)), providers=["CPUExecutionProvider"])
    loudest = {"x": np.ones((rows, width), np.float32), "zero_points": np.full(rows, ZERO_POINT, np.uint8)}
    (logits,) = session.run(None, loudest)
    assert np.allclose(logits, sign * width, rtol=1e-5)


def test_float_models_stay_with_torch(checkpoint: object) -> None:
    model = load_model(checkpoint("llama_draft"))  # type: ignore[operator]
    assert isinstance(make_runner("auto", model, 4), TorchRunner)
    with pytest.raises(ValueError, match="int8 weights only; use the torch runner"):
        make_runner("onnx", model, 4)


def test_int8_models_run_in_onnx_unless_told_otherwise(quantized: dict[str, Loaded]) -> None:
    model = quantized["sdar"].model
    assert isinstance(make_runner("auto", model, 4), OnnxRunner)
    assert isinstance(make_runner("torch", model, 4), TorchRunner)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_of_many_requests_may_have_more_rows_than_the_context(
    runners: dict[str, OnnxRunner], family: str
) -> None:
    runner = runners[family]
    tokens = [(7 * i) % 250 for i in range(208)]
    unit = 4 if family == "sdar" else None
    prompt = Pass(tokens=tokens, start=0, clean=len(tokens), wanted=range(len(tokens)), block_length=unit)
    each = len(tokens) // PAGE_TOKENS
    segments = [Segment(prompt, list(range(i * each, (i + 1) * each))) for i in range(4)]
    assert sum(len(segment.step.tokens) for segment in segments) > runner.config.max_positions
    alone = runner.run(segments[:1])[0]
    assert all(torch.equal(together, alone) for together in runner.run(segments))
