"""A reply by itself: the real LLM plugin and HTTP, a scripted model and voice."""

from __future__ import annotations

import asyncio

import pytest
from livekit.agents import APIError

from tests.voice_agent.call.line import Voice, shared
from tests.voice_agent.llm.scripted_endpoint import Reply as Answer
from voice_agent.dialogue.phrases import APOLOGY, OUTAGE
from voice_agent.dialogue.reply import Reply
from voice_agent.telemetry.clock import CallClock

pytestmark = pytest.mark.usefixtures("no_leaks")


async def test_a_promised_answer_stays_promised_when_the_model_and_the_voice_both_fail() -> None:
    failures: list[APIError] = []

    async def apology(error: APIError) -> str:
        failures.append(error)
        return OUTAGE if len(failures) == 1 else APOLOGY

    async with shared(lambda body: Answer("one two", break_after=1)) as (services, _):
        voice = services.voice()
        assert isinstance(voice, Voice)
        voice.broken = True
        reply = Reply(
            "are you there",
            services.conversation(),
            services.model,
            voice,
            services.phrases,
            CallClock(),
            speculative=False,
            apology=apology,
        )
        frames = [frame async for frame in reply.audio()]
        await asyncio.wait_for(asyncio.gather(*reply._tasks), 5)
        assert len(failures) == 2
        assert reply.put_off
        assert APOLOGY not in reply.written
        assert frames == services.phrases.get(OUTAGE)
