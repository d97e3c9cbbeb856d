"""Messages to prompt text, by the Jinja template that the checkpoint brings."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from diffusion_engine.models import CheckpointError


class ChatTemplateError(ValueError):
    """The template refuses the messages."""


class ChatTemplate:
    """A sandboxed template with what Hugging Face templates expect to find in it."""

    def __init__(self, source: str, special_tokens: dict[str, str]) -> None:
        """Compile.

        Args:
            source: the Jinja text.
            special_tokens: such as `bos_token`, by the names templates use.

        Raises:
            jinja2.TemplateSyntaxError: the source is no template.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
        self._template = environment.from_string(source)
        self._special_tokens = special_tokens

    @classmethod
    def from_folder(cls, folder: Path) -> ChatTemplate | None:
        """Read `chat_template.jinja` or the field of `tokenizer_config.json`; None when the checkpoint has neither.

        Raises:
            CheckpointError: a file is damaged.
        """
        path = folder / "tokenizer_config.json"
        config: dict[str, Any] = {}
        try:
            if path.exists():
                config = dict(json.loads(path.read_text(encoding="utf-8")))
            alone = folder / "chat_template.jinja"
            source = alone.read_text(encoding="utf-8") if alone.exists() else config.get("chat_template")
            if source is None:
                return None
            special = {
                name: value if isinstance(value, str) else value["content"]
                for name, value in config.items()
                if name.endswith("_token") and isinstance(value, str | dict)
            }
            return cls(source, special)
        except (OSError, ValueError, TypeError, KeyError, TemplateError) as broken:
            raise CheckpointError(path, f"no usable chat template ({broken})", field="chat_template") from broken

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        *,
        generation_prompt: bool = True,
    ) -> str:
        """The messages as text.

        Args:
            messages: in OpenAI's shape.
            tools: in OpenAI's shape, or None.
            generation_prompt: go on to where the assistant speaks.

        Raises:
            ChatTemplateError: the template refuses the messages, in its own words.
        """
        try:
            return self._template.render(
                messages=messages, tools=tools, add_generation_prompt=generation_prompt, **self._special_tokens
            )
        except TemplateError as refused:
            raise ChatTemplateError(str(refused)) from refused


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise TemplateError(message)
