"""Every family is served in every type of weights, by the runner that can, with a pool that fits its device."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file, save_file

from diffusion_engine.decoding import DecodingParameters
from diffusion_engine.models import read_config
from diffusion_engine.runtime import GenerationRequest, Limits
from diffusion_engine.server import served_model
from diffusion_engine.server.served_model import Dtype, default_kv_tokens, load_served_model
from tests.diffusion_engine.conftest import EVERY_FAMILY, run_one
from tests.diffusion_engine.tiny import write_checkpoint


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_family_answers_by_its_default_in_every_type_of_weights(family: str, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / family, family)
    for dtype in get_args(Dtype):
        model = load_served_model(folder, name=None, dtype=dtype, limits=Limits())
        assert model.name == family
        length = min(8, model.config.block_length)
        request = GenerationRequest(
            id="r",
            prompt=[1, 2, 3],
            parameters=DecodingParameters(strategy=model.strategy, block_length=length),
            max_tokens=5,
        )
        end = run_one(model.engine._scheduler, request).end
        assert end.cause in ("length", "stop")
        assert end.statistics.completion_tokens == 5 or end.cause == "stop"


def test_weights_that_fp16_cannot_hold_are_named(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "large", "llama_draft", scale=1e6)
    with pytest.raises(ValueError, match=r"lm_head\.weight: has weights beyond the 65,504 that fp16 holds; use bf16"):
        load_served_model(folder, name=None, dtype="fp16", limits=Limits())
    load_served_model(folder, name=None, dtype="bf16", limits=Limits())


def test_activations_that_fp16_cannot_hold_are_found_at_start(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "hot", "llama_draft")
    tensors = load_file(folder / "model.safetensors")
    for name in ("up_proj", "down_proj"):
        tensors[f"model.layers.0.mlp.{name}.weight"] *= 5e3
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match="beyond the 65,504 that fp16 holds: choose --dtype bf16 or fp32"):
        load_served_model(folder, name=None, dtype="fp16", limits=Limits())
    load_served_model(folder, name=None, dtype="bf16", limits=Limits())


def test_a_kernel_that_torch_lacks_for_a_type_is_told_as_such(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Torch has all that our families need by now; this operation is one that it has for no half precision."""

    def lacking(*_: object) -> None:
        torch.linalg.qr(torch.ones(2, 2, dtype=torch.float16))

    monkeypatch.setattr(served_model, "make_runner", lacking)
    folder = write_checkpoint(tmp_path / "sdar", "sdar")
    with pytest.raises(ValueError, match=r"can't compute this model in fp16 on cpu \(.*\): choose fp32"):
        load_served_model(folder, name=None, dtype="fp16", limits=Limits())


def test_the_pool_takes_what_a_gpu_can_spare_and_no_more_than_requests_can_use(tmp_path: Path) -> None:
    config, _ = read_config(write_checkpoint(tmp_path / "sdar", "sdar"))
    token = 2 * config.num_layers * config.num_kv_heads * config.head_dim * 2
    limits = Limits(max_requests=4)
    assert default_kv_tokens(config, limits, None, 4) == 8192
    assert default_kv_tokens(config, limits, 10**12, 2) == 2 * 4 * 8192
    assert default_kv_tokens(config, limits, 20_000 * token, 2) == 16_000
    # One context is the least that can be served; what lacks then is said when it is allocated.
    assert default_kv_tokens(config, limits, 0, 2) == config.max_positions


def test_int8_is_refused_on_a_gpu_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(served_model, "find_device", lambda name: torch.device("cuda", 0))
    with pytest.raises(ValueError, match="int8 weights are for the CPU: choose bf16, fp16 or fp32 on cuda"):
        load_served_model(tmp_path, name=None, dtype="int8", device="cuda", limits=Limits())


def test_a_full_gpu_is_told_as_something_to_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "sdar", "sdar")

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(served_model, "make_runner", full)
    with pytest.raises(ValueError, match="cpu has too little free memory for the model and a KV pool"):
        load_served_model(folder, name=None, limits=Limits())
