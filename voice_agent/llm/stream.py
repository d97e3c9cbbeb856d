"""One streamed request: text and tool calls as livekit's chunks, time-outs, the engine's own report."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai
from livekit.agents import APIConnectionError, APIConnectOptions, APIStatusError, APITimeoutError, llm
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk

from voice_agent.llm.endpoint import Endpoint

Messages = list[dict[str, Any]]
Tools = list[dict[str, Any]]
Draft = str | dict[str, Any]
"""Of an answer: its words, or the assistant's message with its tool calls."""


@dataclass
class EngineReport:
    """What the endpoint said about a request besides its text.

    Attributes:
        finish_reason: ``stop``, ``length`` or ``tool_calls``.
        usage: OpenAI's usage object.
        diffusion: The engine's ``diffusion`` object of the last chunk; empty for other endpoints.
    """

    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    diffusion: dict[str, Any] = field(default_factory=dict)


@dataclass
class _ToolCall:
    """A tool call put together from its pieces."""

    call_id: str = ""
    name: str = ""
    arguments: str = ""


class RequestStream(llm.LLMStream):
    """A request under way. ``aclose()`` closes the HTTP stream at once, which ends it in the engine within a step.

    Tool calls come as one chunk each when they are complete.
    """

    def __init__(
        self,
        owner: llm.LLM[Any],
        client: AsyncOpenAI,
        endpoint: Endpoint,
        *,
        messages: Messages,
        tools: Tools,
        tool_choice: str,
        draft: Draft | None,
        chat_ctx: llm.ChatContext,
        conn_options: APIConnectOptions,
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._messages = messages
        self._request_tools = tools
        self._tool_choice = tool_choice
        self._draft = draft
        self.report = EngineReport()
        super().__init__(owner, chat_ctx=chat_ctx, tools=[], conn_options=conn_options)
        self._retry_on_chunk_sent = False

    async def _run(self) -> None:
        timeouts = self._endpoint.timeouts
        try:
            async with asyncio.timeout(timeouts.connect_s + timeouts.first_token_s) as limit:
                async with await self._open() as stream:
                    await self._read(stream, limit)
        except TimeoutError as error:
            raise APITimeoutError(
                f"{self._endpoint.base_url} sent nothing useful within its time", retryable=False
            ) from error
        except openai.APITimeoutError as error:
            raise APITimeoutError(f"{self._endpoint.base_url} did not answer in time", retryable=False) from error
        except openai.APIStatusError as error:
            raise APIStatusError(
                str(error), status_code=error.status_code, request_id=error.request_id, body=error.body, retryable=False
            ) from error
        except (openai.APIError, httpx2.HTTPError) as error:
            raise APIConnectionError(f"{self._endpoint.base_url}: {error}", retryable=False) from error

    async def _open(self) -> AsyncStream[ChatCompletionChunk]:
        # Messages and tools have OpenAI's own shape, as plain data, which its types don't express.
        plain: dict[str, Any] = {"messages": self._messages}
        if self._request_tools:
            plain |= {"tools": self._request_tools, "tool_choice": self._tool_choice}
            if self._endpoint.extensions:
                # One call closes the reply: a grammar that allows a second one costs a pass to learn there is none.
                plain["parallel_tool_calls"] = False
        if self._draft:
            plain["extra_body"] = {"diffusion": {"draft": self._draft}}
        opened = await self._client.chat.completions.create(
            model=self._endpoint.model,
            stream=True,
            stream_options={"include_usage": True},
            temperature=self._endpoint.temperature,
            max_tokens=self._endpoint.max_tokens,
            **plain,
        )
        assert isinstance(opened, AsyncStream)
        return opened

    async def _read(self, stream: AsyncStream[ChatCompletionChunk], limit: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        calls: dict[int, _ToolCall] = {}
        async for chunk in stream:
            self._note(chunk)
            useful = False
            for choice in chunk.choices:
                if choice.delta.content:
                    useful = True
                    delta = llm.ChoiceDelta(role="assistant", content=choice.delta.content)
                    self._event_ch.send_nowait(llm.ChatChunk(id=chunk.id, delta=delta))
                for piece in choice.delta.tool_calls or []:
                    useful = True
                    call = calls.setdefault(piece.index, _ToolCall())
                    call.call_id += piece.id or ""
                    call.name += (piece.function and piece.function.name) or ""
                    call.arguments += (piece.function and piece.function.arguments) or ""
                if choice.finish_reason:
                    useful = True
                    self._send_calls(chunk.id, calls)
                    calls = {}
            if useful:
                limit.reschedule(loop.time() + self._endpoint.timeouts.between_tokens_s)
        self._send_calls("", calls)
        if self.report.finish_reason is None:
            raise APIConnectionError(f"{self._endpoint.base_url} ended the stream in mid-reply", retryable=False)

    def _send_calls(self, chunk_id: str, calls: dict[int, _ToolCall]) -> None:
        for index in sorted(calls):
            call = calls[index]
            made = llm.FunctionToolCall(name=call.name, arguments=call.arguments or "{}", call_id=call.call_id)
            delta = llm.ChoiceDelta(role="assistant", tool_calls=[made])
            self._event_ch.send_nowait(llm.ChatChunk(id=chunk_id, delta=delta))

    def _note(self, chunk: ChatCompletionChunk) -> None:
        for choice in chunk.choices:
            self.report.finish_reason = choice.finish_reason or self.report.finish_reason
        if chunk.usage is not None:
            self.report.usage = chunk.usage.model_dump(exclude_none=True)
            cached = chunk.usage.prompt_tokens_details
            usage = llm.CompletionUsage(
                completion_tokens=chunk.usage.completion_tokens,
                prompt_tokens=chunk.usage.prompt_tokens,
                prompt_cached_tokens=(cached and cached.cached_tokens) or 0,
                total_tokens=chunk.usage.total_tokens,
            )
            self._event_ch.send_nowait(llm.ChatChunk(id=chunk.id, usage=usage))
        extra = (chunk.model_extra or {}).get("diffusion")
        if isinstance(extra, dict):
            self.report.diffusion = extra
