"""The embedded model's folder: made once, whole or not at all, and made anew for a new adapter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from diffusion_engine.checkpoints.assemble import SHIPPED, base_model, embedded_model_folder, prepare
from diffusion_engine.checkpoints.base import BaseModel, base_file
from diffusion_engine.models import CheckpointError, read_config
from diffusion_engine.training.lora import adapter_state, add_lora


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of rank 1 that changes one projection by a known amount."""
    folder = tmp_path_factory.mktemp("adapter")
    model = base_model(BaseModel(base_file()))
    add_lora(model, rank=1, seed=1)
    state = {name: tensor.clone() for name, tensor in adapter_state(model).items()}
    state["layers.0.down.first"].fill_(1.0)
    state["layers.0.down.second"].fill_(0.5)
    save_file(state, folder / "adapter.safetensors")
    shutil.copyfile(SHIPPED / "chat_template.jinja", folder / "chat_template.jinja")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_prepare_writes_a_checkpoint_with_the_adapter_in_its_weights(adapter: Path, cache: Path) -> None:
    lines: list[str] = []
    folder = prepare(adapter, report=lines.append)
    assert folder.is_relative_to(cache)
    assert len(lines) >= 2
    config, family = read_config(folder)
    assert family.default_strategy == "hybrid"
    assert len(config.mask_token_ids) == 16
    base = dict(BaseModel(base_file()).tensors())
    name = "model.layers.0.mlp.down_proj.weight"
    merged = load_file(folder / "model.safetensors")[name].float()
    assert torch.allclose(merged, base[name] + 0.5, atol=2e-3)
    assert "chat_template" in json.loads((folder / "tokenizer_config.json").read_text())
    lines.clear()
    assert prepare(adapter, report=lines.append) == folder
    assert lines == []


def test_another_adapter_gets_another_folder(adapter: Path, cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(adapter, other)
    state = load_file(other / "adapter.safetensors")
    state["draft_masks"] = state["draft_masks"] + 1
    save_file(state, other / "adapter.safetensors")
    assert embedded_model_folder(other) != embedded_model_folder(adapter)


def test_a_truncated_adapter_is_named_and_leaves_nothing(adapter: Path, cache: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(adapter, broken)
    path = broken / "adapter.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"adapter\.safetensors.*truncated"):
        prepare(broken, report=lambda line: None)
    assert not embedded_model_folder(broken).exists()


def test_a_missing_adapter_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"adapter\.safetensors"):
        embedded_model_folder(tmp_path)
