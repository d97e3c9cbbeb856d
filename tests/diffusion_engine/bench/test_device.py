"""The device of a measurement: taken as `serve` takes it, and said beside the figures."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from diffusion_engine import cli
from diffusion_engine.bench import command, machine, server_process
from diffusion_engine.bench.report import suite_tables
from diffusion_engine.server import served_model

Bench = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("workload", [[], ["loop"], ["--random-20m"]])
def test_a_device_that_is_not_there_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    checkpoint: Callable[[str], Path],
    workload: list[str],
) -> None:
    monkeypatch.setattr(cli, "_pin_threads", lambda threads: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cli.main(["bench", "--model", str(checkpoint("sdar")), "--device", "cuda", *workload]) == 1
    said = capsys.readouterr().err
    assert "no device cuda: torch" in said
    assert said.count("\n") == 1


def test_the_model_is_loaded_where_the_option_says(
    bench: Bench, checkpoint: Callable[[str], Path], prompts_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU under the name of a GPU: what is asked for gets to where models are loaded."""
    asked: list[str] = []

    def find(name: str) -> torch.device:
        asked.append(name)
        return torch.device("cpu")

    monkeypatch.setattr(command, "find_device", find)
    monkeypatch.setattr(served_model, "find_device", find)
    model = ("--model", str(checkpoint("sdar")), "--prompts", str(prompts_file), "--dtype", "fp32")
    results = bench("loop", "--rounds", "1", "--max-tokens", "4", "--device", "cuda:1", *model)
    assert asked == ["cuda:1", "cuda:1"]
    assert results["device"] == "cpu"
    assert results["gpu"].startswith("not measured here")


def test_a_server_is_started_on_that_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []

    def refuse(command: list[str], **_: object) -> None:
        started.append(command)
        raise OSError("enough is known")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(OSError, match="enough"), server_process.serving(tmp_path, dtype="bf16", device="cuda:1"):
        pass
    (arguments,) = started
    assert arguments[arguments.index("--device") + 1] == "cuda:1"


def test_what_another_server_computed_on_is_not_claimed_to_be_known() -> None:
    options = SimpleNamespace(url="http://there", workload="replay")
    device, gpu = command._computed_by(options, torch.device("cpu"))  # type: ignore[arg-type]
    assert device == "that of http://there"
    assert isinstance(gpu, str)
    assert gpu.startswith(machine.GPU)


def test_a_gpu_is_described_with_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="a GPU", major=9, minor=0, total_memory=80 * 10**9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 3 * 10**9)
    here, elsewhere = (machine.gpu(torch.device("cuda", 0), in_process=own) for own in (True, False))
    assert isinstance(here, dict)
    assert isinstance(elsewhere, dict)
    assert (here["name"], here["compute_capability"]) == ("a GPU", "9.0")
    assert here["memory_mb"] == {"total": 80_000, "peak": 3_000}
    assert elsewhere["memory_mb"] == {"total": 80_000}


def test_the_default_type_of_weights_is_the_devices() -> None:
    parsed = cli._parser().parse_args(["bench", "--device", "cuda"])
    assert (parsed.device, parsed.dtype) == ("cuda", None)
    assert command.default_dtype(torch.device("cuda", 0)) == "bf16"
    assert command.default_dtype(torch.device("cpu")) == "int8"


def test_the_table_says_the_device(bench: Bench, checkpoint: Callable[[str], Path], prompts_file: Path) -> None:
    results = bench("--quick", "--model", str(checkpoint("sdar")), "--prompts", str(prompts_file), "--max-tokens", "8")
    first, *rest = suite_tables(results).splitlines()
    assert "onnx int8 on cpu" in first
    assert rest[rest.index("GPU") + 1].strip().startswith("not measured here")
