"""One call from greeting to hang-up: the real session and floor, a scripted model, voice and line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from av import AudioFrame

from tests.voice_agent.call.line import RESTAURANT, scene
from tests.voice_agent.llm.scripted_endpoint import Body, Reply
from tests.voice_agent.transports.peer import until
from voice_agent.dialogue import phrases
from voice_agent.turn_taking import AgentReady, Final, Preflight, SpeechEnd, SpeechStart, TriggerEnd

pytestmark = pytest.mark.usefixtures("no_leaks")

LONG = " ".join(f"word{n}" for n in range(40))


def waits_for(event: asyncio.Event) -> list[None]:
    """Gets an entry when someone begins to wait for ``event``, so that what comes behind it can't have happened."""
    begun: list[None] = []
    wait = event.wait

    async def noted() -> Literal[True]:
        begun.append(None)
        return await wait()

    event.wait = noted  # type: ignore[method-assign]
    return begun


def last_words(body: Body) -> str:
    return str(body["messages"][-1]["content"]).split("\n")[0]


async def test_a_caller_is_greeted_asked_and_answered() -> None:
    async with scene(lambda body: Reply("yes we are open on sunday")) as call:
        await call.greeted()
        assert call.line.messages[0]["type"] == "info"
        assert call.captions("agent") == [RESTAURANT.greeting]
        call.speak("are you open on Sunday?")
        await until(lambda: 1 in call.turns())
        record = call.turns()[1]
        assert record["caller"] == "are you open on Sunday?"
        assert record["agent"] == record["heard"] == "yes we are open on sunday"
        assert record["interrupted"] is False
        events = record["events"]
        assert events["decision"] <= events["llm"][0]["done"] <= events["reply_ended"]
        assert events["llm"][0]["request"] <= events["llm"][0]["first_token"] <= events["tts_first_chunk"]
        assert events["tts_first_chunk"] <= events["first_packet"]
        assert call.captions("caller") == ["are you open on Sunday?"]
        assert [m["state"] for m in call.line.of("state")][-3:] == ["thinking", "speaking", "listening"]
        assert call.conversation.messages[-1] == {"role": "assistant", "content": "yes we are open on sunday"}
    # The store is written behind the call, and is complete when the call has ended.
    stored = call.stored
    assert [turn["turn"] for turn in stored["turns"]] == [0, 1]


async def test_a_prepared_reply_is_adopted_not_asked_for_again() -> None:
    async with scene(lambda body: Reply("at ten")) as call:
        await call.greeted()
        call.start_speaking()
        end = call.call.clock.seconds()
        call.tell(TriggerEnd, audio_end=end)
        call.tell(Preflight, text="when do you close?")
        await until(lambda: len(call.server.bodies) == 1)
        assert call.conversation.messages[-1]["role"] == "assistant", "nothing is in the history yet"
        call.tell(SpeechEnd, audio_end=end)
        call.tell(Final, text="When do you close?")
        await until(lambda: 1 in call.turns())
        assert call.turns()[1]["speculation"] == "hit"
        assert len(call.server.bodies) == 1


async def test_case_55_a_caller_who_goes_on_gets_one_reply_to_the_whole() -> None:
    async with scene(lambda body: Reply(f"you said {last_words(body)}", word_s=0.15)) as call:
        await call.greeted()
        call.start_speaking()
        for text in ("a table for four", "a table for four on friday", "a table for four on friday at eight"):
            call.tell(TriggerEnd, audio_end=call.call.clock.seconds())
            asked = len(call.server.bodies)
            call.tell(Preflight, text=text)
            call.start_speaking()
            await until(lambda asked=asked: len(call.server.bodies) > asked)
        call.stop_speaking("a table for four on friday at eight please")
        await until(lambda: 1 in call.turns(), 30)
        assert list(call.turns()) == [0, 1]
        assert call.turns()[1]["heard"] == "you said a table for four on friday at eight please"
        assert call.turns()[1]["speculation"] in ("hit", "miss")
        # What was dropped has ended at the model, too: only the reply to the whole was answered to its end.
        await until(lambda: call.server.abandoned == 3)


