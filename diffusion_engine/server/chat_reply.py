"""One chat reply in OpenAI's shape: whole, as a stream of deltas, or as a stream of snapshots."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from diffusion_engine.chat.reasoning import ReasoningDelta, ReasoningSplitter
from diffusion_engine.chat.tool_calls import ArgumentsDelta, CallStarted, ContentDelta, Delta, ToolCallParser
from diffusion_engine.runtime import EndCause, EndEvent, Event, SnapshotEvent
from diffusion_engine.server.answers import DONE, fault, finish_reason, logprobs_of, server_sent, text_of
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.generation import Generation
from diffusion_engine.server.logprobs import chat_logprobs
from diffusion_engine.server.phases import Phases, extension, usage
from diffusion_engine.server.preparation import Prepared
from diffusion_engine.server.served_model import ServedModel
from diffusion_engine.server.validation import validate

logger = logging.getLogger(__name__)


class ChatReply:
    """See the module. Used once."""

    def __init__(self, model: ServedModel, prepared: Prepared, phases: Phases) -> None:
        """Begin.

        Args:
            model: that replies.
            prepared: the request.
            phases: its clock.
        """
        self._prepared = prepared
        self._phases = phases
        self._tokenizer = model.tokenizer
        self._splitter = ReasoningSplitter(prepared.prompt) if prepared.form.document is None else None
        self._parser = ToolCallParser() if prepared.form.tools else None
        self._common = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model.name,
        }
        self._reasoning = ""
        self._content = ""
        self._calls: list[dict[str, Any]] = []

    def whole(self, events: list[Event], end: EndEvent) -> dict[str, Any]:
        """The body of a response that is not streamed.

        Raises:
            ApiError: 500, the reply isn't what it was held to.
        """
        for delta in self._deltas(text_of(events), end):
            self._follow(delta)
        self._check(end.cause)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self._content or (None if self._calls else ""),
            "refusal": None,
        }
        if self._reasoning:
            message["reasoning_content"] = self._reasoning
        if self._calls:
            message["tool_calls"] = self._calls
        return {
            **self._common,
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": self._logprobs(events),
                    "finish_reason": finish_reason(end.cause, bool(self._calls)),
                }
            ],
            "usage": usage(end.statistics),
            "diffusion": extension(end, self._phases, self._prepared.request_id),
        }

    async def stream(self, events: list[Event], generation: Generation, *, include_usage: bool) -> AsyncIterator[str]:
        """Server-sent events: a chunk for each step that brought text, append-only; or snapshots where asked for.

        Args:
            events: the first batch.
            generation: brings the others.
            include_usage: end with a chunk of usage.
        """
        yield self._chunk({"role": "assistant", "content": ""})
        chunks = self._snapshots if self._prepared.request.snapshots else self._appended
        while True:
            end = events[-1] if isinstance(events[-1], EndEvent) else None
            for chunk in chunks(events, end):
                yield chunk
            if end is not None:
                break
            events = await generation.next()
        for chunk in self._ending(end, include_usage):
            yield chunk
        yield DONE

    def _appended(self, events: list[Event], end: EndEvent | None) -> list[str]:
        logprobs = self._logprobs(events)
        deltas = [self._follow(delta) for delta in self._deltas(text_of(events), end)]
        if logprobs is not None and logprobs["content"]:
            # Without tools there is at most one of reasoning and one of content.
            merged = {key: value for delta in deltas for key, value in delta.items()}
            return [self._chunk(merged or {"content": ""}, logprobs=logprobs)]
        return [self._chunk(delta) for delta in deltas]

    def _snapshots(self, events: list[Event], end: EndEvent | None) -> list[str]:
        """The whole reply as it stands, final and provisional text: it replaces what the last chunk said."""
        self._content += text_of(events)
        shown = next((event for event in reversed(events) if isinstance(event, SnapshotEvent)), None)
        if shown is None and end is None:
            return []
        snapshot = self._content + (shown.provisional if shown is not None and end is None else "")
        meta = {
            "diffusion_content": snapshot,
            "diffusion_progress": 1.0 if end is not None or shown is None else round(shown.progress, 3),
        }
        return [self._chunk({"content": snapshot}, more={"diffusion_meta": meta})]

    def _ending(self, end: EndEvent, include_usage: bool) -> list[str]:
        error = fault(end)
        if error is None:
            try:
                self._check(end.cause)
            except ApiError as invalid:
                error = invalid
        if error is not None:
            return [server_sent(error.body)]
        reason = finish_reason(end.cause, bool(self._calls))
        ours = {"diffusion": extension(end, self._phases, self._prepared.request_id)}
        if not include_usage:
            return [self._chunk({}, reason, more=ours)]
        counted = {**self._common, "object": "chat.completion.chunk", "choices": [], "usage": usage(end.statistics)}
        return [self._chunk({}, reason), server_sent({**counted, **ours})]

    def _chunk(
        self,
        delta: dict[str, Any],
        reason: str | None = None,
        *,
        logprobs: dict[str, Any] | None = None,
        more: dict[str, Any] | None = None,
    ) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return server_sent({**self._common, "object": "chat.completion.chunk", "choices": [choice], **(more or {})})

    def _logprobs(self, events: list[Event]) -> dict[str, Any] | None:
        if self._prepared.request.parameters.top_logprobs is None:
            return None
        return chat_logprobs(logprobs_of(events), self._tokenizer)

    def _deltas(self, text: str, end: EndEvent | None) -> list[Delta | ReasoningDelta]:
        reasoning = ""
        if self._splitter is not None:
            reasoning, text = self._splitter.feed(text)
            if end is not None:
                more, rest = self._splitter.finish()
                reasoning, text = reasoning + more, text + rest
        deltas: list[Delta | ReasoningDelta] = [ReasoningDelta(reasoning)] if reasoning else []
        if self._parser is None:
            return [*deltas, ContentDelta(text)] if text else deltas
        return deltas + self._parser.feed(text) + (self._parser.finish() if end is not None else [])

    def _follow(self, delta: Delta | ReasoningDelta) -> dict[str, Any]:
        """Keep reasoning, content and calls so far; the delta in OpenAI's shape, reasoning as others name it."""
        if isinstance(delta, ReasoningDelta):
            self._reasoning += delta.text
            return {"reasoning_content": delta.text}
        if isinstance(delta, ContentDelta):
            self._content += delta.text
            return {"content": delta.text}
        if isinstance(delta, CallStarted):
            call = {"id": f"call_{secrets.token_hex(12)}", "type": "function"}
            self._calls.append({**call, "function": {"name": delta.name, "arguments": ""}})
            return {"tool_calls": [{"index": delta.index, **call, "function": {"name": delta.name, "arguments": ""}}]}
        assert isinstance(delta, ArgumentsDelta)
        self._calls[delta.index]["function"]["arguments"] += delta.text
        return {"tool_calls": [{"index": delta.index, "function": {"arguments": delta.text}}]}

    def _check(self, cause: EndCause) -> None:
        """Validate a reply that ended by itself, with a validator that knows nothing of our grammars.

        Raises:
            ApiError: 500, for it is our fault, and worse if it went on unseen.
        """
        if cause not in (EndCause.STOP, EndCause.COMPLETE):
            return
        form = self._prepared.form
        try:
            if form.document is not None and not self._calls:
                validate(self._content, form.document)
            for call in self._calls:
                validate(call["function"]["arguments"], form.tools[call["function"]["name"]])
        except (ValueError, KeyError) as invalid:
            logger.error("request %s: the reply does not satisfy its schema: %s", self._prepared.request.id, invalid)
            raise ApiError(
                500, "the reply does not satisfy the schema that it was held to", code="invalid_output"
            ) from invalid
