"""Requests, as OpenAI's clients send them. A field that isn't here is refused by name; see `errors`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from diffusion_engine.decoding import CanvasCache, Strategy


def _number(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError(f"must be a number, not {json.dumps(value)}")
    return value


def _boolean(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


# JSON tells numbers, booleans and strings apart; Python, and pydantic with it, would take one for another.
Integer = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
_One = Annotated[Literal[1], BeforeValidator(_number)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, fields: object) -> object:
        """Clients send null for what they don't ask for; also where the default is something else."""
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class DiffusionOptions(_Strict):
    """Our extension object: what diffusion decoding has and OpenAI's API doesn't."""

    strategy: Strategy | None = Field(None, description="how the reply is found; the checkpoint names its default")
    block_length: Integer | None = Field(None, ge=1, le=1024, description="tokens denoised or drafted together")
    threshold: Number | None = Field(None, ge=0, le=1, description="confidence above which a position is accepted")
    denoising_steps: Integer | None = Field(None, ge=1, description="steps among which a block is divided")
    entropy_bound: Number | None = Field(None, ge=0, description="nats that a step of `entropy_bound` may spend")
    edit_threshold: Number | None = Field(None, ge=0, le=1, description="confidence above which `editing` rewrites")
    sub_block_length: Integer | None = Field(
        None, ge=1, le=1024, description="tokens of a block denoised one part first"
    )
    canvas_cache: CanvasCache | None = Field(None, description="approximate caches of bidirectional models")
    fold_commit: StrictBool = Field(True, description="a block's clean pass shares the next block's first step")
    draft: str | dict[str, Any] | None = Field(
        None,
        description="an earlier draft of the reply: its text, or the assistant's message with its tool calls; what "
        "still fits is kept, the rest drafted anew; strategies that verify causally reply as they would without it",
    )
    repetition_limit: Integer = Field(
        128, ge=0, description="tokens in a row that only repeat a short stretch before the reply is ended; 0 for any"
    )
    probe: StrictBool | str = Field(
        False,
        description="tell the probability that the user's turn is complete behind the last message, or behind this "
        "beginning of it: that of what follows there in the prompt, as `turn_complete`",
    )
    priority: Integer = Field(
        0, ge=-10, le=10, description="who goes first when requests meet; mates slow each other down"
    )
    deadline_ms: Number | None = Field(
        None,
        gt=0,
        le=86_400_000,
        description="until the reply must have ended, from when the engine has the request; fewer, less careful passes "
        "are spent to meet it, divided over max_tokens",
    )
    prefill_only: StrictBool = Field(False, description="cache the prompt, generate nothing")
    request_id: str | None = Field(None, min_length=1, max_length=128, description="for POST /v1/requests/{id}/cancel")


class StreamOptions(_Strict):
    """`stream_options`."""

    include_usage: StrictBool = False
    include_obfuscation: StrictBool = False


class FunctionDefinition(_Strict):
    """A tool's function."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: StrictBool | None = None


class Tool(_Strict):
    """One of `tools`."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(_Strict):
    """The function of a named tool choice."""

    name: str


class NamedToolChoice(_Strict):
    """`tool_choice` that names a tool."""

    type: Literal["function"]
    function: FunctionName


class JsonSchemaFormat(_Strict):
    """The schema of a `response_format`."""

    name: str = "response"
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: StrictBool | None = None


class ResponseFormat(_Strict):
    """`response_format`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None

    @model_validator(mode="after")
    def _schema_where_named(self) -> ResponseFormat:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema must be given with type json_schema, and only then")
        return self


class GenerationFields(_Strict):
    """What both endpoints share. The last group means nothing here and is accepted, since clients send it."""

    model: str | None = None
    stream: StrictBool = False
    stream_options: StreamOptions | None = None
    max_tokens: Integer | None = Field(None, ge=1)
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, gt=0, le=1)
    seed: Integer | None = None
    stop: str | list[str] | None = None
    n: _One | None = None
    frequency_penalty: Number | None = Field(None, ge=0, le=0, description="only 0 is supported")
    presence_penalty: Number | None = Field(None, ge=0, le=0, description="only 0 is supported")
    diffusion: DiffusionOptions = Field(default_factory=lambda: DiffusionOptions.model_validate({}))

    user: str | None = None

    @property
    def alternatives(self) -> int | None:
        """Alternatives whose log-probabilities are wanted beside each token's; None for none at all."""
        return None

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """`stop`, in one form."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @model_validator(mode="before")
    @classmethod
    def _text_only(cls, fields: object) -> object:
        for name, value in fields.items() if isinstance(fields, dict) else ():
            try:
                json.dumps(value, ensure_ascii=False, default=str).encode()
            except UnicodeEncodeError:
                raise ValueError(f"{name} holds half of a surrogate pair, which is no text") from None
            except RecursionError:
                raise ValueError(f"{name} is nested too deeply") from None
        return fields

    @model_validator(mode="after")
    def _options_of_streams_only(self) -> GenerationFields:
        if self.stream_options is not None and "stream" in self.model_fields_set and not self.stream:
            raise ValueError("stream_options is for streams only; set stream to true")
        return self

    @model_validator(mode="after")
    def _usable_stops(self) -> GenerationFields:
        if any(not stop for stop in self.stop_strings):
            raise ValueError("stop must not hold an empty string")
        if len(self.stop_strings) > 16:
            raise ValueError("stop holds more than 16 strings")
        return self


class ChatCompletionRequest(GenerationFields):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    max_completion_tokens: Integer | None = Field(None, ge=1)
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedToolChoice | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: ResponseFormat | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Integer | None = Field(None, ge=0, le=20)
    diffusing: StrictBool = Field(False, description="stream snapshots of the whole reply, each in place of the last")

    metadata: dict[str, str] | None = None
    store: StrictBool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    @property
    def alternatives(self) -> int | None:
        """See `GenerationFields`."""
        return (self.top_logprobs or 0) if self.logprobs else None

    @model_validator(mode="after")
    def _forms_that_go_together(self) -> ChatCompletionRequest:
        calls = bool(self.tools) and self.tool_choice != "none"
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        if self.logprobs and calls:
            raise ValueError("logprobs can't be combined with tools; send tool_choice none")
        if self.diffusing and not self.stream:
            raise ValueError("diffusing is for streams only; set stream to true")
        if self.diffusing and (calls or self.logprobs):
            raise ValueError("diffusing can't be combined with tools or logprobs")
        return self


class CompletionRequest(GenerationFields):
    """`POST /v1/completions`."""

    prompt: str | list[Integer] | list[str]
    echo: Annotated[Literal[False], BeforeValidator(_boolean)] | None = None
    best_of: _One | None = None
    logprobs: Integer | None = Field(None, ge=0, le=5)
    suffix: Literal[""] | None = None

    @property
    def alternatives(self) -> int | None:
        """See `GenerationFields`."""
        return self.logprobs
