"""Checkpoints in the Hugging Face layout: `config.json` and one or several safetensors files."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from diffusion_engine.models.config import ModelConfig
from diffusion_engine.models.errors import CheckpointError
from diffusion_engine.models.family import Family, rows_of_parts
from diffusion_engine.models.positions import rotary_table
from diffusion_engine.models.registry import FAMILIES
from diffusion_engine.models.special_tokens import added_tokens, end_tokens
from diffusion_engine.models.tensors import TensorFiles, read_json
from diffusion_engine.models.transformer import Transformer

logger = logging.getLogger(__name__)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LARGEST_FP16 = torch.finfo(torch.float16).max


def read_config(folder: Path) -> tuple[ModelConfig, Family]:
    """Read and check a checkpoint's `config.json`.

    Raises:
        CheckpointError: there is none, it is no JSON, the family is unknown, or a field is missing or impossible.
    """
    path = folder / "config.json"
    raw = read_json(path)
    family = FAMILIES.get(str(raw.get("model_type")))
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise CheckpointError(path, f"unknown family {raw.get('model_type')!r}; known: {known}", field="model_type")
    added = added_tokens(folder)
    if raw.get("mask_token_id") is None and family.mask_token in added:
        raw["mask_token_id"] = added[family.mask_token]
    raw["eos_token_id"] = end_tokens(folder, raw, added)
    try:
        config = family.config({key: value for key, value in raw.items() if value is not None})
    except KeyError as missing:
        raise CheckpointError(path, "this field is missing", field=str(missing.args[0])) from missing
    except (TypeError, ValueError) as wrong:
        raise CheckpointError(path, str(wrong)) from wrong
    published = family.published_mask_id
    if published is not None and config.vocab_size > published and config.mask_token_ids != (published,):
        logger.warning("%s: mask id %s, but published %s has %d", path, config.mask_token_ids, family.name, published)
    return config, family


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
        ValueError: `dtype` can't hold a tensor's numbers.
    """
    config, family = read_config(folder)
    tensors = TensorFiles(folder)
    try:
        return load_state(config, family, tensors, dtype=dtype, device=device)
    except ShapeError as wrong:
        raise CheckpointError(tensors.file_of(wrong.names[0]), str(wrong), field=" + ".join(wrong.names)) from wrong


class ShapeError(ValueError):
    """Tensors that don't have the shape the configuration asks for.

    Attributes:
        names: the checkpoint's names of the tensors that make up the parameter.
    """

    def __init__(self, names: tuple[str, ...], got: list[tuple[int, ...]], wanted: list[tuple[int, ...]]) -> None:
        shapes, asked = (" and ".join(map(str, shapes)) for shapes in (got, wanted))
        super().__init__(f"shape {shapes}, but config.json asks for {asked}")
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
        ValueError: `dtype` can't hold a tensor's numbers.
        KeyError: a tensor is missing.
    """
    with torch.device("meta"):
        model = Transformer(config)
    parameters, precise = dict(model.named_parameters()), model.precise_parameters
    state: dict[str, Tensor] = {}
    for ours, theirs in family.weights(config).items():
        parts = [tensors[name] for name in theirs]
        rows, *columns = parameters[ours].shape
        wanted = [(part, *columns) for part in rows_of_parts(config, ours, rows, len(parts))]
        got = [tuple(part.shape) for part in parts]
        if got != wanted:
            raise ShapeError(theirs, got, wanted)
        joined = torch.cat(parts) if len(parts) > 1 else parts[0]
        # A router's choice hangs on small differences: it stays in the precision that it is computed in.
        kept = torch.float32 if ours in precise else dtype
        if kept is torch.float16 and float(joined.abs().max()) > LARGEST_FP16:
            raise ValueError(f"{' + '.join(theirs)}: has weights beyond the 65,504 that fp16 holds; use bf16 or fp32")
        state[ours] = joined.to(dtype=kept, device=device)
    model.load_state_dict(state, assign=True)
    model.cos, model.sin = rotary_table(config, torch.device(device))
    return model.eval().requires_grad_(False)
