"""Ids of masks and end tokens that a checkpoint gives outside its `config.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusion_engine.models.errors import CheckpointError
from diffusion_engine.models.tensors import read_json


def added_tokens(folder: Path) -> dict[str, int]:
    """The tokenizer's special tokens and their ids, as `tokenizer.json` or `added_tokens.json` list them.

    Raises:
        CheckpointError: one of the files is damaged.
    """
    known: dict[str, int] = {}
    for name in ("added_tokens.json", "tokenizer.json"):
        path = folder / name
        if not path.exists():
            continue
        raw = read_json(path)
        try:
            if name == "added_tokens.json":
                known |= {str(token): int(id) for token, id in raw.items()}
            else:
                known |= {str(entry["content"]): int(entry["id"]) for entry in raw.get("added_tokens") or []}
        except (KeyError, TypeError, ValueError) as wrong:
            raise CheckpointError(path, f"not a list of tokens ({wrong!r})", field="added_tokens") from wrong
    return known


def end_tokens(folder: Path, config: dict[str, Any], known: dict[str, int]) -> list[int]:
    """Every id that ends a text: of the configuration, of `generation_config.json`, and the tokenizer's `eos_token`.

    Chat checkpoints often name the end of a turn in one of the latter only.

    Args:
        folder: of the checkpoint.
        config: its `config.json`.
        known: see `added_tokens`.

    Raises:
        CheckpointError: a file is damaged, or a field holds no ids.
    """
    found: list[int] = []
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        value = (config if name == "config.json" else read_json(path) if path.exists() else {}).get("eos_token_id")
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(id, int) for id in ids):
            raise CheckpointError(path, f"must be a token id or a list of them, not {value!r}", field="eos_token_id")
        found += ids
    path = folder / "tokenizer_config.json"
    named = (read_json(path) if path.exists() else {}).get("eos_token")
    token = named.get("content") if isinstance(named, dict) else named
    return list(dict.fromkeys([*found, *([known[token]] if token in known else [])]))