async def test_a_barge_in_stops_the_agent_and_the_model_and_keeps_what_was_heard() -> None:
    def script(body: Body) -> Reply:
        return Reply(LONG, word_s=0.03) if "story" in last_words(body) else Reply("all right")

    async with scene(script) as call:
        await call.greeted()
        call.speak("tell me a story")
        await call.audible()
        call.start_speaking()
        call.stop_speaking("stop it")
        await until(lambda: 2 in call.turns())
        story, second = call.turns()[1], call.turns()[2]
        assert story["interrupted"] is True
        heard = story["heard"].split()
        assert 1 <= len(heard) < 20
        assert heard == LONG.split()[: len(heard)]
        assert call.server.abandoned == 1
        assert second["heard"] == "all right"
        messages = call.server.bodies[-1]["messages"]
        assert messages[-2] == {"role": "assistant", "content": story["heard"]}
        cut = [m for m in call.line.of("caption") if "heard_text" in m]
        assert [m["heard_text"] for m in cut] == [story["heard"]]
        assert call.line.of("state")[-1]["state"] == "listening"


async def test_case_22_interrupted_before_the_first_sound_nothing_was_said() -> None:
    async with scene(lambda body: Reply("hello hello hello", word_s=0.3)) as call:
        await call.greeted()
        call.speak("good evening")
        await until(lambda: len(call.server.bodies) >= 1)
        await until(lambda: bool(call.captions("caller")))
        call.start_speaking()
        call.stop_speaking("good evening a table please")
        await until(lambda: call.turns().get(1, {}).get("heard") == "hello hello hello")
        assert list(call.turns()) == [0, 1], "it was one turn"
        assert call.turns()[1]["caller"] == "good evening a table please"
        assert call.turns()[1]["interrupted"] is False
        contents = [m["content"] for m in call.server.bodies[-1]["messages"]]
        assert contents[1] == RESTAURANT.greeting
        assert len(contents) == 3, "no reply stands between"
        assert last_words(call.server.bodies[-1]) == "good evening a table please"
    assert [turn["caller"] for turn in call.stored["turns"]] == ["", "good evening a table please"]


def availability_then(words: str) -> Callable[[Body], Reply]:
    """A model that looks for a table wherever it may, and says ``words`` slowly."""

    def script(body: Body) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Reply(words, word_s=0.3)
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools") or []}
        if "check_availability" not in offered:
            return Reply(words, word_s=0.3)
        values = offered["check_availability"]["properties"]
        return Reply(tool_calls=[("check_availability", {name: values[name]["enum"][0] for name in values})])

    return script


async def test_what_was_looked_up_for_half_a_turn_is_taken_back_with_it() -> None:
    async with scene(availability_then("what name shall I put it under")) as call:
        await call.greeted()
        call.speak("a table for four tomorrow at seven thirty.")
        await until(lambda: any(m["role"] == "tool" for body in call.server.bodies for m in body["messages"]))
        await until(lambda: bool(call.captions("caller")))
        assert any(m["role"] == "tool" for m in call.conversation.messages)
        call.tell(Final, text="a table for four tomorrow at seven thirty.")
        call.start_speaking()
        call.stop_speaking("in the evening.")
        await until(lambda: bool(call.turns().get(1, {}).get("heard")))
        assert call.turns()[1]["caller"] == "a table for four tomorrow at seven thirty. in the evening."
        roles = [m["role"] for m in call.conversation.messages]
        assert roles == ["system", "assistant", "user", "assistant", "tool", "assistant"]
        said = call.conversation.messages[2]["content"].split("\n")[0]
        assert said == "a table for four tomorrow at seven thirty in the evening"


async def test_our_engine_is_told_the_likely_answer() -> None:
    async with scene(availability_then("what name shall I put it under"), extensions=True) as call:
        await call.greeted()
        call.start_speaking()
        # A first reply, dropped: how it began is the draft of the next one's beginning.
        call.tell(TriggerEnd, audio_end=call.call.clock.seconds())
        call.tell(Preflight, text="a table for four tomorrow at seven thirty")
        await until(lambda: any(m["role"] == "tool" for body in call.server.bodies for m in body["messages"]))
        call.start_speaking()
        call.stop_speaking("a table for four tomorrow at seven thirty in the evening.")
        await until(lambda: bool(call.turns().get(1, {}).get("heard")))
        asked = [body for body in call.server.bodies if not body.get("diffusion", {}).get("prefill_only")]
        first, *others = [body["diffusion"]["draft"] for body in asked if "draft" in body.get("diffusion", {})]
        said = [json.loads(m["content"])["say"] for body in asked for m in body["messages"] if m["role"] == "tool"]
        assert first == said[0], "what the tool said is likely what the model will say"
        again = next(draft for draft in others if isinstance(draft, dict))
        assert again["tool_calls"][0]["function"]["name"] == "check_availability"
        assert others[-1] == said[-1]


