"""The arguments of `diffusion-engine bench`. Imports nothing heavy: threads are pinned before torch is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

WORKLOADS = ("loop", "supersede", "replay", "output-speed")


def add_arguments(bench: argparse.ArgumentParser, positive: Callable[[str], int]) -> None:
    """Add options and workloads.

    Args:
        bench: the subcommand's parser.
        positive: parses a count.
    """
    _common(bench, positive, suppress=False)
    bench.set_defaults(workload=None)
    bench.add_argument(
        "--baseline",
        action="store_true",
        help="also, taking turns on the same weights: no cache, commit pass not folded, autoregressive, prompt lookup, "
        "torch fp32 and int8, llama.cpp where llama-cpp-python is installed; and what the speed costs in quality",
    )
    bench.add_argument("--quick", action="store_true", help="a quarter of the samples")
    bench.add_argument("--gguf", type=Path, help="of the model's base, for llama.cpp; default: the embedded model's")
    bench.add_argument(
        "--random-20m",
        action="store_true",
        help="only a model of 20 million random weights over HTTP: what the engine itself costs",
    )
    kinds = bench.add_subparsers(title="workloads", metavar="WORKLOAD")
    loop = _workload(kinds, "loop", "ten calls in a row, each prompt extending the last", positive)
    loop.add_argument("--rounds", type=positive, default=3)
    supersede = _workload(kinds, "supersede", "a request at every keystroke, each superseding the last", positive)
    supersede.add_argument("--interval-ms", type=float, default=80.0, help="between keystrokes")
    supersede.add_argument("--messages", type=positive, default=10, help="that are typed")
    replay = _workload(kinds, "replay", "your own chat requests (JSON lines), at open-loop Poisson arrivals", positive)
    replay.add_argument("file", type=Path, help="a chat request a line")
    replay.add_argument("--rate", type=_rate, default=1.0, help="arrivals a second")
    replay.add_argument("--seed", type=int, default=0, help="of the arrivals")
    speed = _workload(kinds, "output-speed", "ten prompts for long texts, 50 requests, at most 1,024 tokens", positive)
    speed.add_argument("--requests", type=positive, default=50)
    speed.add_argument("--cap", type=positive, default=1024, help="tokens of a reply")
    for remote in (replay, speed):
        remote.add_argument("--url", help="of a running server, without /v1; default: serve --model for the time")


def _common(parser: argparse.ArgumentParser, positive: Callable[[str], int], *, suppress: bool) -> None:
    """Options that stand before or after the workload's name; after it, they are only set when given."""

    def default(value: object) -> object:
        return argparse.SUPPRESS if suppress else value

    parser.add_argument(
        "--model", type=Path, default=default(None), help="checkpoint folder; default: the embedded model"
    )
    parser.add_argument(
        "--dtype",
        choices=["fp32", "bf16", "fp16", "int8"],
        default=default(None),
        help="of the weights; default: int8, as the voice agent serves them, on a GPU bf16",
    )
    parser.add_argument("--device", default=default("cpu"), help="cpu, cuda or cuda:N; see serve")
    parser.add_argument(
        "--runner", choices=["auto", "torch", "onnx", "static"], default=default("auto"), help="see serve"
    )
    parser.add_argument("--threads", type=positive, default=default(None), help="see serve")
    parser.add_argument(
        "--prompts", type=Path, default=default(None), help="JSON lines of chat requests; default: ours"
    )
    parser.add_argument("--max-tokens", type=positive, default=default(96), help="of a reply")
    parser.add_argument("--json", type=Path, default=default(None), metavar="FILE", help="write the figures there")


def _workload(
    kinds: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    help: str,
    positive: Callable[[str], int],
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, help=help, description=help)
    _common(parser, positive, suppress=True)
    parser.set_defaults(workload=name)
    return parser


def _rate(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
    return value
