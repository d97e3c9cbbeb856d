"""Short chat prompts for the tiny checkpoints, and the command without its pinning of threads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffusion_engine import cli
from diffusion_engine.bench.bed import Bed, load_bed

MESSAGES = ("a table for two", "what time do you close", "is there parking", "my name is smith", "no thank you")


@pytest.fixture
def prompts_file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    lines = [
        {
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "assistant", "content": "hello"},
                {"role": "user", "content": message},
            ],
            "reply": {"role": "assistant", "content": "yes"},
        }
        for message in MESSAGES
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def bench(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prompts_file: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    """`diffusion-engine bench` with these arguments; returns what it wrote."""
    monkeypatch.setattr(cli, "_pin_threads", lambda threads: None)

    def run(*arguments: str) -> dict[str, Any]:
        out = tmp_path / "out.json"
        status = cli.main(["bench", *arguments, "--json", str(out)])
        said = capsys.readouterr()
        assert status == 0, said.err
        assert said.out.strip(), "no table"
        return dict(json.loads(out.read_text()))

    return run


@pytest.fixture(scope="session")
def beds(checkpoint: Callable[[str], Path]) -> Callable[[str], Bed]:
    """A tiny model in float32 on a bench, by family."""
    kept: dict[str, Bed] = {}

    def bed(family: str) -> Bed:
        if family not in kept:
            kept[family] = load_bed(checkpoint(family), dtype="fp32")
        return kept[family]

    return bed
