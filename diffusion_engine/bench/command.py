"""`diffusion-engine bench`: measure, print tables, write JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from diffusion_engine.bench import machine
from diffusion_engine.bench.bed import Bed, load_bed
from diffusion_engine.bench.loop import measure_loop
from diffusion_engine.bench.output_speed import measure_output_speed
from diffusion_engine.bench.prompts import FRONT_DESK, load_prompts
from diffusion_engine.bench.random_model import measure_floor
from diffusion_engine.bench.replay import measure_replay
from diffusion_engine.bench.report import suite_tables, workload_table
from diffusion_engine.bench.server_process import serving
from diffusion_engine.bench.suite import Plan, measure_all
from diffusion_engine.bench.supersede import measure_supersede
from diffusion_engine.runtime import find_device
from diffusion_engine.server.served_model import Dtype


def run(options: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    """Measure what the options ask for, print it, and write it where they say.

    Args:
        options: see `arguments`.
        folder: of the checkpoint; None where none is needed.

    Returns:
        The figures.

    Raises:
        CheckpointError, ValueError: the checkpoint, the prompts or the output file can't be used.
    """
    device = find_device(options.device)
    options.dtype = options.dtype or default_dtype(device)
    if options.json is not None and not options.json.resolve().parent.is_dir():
        raise ValueError(f"--json {options.json}: there is no folder {options.json.resolve().parent}")
    if options.workload is None and not options.random_20m:
        results = measure_all(_plan(options, _known(folder)), _report)
        print(suite_tables(results))
    else:
        before = machine.load_average()
        results = _WORKLOADS[options.workload or "random-20m"](options, folder)
        results["device"], results["gpu"] = _computed_by(options, device)
        results["machine"] = {
            **machine.describe_machine(),
            "load_before": before,
            "load_after": machine.load_average(),
        }
        print(workload_table(results))
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"written to {options.json}")
    return results


def default_dtype(device: torch.device) -> Dtype:
    """Of the weights: as the voice agent serves them, or as a GPU does."""
    return "int8" if device.type == "cpu" else "bf16"


def needs_model(options: argparse.Namespace) -> bool:
    """A checkpoint is loaded here, rather than asked at a URL or made up."""
    return not getattr(options, "url", None) and not (options.workload is None and options.random_20m)


def _plan(options: argparse.Namespace, folder: Path) -> Plan:
    return Plan(
        folder=folder,
        dtype=options.dtype,
        device=options.device,
        runner=options.runner,
        threads=options.threads,
        prompts=options.prompts or FRONT_DESK,
        max_tokens=options.max_tokens,
        baselines=options.baseline,
        quick=options.quick,
        peer_weights=options.gguf or (_base_of_the_embedded_model() if options.model is None else None),
    )


def _base_of_the_embedded_model() -> Path:
    from diffusion_engine.checkpoints.base import base_file

    return base_file()


def _bed(options: argparse.Namespace, folder: Path | None) -> Bed:
    _report("loading the model")
    return load_bed(_known(folder), **_served_as(options))


def _loop(options: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    prompts = load_prompts(options.prompts or FRONT_DESK)
    bed = _bed(options, folder)
    return measure_loop(bed, prompts, max_tokens=options.max_tokens, rounds=options.rounds) | {"runner": bed.name}


def _supersede(options: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    prompts = load_prompts(options.prompts or FRONT_DESK)
    bed = _bed(options, folder)
    figures = measure_supersede(
        bed, prompts, interval_ms=options.interval_ms, max_tokens=options.max_tokens, limit=options.messages
    )
    return figures | {"runner": bed.name}


def _replay(options: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    prompts = load_prompts(options.file)
    with _server(options, folder) as url:
        return measure_replay(url, prompts, rate=options.rate, seed=options.seed)


def _output_speed(options: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    with _server(options, folder) as url:
        return measure_output_speed(url, requests=options.requests, cap=options.cap, report=_report)


def _random_20m(options: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    return {
        "random_20m": measure_floor(dtype=options.dtype, repeats=50, device=options.device, threads=options.threads)
    }


_WORKLOADS: dict[str, Callable[[argparse.Namespace, Path | None], dict[str, Any]]] = {
    "loop": _loop,
    "supersede": _supersede,
    "replay": _replay,
    "output-speed": _output_speed,
    "random-20m": _random_20m,
}


@contextmanager
def _server(options: argparse.Namespace, folder: Path | None) -> Iterator[str]:
    """The URL of the server that was named, or of one that is started for the time."""
    if options.url:
        yield options.url.rstrip("/").removesuffix("/v1")
        return
    _report("starting a server")
    with serving(_known(folder), **_served_as(options)) as url:
        yield url


def _computed_by(options: argparse.Namespace, device: torch.device) -> tuple[str, dict[str, Any] | str]:
    if getattr(options, "url", None):
        return f"that of {options.url}", f"{machine.GPU}: {options.url} computed, on what it has"
    return str(device), machine.gpu(device, in_process=options.workload in ("loop", "supersede"))


def _served_as(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("dtype", "device", "runner", "threads")}


def _known(folder: Path | None) -> Path:
    assert folder is not None, "see needs_model"
    return folder


def _report(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)
