"""The chat template, as training renders it: a whole dialogue, no generation prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from diffusion_engine.training.data import Render


def renderer(path: Path) -> Render:
    """Read a template file; what comes back turns messages into text."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(path.read_text(encoding="utf-8"))

    def render(messages: list[dict[str, Any]]) -> str:
        return template.render(messages=messages, add_generation_prompt=False)

    return render
