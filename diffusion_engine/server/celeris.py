"""The rules of the hosted model Celeris-1, for clients written against it: under `/<model>/v1` instead of `/v1`.

There the model must be named, replies are streamed unless `stream` is false, `max_tokens` is 1 or a positive multiple
of 256 (2,048 when omitted), prompt and reply share 8,192 tokens, and `/echo` warms a connection up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.schemas import ChatCompletionRequest, GenerationFields
from diffusion_engine.server.served_model import ServedModel

WARM_PING = 1
MULTIPLE = 256
DEFAULT_MAX_TOKENS = 2048
CONTEXT = 8192

Body = TypeVar("Body", bound=GenerationFields)


def with_vendor_limits(model: ServedModel) -> ServedModel:
    """The model with the vendor's context and the vendor's default for `max_tokens`."""
    config = replace(model.config, max_positions=min(CONTEXT, model.config.max_positions))
    return replace(model, config=config, max_tokens=DEFAULT_MAX_TOKENS, completion_max_tokens=None)


def with_vendor_rules(body: Body) -> Body:
    """The request as the vendor's server reads it.

    Raises:
        ApiError: 400 in the vendor's words.
    """
    if body.model is None:
        raise ApiError(400, "model must be given, and match the one in the URL", param="model")
    fields = ["max_tokens"]
    if isinstance(body, ChatCompletionRequest):
        fields.append("max_completion_tokens")
    for field in fields:
        given = getattr(body, field)
        if given is not None and given != WARM_PING and given % MULTIPLE:
            raise ApiError(
                400, f"{field} must be 1 (warm ping) or a positive multiple of 256, got {given}", param=field
            )
    return body if "stream" in body.model_fields_set else body.model_copy(update={"stream": True})