async def test_an_agent_that_began_in_a_pause_stops_and_answers_the_whole_turn() -> None:
    async with scene(lambda body: Reply(LONG)) as call:
        await call.greeted()
        call.speak("at seven thirty.")
        call.tell(Final, text="at seven thirty.")
        await until(lambda: (s := call.line.output.playback.current) is not None and s.played)
        call.start_speaking()
        assert call.line.output.playback.paused
        call.stop_speaking("in the evening.")
        await until(lambda: 2 in call.turns(), 20)
        assert call.turns()[1]["interrupted"] is True
        assert call.turns()[2]["caller"] == "at seven thirty. in the evening."
        messages = call.conversation.messages
        assert [m["role"] for m in messages] == ["system", "assistant", "user", "assistant"]
        assert messages[2]["content"].split("\n")[0] == "at seven thirty in the evening"


async def test_case_1_a_cough_pauses_the_agent_and_every_word_is_heard() -> None:
    async with scene(lambda body: Reply(LONG, word_s=0.0)) as call:
        await call.greeted()
        call.speak("tell me a story")
        await call.audible()
        call.start_speaking()
        await until(lambda: call.line.output.playback.paused)
        end = call.call.clock.seconds()
        call.tell(TriggerEnd, audio_end=end)
        call.tell(SpeechEnd, audio_end=end)
        await until(lambda: 1 in call.turns(), 20)
        assert call.turns()[1]["heard"] == LONG
        assert call.turns()[1]["interrupted"] is False
        assert len(call.server.bodies) == 1


async def test_tools_run_once_and_what_cannot_be_undone_only_after_the_commit() -> None:
    def script(body: Body) -> Reply:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return Reply("goodbye then")
        return Reply(tool_calls=[("end_call", {})])

    async with scene(script) as call:
        await call.greeted()
        call.start_speaking()
        call.tell(TriggerEnd, audio_end=call.call.clock.seconds())
        call.tell(Preflight, text="that's all goodbye")
        prepared = call.call._replies._prepared
        assert prepared is not None
        waits = waits_for(prepared._committed)
        await until(lambda: bool(waits))
        assert call.conversation.outcome == ""
        assert len(call.server.bodies) == 1, "the reply waits for the turn"
        call.stop_speaking("that's all goodbye")
        reason = await asyncio.wait_for(call.call.ended(), 10)
        assert reason == "the agent said goodbye"
        assert call.turns()[1]["heard"] == "goodbye then"
        assert call.line.messages[-1] == {"type": "bye", "reason": "the agent said goodbye"}
        assert [r["tool_calls"] for r in call.turns()[1]["events"]["llm"]] == [["end_call"], []]


async def test_nothing_is_done_for_good_while_the_caller_may_be_going_on() -> None:
    def script(body: Body) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Reply("goodbye then")
        return Reply("all right " * 3, word_s=0.1, tool_calls=[("end_call", {})])

    async with scene(script) as call:
        await call.greeted()
        call.speak("that's all.")
        await until(lambda: bool(call.captions("caller")))
        call.start_speaking()
        utterance = call.call._speaker.utterance
        assert utterance is not None
        assert utterance.reply is not None
        waits = waits_for(utterance.reply._undisturbed)
        await until(lambda: bool(waits))
        assert call.conversation.outcome == ""
        end = call.call.clock.seconds()
        call.tell(TriggerEnd, audio_end=end)
        call.tell(SpeechEnd, audio_end=end)
        call.tell(Final, text="")  # it was a cough
        assert await asyncio.wait_for(call.call.ended(), 10) == "the agent said goodbye"


async def test_a_goodbye_that_is_cut_off_does_not_end_the_call() -> None:
    def script(body: Body) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Reply(LONG)
        return Reply(tool_calls=[("end_call", {})]) if "goodbye" in last_words(body) else Reply("of course")

    async with scene(script) as call:
        await call.greeted()
        call.speak("goodbye")
        await call.audible()
        call.speak("wait one more thing")
        await until(lambda: 2 in call.turns())
        assert call.turns()[1]["interrupted"] is True
        call.speak("thanks for that")
        await until(lambda: 3 in call.turns())
        assert call.line.of("bye") == []


async def test_a_muted_caller_is_not_taken_for_a_silent_one() -> None:
    async with scene(lambda body: Reply("yes")) as call:
        await call.greeted()
        call.call.on_message({"type": "mute", "muted": True})
        await call.pass_time(60)
        assert call.call._patience.timer.prompts == 0
        call.call.on_message({"type": "mute", "muted": False})
        await call.pass_time(10)
        await until(lambda: call.captions("agent") == [RESTAURANT.greeting, phrases.STILL_THERE[0]])


