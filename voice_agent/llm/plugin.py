"""livekit-agents' LLM on any OpenAI-compatible endpoint, with our engine's extensions where it is our engine."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import openai
from livekit.agents import DEFAULT_API_CONNECT_OPTIONS, NOT_GIVEN, APIConnectOptions, NotGivenOr, llm
from livekit.agents.utils import is_given
from openai import AsyncOpenAI

from voice_agent.llm.endpoint import Endpoint
from voice_agent.llm.stream import Draft, Messages, RequestStream, Tools

LLM_CONN_OPTIONS = APIConnectOptions(max_retry=0, timeout=2.0)
"""Retries are the reply's business: it knows what was spoken already."""


class LLM(llm.LLM[Any]):
    """One connection pool to an endpoint, shared by all calls of a process.

    Args:
        endpoint: Where and what.
        http: Replaces the HTTP client (tests).
    """

    def __init__(self, endpoint: Endpoint, http: httpx2.AsyncClient | None = None) -> None:
        super().__init__()
        self.endpoint = endpoint
        timeouts = endpoint.timeouts
        read_s = max(timeouts.first_token_s, timeouts.between_tokens_s) + 1.0
        self._http = http or httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=120),
            timeout=httpx2.Timeout(read_s, connect=timeouts.connect_s),
            trust_env=not endpoint.extensions,  # the engine is on this machine: no proxy
        )
        self._client = AsyncOpenAI(
            base_url=endpoint.base_url, api_key=endpoint.api_key or "none", http_client=self._http, max_retries=0
        )
        self._prefill: asyncio.Task[None] | None = None

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.endpoint.model

    @property
    def provider(self) -> str:
        """The endpoint's host."""
        return httpx2.URL(self.endpoint.base_url).host

    def chat(
        self,
        *,
        chat_ctx: llm.ChatContext,
        tools: list[llm.Tool] | None = None,
        conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS,
        parallel_tool_calls: NotGivenOr[bool] = NOT_GIVEN,
        tool_choice: NotGivenOr[llm.ToolChoice] = NOT_GIVEN,
        extra_kwargs: NotGivenOr[dict[str, Any]] = NOT_GIVEN,
    ) -> RequestStream:
        """livekit's way to ask: a chat context and tools."""
        messages, _ = chat_ctx.to_provider_format("openai")
        schemas = llm.ToolContext(tools or []).parse_function_tools("openai", strict=True)
        choice = tool_choice if is_given(tool_choice) and isinstance(tool_choice, str) else "auto"
        return self.request(messages, schemas, tool_choice=choice, conn_options=conn_options, chat_ctx=chat_ctx)

    def request(
        self,
        messages: Messages,
        tools: Tools,
        *,
        tool_choice: str = "auto",
        draft: Draft | None = None,
        conn_options: APIConnectOptions = LLM_CONN_OPTIONS,
        chat_ctx: llm.ChatContext | None = None,
    ) -> RequestStream:
        """Ask with OpenAI ``messages`` and ``tools`` as they are. The request is sent at once.

        ``draft`` is what the answer may well be: our engine is done sooner where it is right, and answers the same
        where it isn't. Other endpoints are not told.
        """
        self._stop_prefill()
        return RequestStream(
            self,
            self._client,
            self.endpoint,
            messages=messages,
            tools=tools,
            tool_choice=tool_choice,
            draft=draft if self.endpoint.extensions else None,
            chat_ctx=chat_ctx or llm.ChatContext.empty(),
            conn_options=conn_options,
        )

    def prefill(self, messages: Messages, tools: Tools) -> None:
        """Let our engine read a prompt into its prefix cache; nothing is generated, errors don't matter.

        A newer prefill, or a request, takes the place of one under way. Other endpoints have no such thing.
        """
        if self.endpoint.extensions:
            self._stop_prefill()
            self._prefill = asyncio.get_running_loop().create_task(self.warm(messages, tools), name="llm-prefill")

    def _stop_prefill(self) -> None:
        if self._prefill is not None and not self._prefill.done():
            self._prefill.cancel()

    async def warm(self, messages: Messages, tools: Tools) -> None:
        """The same, awaited. Failures are left to the request that follows, which reports them."""
        try:
            await self._client.chat.completions.create(
                model=self.endpoint.model,
                messages=messages,  # type: ignore[arg-type]  # OpenAI's own shape, as plain data
                tools=tools or openai.omit,  # type: ignore[arg-type]  # OpenAI's own shape, as plain data
                max_tokens=1,
                extra_body={"diffusion": {"prefill_only": True, "priority": -1}},
                timeout=10.0,
            )
        except (openai.OpenAIError, httpx2.HTTPError):
            return

    async def aclose(self) -> None:
        """Close the connections."""
        if self._prefill is not None:
            self._prefill.cancel()
            await asyncio.gather(self._prefill, return_exceptions=True)
        await super().aclose()
        await self._client.close()
