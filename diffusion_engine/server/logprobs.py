"""Log-probabilities in OpenAI's two shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding import TokenLogprobs

LOWEST = -9999.0
"""What OpenAI writes for a probability of nothing; JSON has no infinity."""


def chat_logprobs(tokens: Iterable[TokenLogprobs], tokenizer: Tokenizer) -> dict[str, Any]:
    """`choices[].logprobs` of a chat completion."""

    def entry(token: int, logprob: float) -> dict[str, Any]:
        spelled = tokenizer.spelled(token)
        return {"token": spelled.decode(errors="replace"), "logprob": max(logprob, LOWEST), "bytes": list(spelled)}

    content = [
        {**entry(noted.token, noted.logprob), "top_logprobs": [entry(*alternative) for alternative in noted.top]}
        for noted in tokens
    ]
    return {"content": content, "refusal": None}


def completion_logprobs(tokens: Iterable[TokenLogprobs], tokenizer: Tokenizer, offset: int) -> dict[str, Any]:
    """`choices[].logprobs` of a plain completion.

    Args:
        tokens: of this chunk.
        tokenizer: of the model.
        offset: characters of the reply before this chunk.
    """
    names, offsets, values, tops = [], [], [], []
    for noted in tokens:
        name = tokenizer.spelled(noted.token).decode(errors="replace")
        names.append(name)
        offsets.append(offset)
        values.append(max(noted.logprob, LOWEST))
        tops.append({tokenizer.spelled(t).decode(errors="replace"): max(value, LOWEST) for t, value in noted.top})
        offset += len(name)
    return {"tokens": names, "text_offset": offsets, "token_logprobs": values, "top_logprobs": tops}