TROUBLE = [Reply("never", hang_after=0), Reply(status=500), Reply("one two", break_after=0), Reply("")]


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_cases_60_61_63_a_model_that_fails_is_apologised_for_and_the_call_goes_on(trouble: Reply) -> None:
    broken = True
    async with scene(lambda body: trouble if broken else Reply("here I am"), first_token_s=0.3) as call:
        await call.greeted()
        call.speak("are you there")
        await until(lambda: 1 in call.turns())
        assert call.turns()[1]["heard"] == phrases.APOLOGY
        assert call.turns()[1]["error"]
        broken = False
        call.speak("hello again")
        await until(lambda: 2 in call.turns())
        assert call.turns()[2]["heard"] == "here I am"


async def test_a_voice_that_fails_is_replaced_by_prepared_audio() -> None:
    async with scene(lambda body: Reply("here I am")) as call:
        await call.greeted()
        call.voice.broken = True
        call.speak("are you there")
        await until(lambda: 1 in call.turns())
        assert call.turns()[1]["error"]
        assert call.turns()[1]["events"]["first_packet"] is not None
        call.voice.broken = False
        call.speak("hello again")
        await until(lambda: 2 in call.turns())
        assert call.turns()[2]["heard"] == "here I am"


async def test_a_dead_engine_is_told_at_once() -> None:
    async with scene(lambda body: Reply("yes")) as call:
        await call.greeted()
        call.call.process_changed("engine", up=False)
        await until(lambda: phrases.TROUBLE in call.captions("agent"))
        assert call.line.of("error")[0]["code"] == "engine"
        call.call.process_changed("engine", up=True)


async def test_a_turn_that_an_engine_s_death_left_unanswered_is_answered_when_it_is_back() -> None:
    down = True
    async with scene(lambda body: Reply(status=500) if down else Reply("here I am")) as call:
        await call.greeted()
        call.call.process_changed("engine", up=False)
        await until(lambda: phrases.TROUBLE in call.captions("agent"))
        call.speak("are you there")
        await until(lambda: bool(call.turns().get(1, {}).get("heard")))
        assert call.turns()[1]["heard"] == phrases.OUTAGE, "the caller isn't blamed"
        down = False
        call.call.process_changed("engine", up=True)
        await until(lambda: 2 in call.turns())
        first, second = call.turns()[1], call.turns()[2]
        assert (second["caller"], second["heard"], second["again"]) == ("are you there", "here I am", True)
        assert first["again"] is False
        assert second["internal_gap_ms"] is None, "nobody waits for an answer that was put off"
        contents = [m["content"] for m in call.server.bodies[-1]["messages"][1:]]
        assert contents == [RESTAURANT.greeting, "are you there"], "the excuse is no part of the dialogue"
    assert [turn["turn"] for turn in call.stored["turns"]] == [0, 1, 2]


async def test_a_caller_who_speaks_while_the_engine_is_away_is_answered_on_all_of_it() -> None:
    down = True
    async with scene(lambda body: Reply(status=500) if down else Reply("here I am")) as call:
        await call.greeted()
        call.call.process_changed("engine", up=False)
        await until(lambda: phrases.TROUBLE in call.captions("agent"))
        call.speak("a table for two")
        call.tell(Final, text="a table for two")
        await until(lambda: bool(call.turns().get(1, {}).get("heard")))
        down = False
        call.start_speaking()
        call.call.process_changed("engine", up=True)
        call.stop_speaking("tomorrow at eight in the evening")
        await until(lambda: 2 in call.turns())
        assert call.turns()[2]["caller"] == "a table for two tomorrow at eight in the evening"
        assert call.turns()[2]["again"] is False
        assert len(call.server.bodies[-1]["messages"]) == 3


async def test_a_caller_who_waits_for_an_answer_is_not_asked_whether_they_are_there() -> None:
    async with scene(lambda body: Reply(status=500)) as call:
        await call.greeted()
        call.call.process_changed("engine", up=False)
        await until(lambda: phrases.TROUBLE in call.captions("agent"))
        call.speak("are you there")
        await until(lambda: call.call._trouble.owing)
        await until(lambda: call.turns().get(1, {}).get("heard") == phrases.OUTAGE)
        await call.pass_time(10)
        await until(lambda: call.captions("agent")[-1] == phrases.TROUBLE)
        assert call.call._patience.timer.prompts == 0
        await call.pass_time(60)  # an answer isn't owed for ever
        await call.pass_time(10)
        await until(lambda: call.captions("agent")[-1] in phrases.STILL_THERE)


