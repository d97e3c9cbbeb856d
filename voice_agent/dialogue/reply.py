"""One reply on its way: the model is asked, tools are run, words are synthesized, maybe before the turn is over.

A speculative reply works on a fork of the conversation and can be dropped at no cost but work. Committing it makes the
fork's course the conversation's; only then may it do what can't be undone.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from livekit import rtc
from livekit.agents import APIConnectionError, APIError, APITimeoutError, llm, tts
from livekit.agents.utils import aio

from voice_agent.agents.front_desk.agent import IRREVERSIBLE, Conversation, NotCommittedError, Turn
from voice_agent.agents.front_desk.tools import ToolCallError
from voice_agent.dialogue.phrases import APOLOGY, OUTAGE, Phrases
from voice_agent.llm import LLM, Draft
from voice_agent.telemetry.clock import CallClock
from voice_agent.telemetry.record import LlmRequest

logger = logging.getLogger(__name__)

MAX_STEPS = 5
"""Requests in one reply: a tool call, its result, another one, and the words."""


async def _apologise(error: APIError) -> str:
    return APOLOGY


class Reply:
    """Starts at once when it is made; ``text`` and ``audio`` can be read once each, at any time.

    Args:
        caller: What the caller said.
        conversation: The call's dialogue.
        model: The language model.
        voice: The synthesizer.
        phrases: Prepared audio, for the apology.
        clock: The call's clock.
        speculative: The turn isn't committed yet.
        apology: What to say where the model or the voice fails, by its error.
        earlier: How an earlier reply to the same turn, not all of it heard yet, began: a draft of this one's beginning.
    """

    def __init__(
        self,
        caller: str,
        conversation: Conversation,
        model: LLM,
        voice: tts.TTS[Any],
        phrases: Phrases,
        clock: CallClock,
        *,
        speculative: bool,
        earlier: Draft | None = None,
        apology: Callable[[APIError], Awaitable[str]] = _apologise,
    ) -> None:
        self.caller = caller
        self.speculative = speculative
        self.requests: list[LlmRequest] = []
        self.tts_first_chunk_ms: float | None = None
        self.error: str | None = None
        self.put_off = False
        """It failed, and said that an answer will come."""
        self.written = ""
        """Its words so far."""
        self.beginning: Draft | None = None
        """The model's first answer, once it is whole: words or tool calls."""
        self._earlier = earlier
        self._apology = apology
        self._fallback = ""  # what the last tool says: likely the answer, and said should the model say nothing
        self._conversation = conversation
        self._talk = conversation.fork() if speculative else conversation
        self._prompt = self._talk.heard(caller)
        self._model = model
        self._voice = voice
        self._phrases = phrases
        self._clock = clock
        self._cancelled = False
        self._undisturbed = asyncio.Event()
        self._undisturbed.set()
        self._committed = asyncio.Event()
        if not speculative:
            self._committed.set()
        self._text: aio.Chan[str] = aio.Chan()
        self._to_speak: aio.Chan[str] = aio.Chan()
        self._audio: aio.Chan[rtc.AudioFrame] = aio.Chan()
        self._tasks = [
            asyncio.create_task(self._write(), name="reply-write"),
            asyncio.create_task(self._speak(), name="reply-speak"),
        ]

    def answers(self, prompt: Turn) -> bool:
        """Whether it was begun on exactly this prompt, and may be used for it."""
        return self._prompt == prompt

    def commit(self) -> None:
        """The turn is over, and this is its reply."""
        if not self._committed.is_set():
            self._conversation.adopt(self._talk)
            self._talk = self._conversation
            self._committed.set()

    def hold(self) -> None:
        """The caller makes a sound, and may be going on with their turn: do nothing that can't be undone."""
        self._undisturbed.clear()

    def release(self) -> None:
        """It was nothing."""
        self._undisturbed.set()

    def cancel(self) -> None:
        """Stop all work on it: from now on it changes nothing. The engine's request ends with its stream."""
        if not self._cancelled:
            self._cancelled = True
            for task in self._tasks:
                task.cancel()

    async def drop(self) -> None:
        """Stop all work on it, and wait until it has ended."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def text(self) -> AsyncIterator[str]:
        """Its words, as they are written."""
        async for piece in self._text:
            yield piece

    async def audio(self) -> AsyncIterator[rtc.AudioFrame]:
        """Its voice, as it is synthesized."""
        async for frame in self._audio:
            yield frame

    # Words

    async def _write(self) -> None:
        try:
            await self._converse()
            if not self.written.strip():
                if not self._fallback:
                    raise APIConnectionError("the model said nothing", retryable=False)
                self._say(self._fallback)
        except APIError as error:
            logger.warning("a reply failed: %s", error)
            if self._fallback and not self.written:
                self.error = f"{type(error).__name__}: {error}"
                self._say(self._fallback)  # the tool's work is done, and its own words tell what it was
            else:
                self._say((" " if self.written else "") + await self._failed(error))
        finally:
            self._text.close()
            self._to_speak.close()

    async def _failed(self, error: APIError) -> str:
        """Note an error that leaves the caller without an answer; returns what to say about it."""
        self.error = f"{type(error).__name__}: {error}"
        words = await self._apology(error)
        self.put_off = self.put_off or words == OUTAGE  # the model and the voice can both fail: a promise stands
        return OUTAGE if self.put_off else words

    async def _converse(self) -> None:
        prompt, draft = self._prompt, self._earlier
        for step in range(MAX_STEPS):
            last_step = step == MAX_STEPS - 1
            calls = await self._ask(prompt.messages, [] if last_step else prompt.tools, draft)
            if step == 0:
                self.beginning = _message(calls) if calls else self.written
            if not calls:
                return
            if not await self._run_tools(calls):
                # The call can't be carried out as written, and asking the same again would bring the same.
                if not await self._ask(self._talk.turn().messages, []):
                    return
                raise APIConnectionError("the model called a tool where none was offered", retryable=False)
            prompt, draft = self._talk.turn(), self._fallback

    async def _ask(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], draft: Draft | None = None
    ) -> list[llm.FunctionToolCall]:
        """One request; asked again once where the connection broke before a word was said."""
        try:
            return await self._request(messages, tools, draft)
        except APITimeoutError:
            raise
        except APIConnectionError:
            if self.written:
                raise
            return await self._request(messages, tools, draft)

    async def _request(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], draft: Draft | None
    ) -> list[llm.FunctionToolCall]:
        noted = LlmRequest(self._clock.ms(), speculative=not self._committed.is_set())
        self.requests.append(noted)
        calls: list[llm.FunctionToolCall] = []
        stream = self._model.request(messages, tools, draft=draft)
        try:
            async with stream:
                async for chunk in stream:
                    if chunk.delta is None:
                        continue
                    if noted.first_token is None and chunk.has_response():
                        noted.first_token = self._clock.ms()
                    calls += chunk.delta.tool_calls
                    if chunk.delta.content:
                        self._say(chunk.delta.content)
        except APIError as error:
            noted.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            noted.done = self._clock.ms()
            noted.engine = stream.report.diffusion
            noted.tool_calls = [call.name for call in calls]
        return calls

    async def _run_tools(self, calls: list[llm.FunctionToolCall]) -> bool:
        """Carry the calls out, in order; False where one can't be."""
        for call in calls:
            try:
                arguments = json.loads(call.arguments or "{}")
                if not isinstance(arguments, dict):
                    raise ToolCallError(f"{call.name}: the arguments are no JSON object")
                if call.name in IRREVERSIBLE:
                    await self._undisturbed.wait()
                try:
                    result = self._talk.tool_called(call.name, arguments)
                except NotCommittedError:
                    await self._committed.wait()
                    result = self._talk.tool_called(call.name, arguments)
                self._fallback = result.say
            except (ToolCallError, json.JSONDecodeError) as error:
                logger.warning("a tool call was refused: %s", error)
                return False
        return True

    def _say(self, words: str) -> None:
        self.written += words
        self._text.send_nowait(words)
        self._to_speak.send_nowait(words)

    # Voice

    async def _speak(self) -> None:
        try:
            first = await anext(aiter(self._to_speak), None)
            if first is not None:
                await self._synthesize(first)
        except APIError as error:
            logger.warning("the voice failed: %s", error)
            words = await self._failed(error)
            if self.put_off or self.tts_first_chunk_ms is None:
                for frame in self._phrases.get(words) or []:
                    self._send(frame)
        finally:
            self._audio.close()

    async def _synthesize(self, first: str) -> None:
        prepared = self._phrases.get(first) if self.error else None
        if prepared is not None:
            for frame in prepared:
                self._send(frame)
            return
        async with self._voice.stream() as stream:
            feeder = asyncio.create_task(self._feed(stream, first), name="reply-feed")
            try:
                async for audio in stream:
                    self._send(audio.frame)
            finally:
                await aio.cancel_and_wait(feeder)

    async def _feed(self, stream: tts.SynthesizeStream, first: str) -> None:
        stream.push_text(first)
        async for words in self._to_speak:
            stream.push_text(words)
        stream.end_input()

    def _send(self, frame: rtc.AudioFrame) -> None:
        if self.tts_first_chunk_ms is None:
            self.tts_first_chunk_ms = self._clock.ms()
        self._audio.send_nowait(frame)


def _message(calls: list[llm.FunctionToolCall]) -> dict[str, Any]:
    """The assistant's message with these calls, in OpenAI's shape."""
    functions = [{"name": call.name, "arguments": call.arguments or "{}"} for call in calls]
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": call.call_id, "type": "function", "function": function}
            for call, function in zip(calls, functions, strict=True)
        ],
    }
