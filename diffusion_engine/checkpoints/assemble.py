"""Join base and adapter into a checkpoint folder in the Hugging Face layout."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from platformdirs import user_cache_path
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from diffusion_engine.checkpoints.base import BaseModel, base_file
from diffusion_engine.models.config import ModelConfig
from diffusion_engine.models.errors import CheckpointError
from diffusion_engine.models.loading import load_state
from diffusion_engine.models.registry import FAMILIES
from diffusion_engine.models.transformer import Transformer

SHIPPED = Path(__file__).parent / "front_desk"
MODEL_NAME = "front-desk-135m"
FAMILY = "llama_draft"
DRAFT_MASKS = 16
BLOCK_LENGTH = 12
FORMAT = 2
"""Raised when the layout of an assembled folder changes, so that old ones are made anew."""

Report = Callable[[str], None]


def embedded_model_folder(adapter: Path = SHIPPED) -> Path:
    """Where `prepare` puts the embedded model; named by what it is made from, so that a new adapter means a new folder.

    Raises:
        CheckpointError: the adapter is missing.
    """
    weights = adapter / "adapter.safetensors"
    if not weights.is_file():
        raise CheckpointError(weights, "the shipped adapter is missing; reinstall the package")
    digest = hashlib.sha256(f"{FORMAT}".encode())
    for path in (weights, adapter / "chat_template.jinja"):
        digest.update(path.read_bytes())
    return user_cache_path("diffusion-engine") / digest.hexdigest()[:12] / MODEL_NAME


def prepare(adapter: Path = SHIPPED, *, report: Report = print) -> Path:
    """Make the embedded model's folder if it isn't there yet.

    Args:
        adapter: folder with `adapter.safetensors` and `chat_template.jinja`.
        report: gets a line per long step.

    Returns:
        The checkpoint folder.

    Raises:
        CheckpointError: base or adapter is missing or damaged.
    """
    folder = embedded_model_folder(adapter)
    if (folder / "config.json").is_file():
        return folder
    report(f"Reading the base model from {base_file().name} ...")
    base = BaseModel(base_file())
    try:
        trained = load_file(adapter / "adapter.safetensors")
    except (SafetensorError, OSError) as broken:
        raise CheckpointError(
            adapter / "adapter.safetensors", f"damaged or truncated ({broken}); reinstall the package"
        ) from broken
    report("Joining base and adapter ...")
    write_checkpoint(folder, base, merged(dict(base.tensors()), trained), adapter / "chat_template.jinja")
    report(f"The embedded model is ready in {folder}")
    return folder


def checkpoint_config(base: BaseModel) -> dict[str, Any]:
    """The `config.json` of the base as a draft-and-verify model."""
    return {
        "model_type": FAMILY,
        "architectures": ["LlamaDraftForCausalLM"],
        **base.config(),
        "draft_masks": DRAFT_MASKS,
        "block_length": BLOCK_LENGTH,
    }


def base_model(base: BaseModel) -> Transformer:
    """The untrained starting point: the base's body, its masks' embeddings zero."""
    config = FAMILIES[FAMILY].config(checkpoint_config(base))
    return load_state(config, FAMILIES[FAMILY], with_masks(dict(base.tensors()), config))


def with_masks(tensors: dict[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Add zero embeddings for the masks."""
    masks = torch.zeros(config.num_embeddings - config.vocab_size, config.hidden_size)
    return {**tensors, "model.draft_masks.weight": masks}


def merged(tensors: dict[str, Tensor], adapter: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add an adapter to the base's weights.

    The adapter's products are of our joined projections (`qkv`, `gate_up`); each is cut at the checkpoint's borders.

    Args:
        tensors: the base's, under Hugging Face's names; changed and returned.
        adapter: as `training.lora.adapter_state` gives it.
    """
    parts = {
        "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "out": ("self_attn.o_proj",),
        "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
        "down": ("mlp.down_proj",),
    }
    layers = 1 + max(int(name.split(".")[1]) for name in adapter if name.startswith("layers."))
    for layer in range(layers):
        for ours, theirs in parts.items():
            first, second = (adapter[f"layers.{layer}.{ours}.{half}"].float() for half in ("first", "second"))
            names = [f"model.layers.{layer}.{name}.weight" for name in theirs]
            pieces = torch.split(second @ first, [tensors[name].shape[0] for name in names])
            for name, piece in zip(names, pieces, strict=True):
                tensors[name] += piece
    tensors["model.draft_masks.weight"] = adapter["draft_masks"].float()
    return tensors


def write_checkpoint(folder: Path, base: BaseModel, tensors: dict[str, Tensor], template: Path) -> None:
    """Write a whole checkpoint folder, or none: it is made beside its place and moved there."""
    temporary = folder.with_name(folder.name + ".part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    save_file({name: tensor.half().contiguous() for name, tensor in tensors.items()}, temporary / "model.safetensors")
    base.tokenizer().save(str(temporary / "tokenizer.json"))
    _write_json(temporary / "tokenizer_config.json", {"chat_template": template.read_text(encoding="utf-8")})
    _write_json(temporary / "generation_config.json", {"strategy": FAMILIES[FAMILY].default_strategy})
    _write_json(temporary / "config.json", checkpoint_config(base))
    shutil.rmtree(folder, ignore_errors=True)
    temporary.replace(folder)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
