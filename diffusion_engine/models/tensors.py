"""The tensors of a checkpoint folder, read one at a time, whatever number of files they are spread over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from diffusion_engine.models.errors import CheckpointError

INDEX = "model.safetensors.index.json"


class TensorFiles(Mapping[str, Tensor]):
    """Reads a tensor when it is asked for, so that a checkpoint is never in memory twice."""

    def __init__(self, folder: Path) -> None:
        """Find out which file holds which tensor.

        Args:
            folder: holds one `*.safetensors` file, or shards and an index.

        Raises:
            CheckpointError: there is none, a shard of the index is missing, or a file is damaged.
        """
        self._folder = folder
        self._files: dict[str, Path] = {}
        index = folder / INDEX
        paths = _shards(index) if index.exists() else sorted(folder.glob("*.safetensors"))
        if not paths:
            raise CheckpointError(folder, "holds no *.safetensors file")
        for path in paths:
            if not path.exists():
                raise CheckpointError(path, f"no such file, but {INDEX} names it; fetch it again", field="weight_map")
            try:
                with safe_open(path, framework="pt") as file:
                    self._files.update(dict.fromkeys(file.keys(), path))
            except (SafetensorError, OSError) as broken:
                raise CheckpointError(path, f"damaged or truncated ({broken}); fetch it again") from broken

    def __getitem__(self, name: str) -> Tensor:
        """Read one tensor.

        Raises:
            CheckpointError: it is in none of the files, unreadable, or of numbers that are no plain floats.
        """
        path = self.file_of(name)
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as broken:
            raise CheckpointError(path, f"damaged or truncated ({broken}); fetch it again", field=name) from broken
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            raise CheckpointError(path, f"holds {tensor.dtype}; only float checkpoints are supported", field=name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        """Names of all tensors."""
        return iter(self._files)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._files)

    def file_of(self, name: str) -> Path:
        """The file that holds a tensor.

        Raises:
            CheckpointError: none does.
        """
        if name not in self._files:
            raise CheckpointError(self._folder, "this tensor is in none of the *.safetensors files", field=name)
        return self._files[name]


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a checkpoint.

    Raises:
        CheckpointError: there is no such file, or no object in it.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as missing:
        raise CheckpointError(path, "no such file; is this a checkpoint folder?") from missing
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as broken:
        raise CheckpointError(path, f"not readable as JSON ({broken})") from broken
    if not isinstance(raw, dict):
        raise CheckpointError(path, "must hold a JSON object")
    return raw


def _shards(index: Path) -> list[Path]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise CheckpointError(index, "must map tensors to files", field="weight_map")
    return sorted({index.parent / name for name in names.values()})