async def test_an_engine_that_dies_under_a_request_is_known_to_be_dead_a_moment_later() -> None:
    async with scene(lambda body: Reply("one two", break_after=0)) as call:
        await call.greeted()
        call.speak("are you there")
        await until(lambda: len(call.server.bodies) == 2)  # asked again at once: the connection may just have been old
        call.call.process_changed("engine", up=False)
        await until(lambda: bool(call.turns().get(1, {}).get("heard")))
        assert call.turns()[1]["heard"] == phrases.OUTAGE


async def test_a_turn_that_kills_the_engine_twice_is_not_tried_a_third_time() -> None:
    async with scene(lambda body: Reply("one two", break_after=0)) as call:
        await call.greeted()
        call.call.process_changed("engine", up=False)
        await until(lambda: call.call._speaker.utterance is None)  # it was told
        call.speak("are you there")
        await until(lambda: bool(call.turns().get(1, {}).get("heard")))
        assert call.turns()[1]["heard"] == phrases.OUTAGE
        assert call.call._trouble.owing
        asked = len(call.server.bodies)
        call.call.process_changed("engine", up=True)
        await until(lambda: len(call.server.bodies) == asked + 2)
        call.call.process_changed("engine", up=False)
        await until(lambda: bool(call.turns().get(2, {}).get("heard")))
        assert (call.turns()[2]["heard"], call.turns()[2]["again"]) == (phrases.APOLOGY, True)
        assert not call.call._trouble.owing
        call.call.process_changed("engine", up=True)
        await call.pass_time(1)
        assert call.call._floor.turn_text == "", "the turn is settled"
        assert call.call._floor.handle(AgentReady(call.call.clock.seconds())) == []
        assert len(call.server.bodies) == asked + 2

        # What the caller says next is a turn of its own, and has a retry of its own.
        call.call.process_changed("engine", up=False)
        await until(lambda: call.call._speaker.utterance is None)
        call.speak("hello again")
        await until(lambda: bool(call.turns().get(3, {}).get("heard")))
        assert (call.turns()[3]["caller"], call.turns()[3]["heard"]) == ("hello again", phrases.OUTAGE)


async def test_what_a_tool_did_is_told_even_if_the_model_dies_over_the_answer() -> None:
    def script(body: Body) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Reply(status=500)
        return availability_then("")(body)

    async with scene(script) as call:
        await call.greeted()
        call.speak("a table for four tomorrow at seven thirty in the evening.")
        await until(lambda: 1 in call.turns())
        said = next(json.loads(m["content"])["say"] for m in call.conversation.messages if m["role"] == "tool")
        assert call.turns()[1]["heard"] == said
        assert call.turns()[1]["error"]


async def test_a_turn_that_the_voice_s_death_left_unanswered_is_answered_when_it_is_back() -> None:
    async with scene(lambda body: Reply("here I am")) as call:
        await call.greeted()
        call.voice.broken = True
        call.call.process_changed("speech", up=False)
        await until(lambda: phrases.TROUBLE in call.captions("agent"))
        assert call.line.of("error")[0]["code"] == "speech"
        call.speak("are you there")
        await until(lambda: 1 in call.turns())
        call.voice.broken = False
        call.call.process_changed("speech", up=True)
        await until(lambda: 2 in call.turns())
        assert (call.turns()[2]["heard"], call.turns()[2]["again"]) == ("here I am", True)


async def test_case_75_hanging_up_mid_word_leaves_nothing_behind() -> None:
    async with scene(lambda body: Reply(LONG, word_s=0.02)) as call:
        await call.greeted()
        call.speak("tell me a story")
        await call.audible()
        call.start_speaking()
        call.call.on_message({"type": "hangup"})
        assert await asyncio.wait_for(call.call.ended(), 5) == "the caller hung up"
        assert call.line.closed
        stored = await call.record()
        assert stored["reason"] == "the caller hung up"
        assert stored["turns"][1]["interrupted"] is True
        await until(lambda: call.server.abandoned + call.server.finished == 1)


