"""Golden vectors (tests/data): what the families' public reference code computes from small random weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diffusion_engine.decoding import CanvasCache, DecodingParameters, Strategy

DATA = Path(__file__).parents[1] / "data"
FOLDERS = ("sdar-a", "llada2-a", "a2d-qwen3-a", "fast-dllm-v2-a", "nemotron-a", "llada-a", "dream-a")


@dataclass(frozen=True)
class Case:
    """One greedy generation.

    Attributes:
        name: of the folder and the case.
        folder: of the checkpoint.
        raw: as in the folder's `cases.json`.
        parameters: in our terms.
        reply: the expected tokens.
        calls: forwards that denoise.
    """

    name: str
    folder: str
    raw: dict[str, Any]
    parameters: DecodingParameters
    reply: list[int]
    calls: int

    @property
    def prompt(self) -> list[int]:
        return list(self.raw["prompt"])

    @property
    def length(self) -> int:
        return int(self.raw["gen_length"])


def block_causal(raw: dict[str, Any]) -> DecodingParameters:
    return DecodingParameters(
        strategy=Strategy(raw["strategy"]),
        block_length=raw["block_length"],
        threshold=0.9 if raw["threshold"] is None else raw["threshold"],
        denoising_steps=raw["denoising_steps"],
    )


def llada(raw: dict[str, Any]) -> DecodingParameters:
    """Its `steps` are those of the whole reply, divided evenly among the blocks."""
    blocks = raw["gen_length"] // raw["block_length"]
    return DecodingParameters(
        strategy=Strategy.STATIC if raw["threshold"] is None else Strategy.DYNAMIC,
        block_length=raw["block_length"],
        threshold=raw["threshold"] or 0.9,
        denoising_steps=raw["steps"] // blocks,
        canvas_cache=CanvasCache(raw["kv_cache"]),
    )


def dream(raw: dict[str, Any]) -> DecodingParameters:
    """Its canvas is one block. `confidence_threshold` ignores `steps`, but for `steps` == length: one token a step."""
    length = raw["gen_length"]
    if raw["alg"] != "confidence_threshold":
        return DecodingParameters(strategy=Strategy(raw["alg"]), block_length=length, denoising_steps=raw["steps"])
    return DecodingParameters(
        strategy=Strategy.STATIC if raw["steps"] == length else Strategy.DYNAMIC,
        block_length=length,
        threshold=raw["threshold"],
    )


def fast_dllm_v2(raw: dict[str, Any]) -> DecodingParameters:
    """Its small blocks are our sub-blocks; of its steps each commits at least one position."""
    return DecodingParameters(
        strategy=Strategy.DYNAMIC,
        block_length=raw["block_length"],
        sub_block_length=raw["sub_block_length"],
        threshold=raw["threshold"],
    )


def nemotron(raw: dict[str, Any]) -> DecodingParameters:
    """Its three modes. Diffusion commits one position a step, or all above a threshold; at least one."""
    block_length = raw["block_length"] or 1
    if raw["mode"] != "generate":
        return DecodingParameters(strategy=NEMOTRON_MODES[raw["mode"]], block_length=block_length)
    return DecodingParameters(
        strategy=Strategy.STATIC if raw["threshold"] is None else Strategy.DYNAMIC,
        block_length=block_length,
        threshold=raw["threshold"] or 0.9,
    )


NEMOTRON_MODES = {"ar_generate": Strategy.AUTOREGRESSIVE, "linear_spec_generate": Strategy.HYBRID}
PARAMETERS: dict[str, Callable[[dict[str, Any]], DecodingParameters]] = {
    "sdar-a": block_causal,
    "llada2-a": block_causal,
    "a2d-qwen3-a": block_causal,
    "fast-dllm-v2-a": fast_dllm_v2,
    "nemotron-a": nemotron,
    "llada-a": llada,
    "dream-a": dream,
}


def cases(*folders: str) -> Iterator[Case]:
    """The cases of some folders."""
    for folder in folders:
        for number, raw in enumerate(json.loads((DATA / folder / "cases.json").read_text())):
            reply = raw["output_after_prompt"] if "output_after_prompt" in raw else raw["output"][len(raw["prompt"]) :]
            yield Case(
                name=f"{folder}-{number}",
                folder=folder,
                raw=raw,
                parameters=PARAMETERS[folder](raw),
                reply=reply,
                calls=raw.get("denoising_calls") or raw["forward_calls"],
            )


def until_end(tokens: list[int], end_tokens: tuple[int, ...], *, with_end: bool) -> list[int]:
    """The tokens before the first end token, or with it."""
    ends = [i for i, token in enumerate(tokens) if token in end_tokens]
    return tokens[: ends[0] + with_end] if ends else tokens


def causal_then_block(text: int, masks: int) -> torch.Tensor:
    """The mask of a causal model's draft: text sees what is before it, the masks behind see all."""
    visible = torch.ones(text + masks, text + masks, dtype=torch.bool).tril()
    visible[text:] = True
    return visible


def all_visible(rows: int) -> torch.Tensor:
    """The mask of a bidirectional model."""
    return torch.ones(rows, rows, dtype=torch.bool)
