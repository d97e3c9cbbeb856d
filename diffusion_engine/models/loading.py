"""Checkpoints in the Hugging Face layout: `config.json` and one or several safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from diffusion_engine.models.config import ModelConfig
from diffusion_engine.models.errors import CheckpointError
from diffusion_engine.models.registry import FAMILIES, Family
from diffusion_engine.models.transformer import Transformer, rotary_table

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def read_config(folder: Path) -> tuple[ModelConfig, Family]:
    """Read and check a checkpoint's `config.json`.

    Raises:
        CheckpointError: there is none, it is no JSON, the family is unknown, or a field is missing or impossible.
    """
    path = folder / "config.json"
    raw = _read_json(path)
    family = FAMILIES.get(str(raw.get("model_type")))
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise CheckpointError(path, f"unknown family {raw.get('model_type')!r}; known: {known}", field="model_type")
    try:
        return family.config(raw), family
    except KeyError as missing:
        raise CheckpointError(path, "this field is missing", field=str(missing.args[0])) from missing
    except (TypeError, ValueError) as wrong:
        raise CheckpointError(path, str(wrong)) from wrong


def load_model(folder: Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Transformer:
    """Build the transformer and fill it from a checkpoint folder.

    Args:
        folder: holds `config.json` and `*.safetensors` (with `model.safetensors.index.json` when sharded).
        dtype: of the weights in memory; those on disk may have another.
        device: where they go.

    Returns:
        The model in evaluation mode, without gradients.

    Raises:
        CheckpointError: as `read_config`; or a tensor is missing, misshapen or unreadable.
    """
    config, family = read_config(folder)
    files = _tensor_files(folder)
    needed = {name for names in family.weights(config).values() for name in names}
    tensors = {name: _read_tensor(folder, files, name) for name in sorted(needed)}
    try:
        return load_state(config, family, tensors, dtype=dtype, device=device)
    except ShapeError as wrong:
        raise CheckpointError(files[wrong.names[0]], str(wrong), field=" + ".join(wrong.names)) from wrong


class ShapeError(ValueError):
    """Tensors that don't have the shape the configuration asks for.

    Attributes:
        names: the checkpoint's names of the tensors that make up the parameter.
    """

    def __init__(self, names: tuple[str, ...], got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        super().__init__(f"shape {got}, but config.json asks for {wanted}")
        self.names = names


def load_state(
    config: ModelConfig,
    family: Family,
    tensors: Mapping[str, Tensor],
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
) -> Transformer:
    """Build a transformer from tensors under their checkpoint names.

    Returns:
        The model in evaluation mode, without gradients.

    Raises:
        ShapeError: a tensor's shape contradicts the configuration.
        KeyError: a tensor is missing.
    """
    with torch.device("meta"):
        model = Transformer(config)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    state: dict[str, Tensor] = {}
    for ours, theirs in family.weights(config).items():
        joined = torch.cat([tensors[name] for name in theirs]) if len(theirs) > 1 else tensors[theirs[0]]
        if tuple(joined.shape) != shapes[ours]:
            raise ShapeError(theirs, tuple(joined.shape), shapes[ours])
        state[ours] = joined.to(dtype=dtype, device=device)
    model.load_state_dict(state, assign=True)
    model.cos, model.sin = rotary_table(config, torch.device(device))
    return model.eval().requires_grad_(False)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as missing:
        raise CheckpointError(path, "no such file; is this a checkpoint folder?") from missing
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as broken:
        raise CheckpointError(path, f"not readable as JSON ({broken})") from broken
    if not isinstance(raw, dict):
        raise CheckpointError(path, "must hold a JSON object")
    return raw


def _tensor_files(folder: Path) -> dict[str, Path]:
    """Which file holds which tensor."""
    files: dict[str, Path] = {}
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise CheckpointError(folder, "holds no *.safetensors file")
    for path in paths:
        try:
            with safe_open(path, framework="pt") as file:
                files.update(dict.fromkeys(file.keys(), path))
        except (SafetensorError, OSError) as broken:
            raise CheckpointError(path, f"damaged or truncated ({broken}); fetch it again") from broken
    return files


def _read_tensor(folder: Path, files: dict[str, Path], name: str) -> Tensor:
    if name not in files:
        raise CheckpointError(folder, "this tensor is in none of the *.safetensors files", field=name)
    try:
        with safe_open(files[name], framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
    except (SafetensorError, OSError) as broken:
        raise CheckpointError(files[name], f"damaged or truncated ({broken}); fetch it again", field=name) from broken
    return tensor