async def test_nothing_is_done_any_more_for_a_caller_who_hung_up_in_mid_reply() -> None:
    def script(body: Body) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Reply("goodbye then")
        return Reply(LONG, word_s=0.02, tool_calls=[("end_call", {})])

    async with scene(script) as call:
        await call.greeted()
        call.speak("that's all.")
        await call.audible()
        utterance = call.call._speaker.utterance
        assert utterance is not None
        reply = utterance.reply
        assert reply is not None
        assert not all(task.done() for task in reply._tasks)
        call.call.on_message({"type": "hangup"})
        await asyncio.wait_for(call.call.ended(), 5)
        assert all(task.done() for task in reply._tasks)
        assert call.conversation.outcome == ""
        await until(lambda: call.server.abandoned == 1)  # the model never came to its tool call
        assert len(call.server.bodies) == 1
        stored = await call.record()
        assert stored["turns"][1]["events"]["llm"][0]["done"] is not None


async def test_a_call_that_can_hear_no_more_ends_and_says_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(lambda body: Reply("yes")) as call:
        await call.greeted()

        def fail(*_: object) -> None:
            raise ValueError("scripted")

        monkeypatch.setattr(call.call._listener, "_hear", fail)
        samples = np.zeros((1, 960), np.int16)
        frame = AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate = 48_000
        for _ in range(3):
            call.line.microphone.push(frame)
        assert await asyncio.wait_for(call.call.ended(), 5) == "an internal error"
        assert "listening failed" in caplog.text


async def test_a_call_that_never_connected_ends_without_a_record() -> None:
    async with scene(lambda body: Reply("yes")) as call:
        call.call.hang_up("no connection came about")
        await asyncio.wait_for(call.call.ended(), 5)


async def test_the_client_s_own_measurement_completes_the_record() -> None:
    async with scene(lambda body: Reply("yes we are")) as call:
        await call.greeted()
        call.call.on_message({"type": "ping", "client_ms": 100.0})
        pong = call.line.of("pong")[0]
        assert pong["client_ms"] == 100.0
        call.speak("are you open")
        await until(lambda: any(m["record"]["turn"] == 1 for m in call.line.of("turn")))  # sent with the first packet
        client_ms = call.call.clock.ms() - pong["server_ms"] + 100.0
        call.call.on_message({"type": "agent_audible", "client_ms": client_ms, "gap_ms": 612.5})
        call.call.on_message({"type": "agent_audible", "client_ms": client_ms + 900, "gap_ms": 9999})
        await until(lambda: 1 in call.turns())
        assert call.turns()[1]["gap_ms"] == 612.5
        assert call.turns()[1]["events"]["client_audible"] == pytest.approx(
            client_ms + pong["server_ms"] - 100.0, abs=1
        )


async def test_times_that_are_none_do_not_reach_the_record() -> None:
    async with scene(lambda body: Reply("yes we are")) as call:
        await call.greeted()
        call.speak("are you open")
        await until(lambda: any(m["record"]["turn"] == 1 for m in call.line.of("turn")))
        for number in (float("nan"), float("inf"), 10**400, -1e300, True, "12", None):
            call.call.on_message({"type": "ping", "client_ms": number})
            call.call.on_message({"type": "agent_audible", "client_ms": number, "gap_ms": number})
        assert {m["client_ms"] for m in call.line.of("pong")} == {0.0}
        await until(lambda: 1 in call.turns())
    json.dumps(call.stored, allow_nan=False)
    assert call.stored["turns"][1]["gap_ms"] is None


async def test_case_72_a_silent_caller_is_asked_and_then_let_go() -> None:
    async with scene(lambda body: Reply("yes")) as call:
        await call.greeted()
        timer = call.call._patience.timer
        timer.first_s, timer.second_s, timer.goodbye_s = 0.2, 0.4, 0.6
        reason = await asyncio.wait_for(call.call.ended(), 20)
        assert reason == "the caller was silent"
        assert call.captions("agent")[1:] == [*phrases.STILL_THERE, phrases.GOODBYE_SILENT]


async def test_backchannels_during_a_reply_are_not_turns() -> None:
    async with scene(lambda body: Reply(LONG, word_s=0.0)) as call:
        await call.greeted()
        call.speak("tell me a story")
        await call.audible()
        call.tell(SpeechStart)
        end = call.call.clock.seconds()
        call.tell(TriggerEnd, audio_end=end)
        call.tell(SpeechEnd, audio_end=end)
        call.tell(Final, text="Mm-hmm.")
        await until(lambda: 1 in call.turns(), 20)
        assert list(call.turns()) == [0, 1]
        assert call.turns()[1]["heard"] == LONG
