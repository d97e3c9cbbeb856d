"""Dialogues as token rows: what is text, what is supervised, where the replies are."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from diffusion_engine.chat.template import ChatTemplate

Chat = dict[str, Any]

ASSISTANT_WEIGHT = 1.0
CALLER_WEIGHT = 0.2
"""The caller's words are learned too, so that the probability of the line's end after a partial means something."""


@dataclass(frozen=True)
class Dialogue:
    """One tokenized dialogue.

    Attributes:
        tokens: ids of the whole text.
        weights: per token, the weight of predicting it (0 where it isn't supervised).
        replies: half-open spans of the assistant's messages, the end token included.
    """

    tokens: tuple[int, ...]
    weights: tuple[float, ...]
    replies: tuple[tuple[int, int], ...]


def tokenize(messages: list[dict[str, Any]], template: ChatTemplate, tokenizer: Tokenizer) -> Dialogue:
    """Render a chat and mark what is learned: the assistant's messages, and the first line of the caller's.

    Args:
        messages: OpenAI-shaped, tool calls included. A reply with `"weight": 0` is there to be read, not to be learned:
            one that the caller cut off.
        template: the checkpoint's.
        tokenizer: the checkpoint's; `<|im_start|>` and `<|im_end|>` must be single tokens.
    """
    ids = tokenizer.encode(template.render(messages, generation_prompt=False), add_special_tokens=False).ids
    start, end, newline = (_single_token(tokenizer, text) for text in ("<|im_start|>", "<|im_end|>", "\n"))
    weights = [0.0] * len(ids)
    replies: list[tuple[int, int]] = []
    at = 0
    for message in messages:
        opening = ids.index(start, at)
        first = ids.index(newline, opening) + 1
        last = ids.index(end, first)
        if message["role"] == "assistant":
            weight = ASSISTANT_WEIGHT * message.get("weight", 1.0)
            weights[first : last + 1] = [weight] * (last + 1 - first)
            if weight:
                replies.append((first, last + 1))
        elif message["role"] == "user":
            line_end = ids.index(newline, first) if newline in ids[first:last] else last
            weights[first : line_end + 1] = [CALLER_WEIGHT] * (line_end + 1 - first)
        at = last + 1
    return Dialogue(tuple(ids), tuple(weights), tuple(replies))


def _single_token(tokenizer: Tokenizer, text: str) -> int:
    (token,) = tokenizer.encode(text, add_special_tokens=False).ids
    return int(token)


def read_chats(source: str, *, seed: int, count: int, split: str) -> Iterator[Chat]:
    """Chats from a JSONL file, or from a generator named `package.module:function`.

    Args:
        source: path of a file with one chat a line, or the name of a function `(seed, n, split) -> Iterator[chat]`.
        seed: passed to the generator.
        count: how many chats; a file is read from its start and may hold fewer.
        split: passed to the generator: `train`, `heldout_values` or `heldout_wordings`.

    Raises:
        ValueError: the source is neither.
    """
    path = Path(source)
    if path.is_file():
        with path.open(encoding="utf-8") as lines:
            for _, line in zip(range(count), lines, strict=False):
                yield json.loads(line)
        return
    module, _, name = source.partition(":")
    if not name:
        raise ValueError(f"{source}: no such file, and not of the form package.module:function")
    try:
        generate = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as missing:
        raise ValueError(f"{source}: {missing}") from missing
    yield from generate(seed=seed, n=count, split=split)
