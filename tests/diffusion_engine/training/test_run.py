"""A short run of the training command, on the real base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from diffusion_engine.checkpoints.assemble import base_model, merged
from diffusion_engine.checkpoints.base import BaseModel, base_file
from diffusion_engine.training.command import main

STEPS = 5


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tiny dialogues that differ in one number."""
    path = tmp_path_factory.mktemp("data") / "chats.jsonl"
    lines = []
    for people in range(1, 9):
        messages = [
            {"role": "system", "content": "front desk"},
            {"role": "user", "content": f"a table please\n(heard: party {people})"},
            {"role": "assistant", "content": f"A table for {people}. What name shall I put it under?"},
        ]
        lines.append(json.dumps({"messages": messages}))
    path.write_text("\n".join(lines) + "\n")
    return path


def train(chats: Path, out: Path, *, steps: int = STEPS) -> dict[str, Any]:
    arguments = ["--data", str(chats), "--dialogues", "8", "--steps", str(steps), "--rows", "250", "--rank", "4"]
    assert main([*arguments, "--threads", "2", "--learning-rate", "0.003", "--out", str(out)]) == 0
    progress: dict[str, Any] = json.loads((out / "progress.json").read_text())
    return progress


@pytest.fixture(scope="module")
def run(chats: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("run")
    return out, train(chats, out)


@pytest.mark.timeout(300)
def test_both_losses_fall(run: tuple[Path, dict[str, Any]]) -> None:
    history = run[1]["history"]
    assert len(history) == STEPS
    assert history[-1]["ar_loss"] < history[0]["ar_loss"]
    assert history[-1]["draft_loss"] < history[0]["draft_loss"]


@pytest.mark.timeout(300)
def test_the_same_command_gives_the_same_loss(run: tuple[Path, dict[str, Any]], chats: Path, tmp_path: Path) -> None:
    again = train(chats, tmp_path)
    for first, second in zip(run[1]["history"], again["history"], strict=True):
        assert second["ar_loss"] == pytest.approx(first["ar_loss"], rel=0.02)
        assert second["draft_loss"] == pytest.approx(first["draft_loss"], rel=0.02)


@pytest.mark.timeout(300)
def test_a_finished_run_given_again_trains_nothing(run: tuple[Path, dict[str, Any]], chats: Path) -> None:
    before = (run[0] / "adapter.safetensors").read_bytes()
    assert train(chats, run[0])["step"] == STEPS
    assert (run[0] / "adapter.safetensors").read_bytes() == before


def test_a_run_is_not_continued_with_other_settings(run: tuple[Path, dict[str, Any]], chats: Path) -> None:
    arguments = ["--data", str(chats), "--dialogues", "8", "--steps", "9", "--rows", "250", "--rank", "4"]
    assert main([*arguments, "--out", str(run[0])]) == 2


def test_the_adapter_merges_into_the_base(run: tuple[Path, dict[str, Any]]) -> None:
    adapter = load_file(run[0] / "adapter.safetensors")
    base = BaseModel(base_file())
    tensors = dict(base.tensors())
    name = "model.layers.3.self_attn.v_proj.weight"
    before = tensors[name].clone()
    after = merged(tensors, adapter)
    config = base_model(base).config
    product = adapter["layers.3.qkv.second"] @ adapter["layers.3.qkv.first"]
    key_rows = config.num_kv_heads * config.head_dim
    assert (after[name] - before - product[-key_rows:]).abs().max() < 1e-6
    assert after["model.draft_masks.weight"].shape == (16, config.hidden_size)


def test_help_documents_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert "The run that made the shipped adapter" in text
    assert "--steps" in text
