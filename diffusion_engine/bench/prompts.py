"""What the benchmark asks: chat requests from a JSON lines file, checked and tokenized as the server would."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diffusion_engine.chat.messages import normalised
from diffusion_engine.runtime import GenerationRequest
from diffusion_engine.server.drafts import draft_of_message
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.preparation import prepare_chat, prepare_completion
from diffusion_engine.server.schemas import ChatCompletionRequest, CompletionRequest
from diffusion_engine.server.served_model import ServedModel

FRONT_DESK = Path(__file__).parent / "data" / "front_desk.jsonl"
"""The embedded model's own work, in callers' wordings that its training never saw."""


class PromptError(ValueError):
    """A file of prompts that can't be used; the message names the line."""


@dataclass(frozen=True)
class ChatPrompt:
    """One line.

    Attributes:
        body: fields of a chat request.
        reply: the assistant's message that would be right, or None.
    """

    body: dict[str, Any]
    reply: dict[str, Any] | None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Of the request."""
        return list(self.body["messages"])

    @property
    def text(self) -> str:
        """The messages' words, for checkpoints without a chat template."""
        return "\n".join(str(message.get("content") or "") for message in self.messages)


def load_prompts(path: Path, count: int | None = None) -> list[ChatPrompt]:
    """Read chat requests, one a line; a field `reply` holds the right answer.

    Args:
        path: JSON lines.
        count: at most so many, spread over the file; None for all.

    Raises:
        PromptError: the file is missing, empty, or a line is no chat request.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as unreadable:
        raise PromptError(f"{path}: can't be read ({unreadable})") from unreadable
    prompts = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except ValueError as broken:
            raise PromptError(f"{path}, line {number}: no JSON ({broken})") from broken
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
            raise PromptError(f'{path}, line {number}: must be an object with "messages", a list')
        reply = body.pop("reply", None)
        prompts.append(ChatPrompt(body, reply))
    if not prompts:
        raise PromptError(f"{path}: holds no request")
    if count is None or count >= len(prompts):
        return prompts
    return [prompts[i * len(prompts) // count] for i in range(count)]


def engine_request(
    model: ServedModel, prompt: ChatPrompt, id: str, *, max_tokens: int, **options: Any
) -> GenerationRequest:
    """The engine's request of a prompt, at temperature 0, by the server's own path.

    Args:
        model: that is asked.
        prompt: to ask.
        id: unique in the engine.
        max_tokens: of the reply, unless the prompt names its own.
        options: of the `diffusion` object.

    Raises:
        PromptError: the server would refuse it.
    """
    common = {"temperature": 0.0, "max_tokens": max_tokens, "diffusion": options}
    try:
        if model.template is None:
            text = CompletionRequest.model_validate({"prompt": prompt.text, **common})
            request = prepare_completion(text, model, "").request
        else:
            body = {key: value for key, value in prompt.body.items() if key not in ("model", "stream", "diffusion")}
            chat = ChatCompletionRequest.model_validate({**common, **body, "temperature": 0.0})
            request = prepare_chat(chat, model, "").request
    except (ApiError, ValueError) as refused:
        raise PromptError(f"the engine refuses a prompt: {refused}") from refused
    return replace(request, id=id)


def reference_tokens(model: ServedModel, prompt: ChatPrompt) -> list[int] | None:
    """The prompt's right reply, without the end token; None where there is none or the template can't write it."""
    if prompt.reply is None or model.template is None:
        return None
    chat = ChatCompletionRequest.model_validate({"messages": prompt.messages, "diffusion": {"draft": prompt.reply}})
    rendered = model.template.render(normalised(prompt.messages), None)
    try:
        text = draft_of_message(chat, model.template, rendered)
    except ApiError:
        return None
    return None if text is None else until_end(model, model.tokenizer.encode(text))


def until_end(model: ServedModel, tokens: list[int]) -> list[int]:
    """Tokens before the first end token."""
    ends = set(model.config.eos_token_ids)
    return tokens[: next((i for i, token in enumerate(tokens) if token in ends), len(tokens))]
