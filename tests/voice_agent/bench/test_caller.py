"""The simulated caller over real WebRTC, on loopback. What is checked is bookkeeping, not speed."""

import asyncio
import itertools

import numpy as np
import pytest

from tests.voice_agent.bench.beep_peer import BeepPeer, serving
from voice_agent.bench.call_clock import RATE, CallClock
from voice_agent.bench.caller import Caller, CallLog
from voice_agent.bench.gaps import Span, audible_stretches, measure_turns
from voice_agent.bench.peer import CallError, Peer
from voice_agent.bench.scenario import Call, Dialogue, utterances


def tone(seconds: float, hertz: float = 300.0) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE)).astype(np.float32)


async def test_an_echo_comes_back_as_long_as_it_was_and_later():
    clock = CallClock()
    peer = Peer(clock, lambda message: None)
    async with serving(BeepPeer(None)) as url:
        try:
            await peer.connect(url)
            where = peer.microphone.speak(tone(0.3))
            async with asyncio.timeout(20):
                for _ in itertools.count():
                    await asyncio.sleep(0.02)
                    if peer.ear.last_audible > where.end and peer.ear.silent_for_s(clock.now()) > 0.3:
                        break
        finally:
            await peer.close()
    left = peer.microphone.recording()
    right = peer.playout.recording(len(left))

    (sent,) = audible_stretches(left, RATE)
    assert abs(sent.start - where.start) <= RATE // 1000
    assert abs(sent.end - where.end) <= RATE // 1000
    heard = audible_stretches(right, RATE)
    assert heard[0].start > sent.start
    # A busy machine, at either end, may make the echo stutter: holes lengthen it, but what is audible stays the tone.
    levels = np.abs(right[heard[0].start : heard[-1].end])
    blocks = levels[: len(levels) // (RATE // 200) * (RATE // 200)].reshape(-1, RATE // 200).max(axis=1)
    assert np.sum(blocks > 0.03) * 5 == pytest.approx(300, abs=60)


def small_call() -> Call:
    return Call.model_validate(
        {
            "caller": "Ann",
            "voice": "slt",
            "dates": ["tomorrow"],
            "booking": {"name": "Ann", "time": "19:00", "party": 2},
            "parts": [
                {
                    "about": "a table",
                    "turns": [{"say": "A table."}, {"say": "Ann.", "when": "name"}],
                    "done": "booked",
                },
                {"about": "goodbye", "turns": [{"say": "Goodbye."}]},
            ],
        }
    )


async def test_a_scripted_call_is_spoken_recorded_and_measured():
    call, log = small_call(), CallLog()
    peer = BeepPeer(["Hello.", "What name?", "It's booked.", "Bye."])
    async with serving(peer) as url:
        caller = Caller(Dialogue(call, "again", "tomorrow"), {said: tone(0.3) for said in utterances(call)}, log)
        await caller.call(url, token=None)
    assert log.error is None
    assert log.call_id == "beep"
    assert log.greeting == "Hello."
    assert [(turn.say, turn.agent) for turn in log.turns] == [
        ("A table.", "What name?"),
        ("Ann.", "It's booked."),
        ("Goodbye.", "Bye."),
    ]
    assert log.unfinished == []
    assert {"type": "hangup"} in peer.received
    # The peer answers a ping with its sender's time plus a constant, so half of the way there and back is missing.
    assert log.server_offset_ms == pytest.approx(peer.CLOCK_AHEAD_MS - log.ping_ms / 2)

    recording = caller.recording()
    turns = measure_turns(recording[:, 0], recording[:, 1], RATE, [Span(t.start, t.end) for t in log.turns])
    assert not any(turn.missed or turn.takeover for turn in turns)
    # The peer waits for 200 ms of silence: no gap can be shorter.
    assert all(turn.gap_ms > 200 for turn in turns)
    # What the caller reported live is what the recording says, to the frame.
    reported = [message["gap_ms"] for message in peer.received if message["type"] == "agent_audible"]
    assert reported == pytest.approx([turn.gap_ms for turn in turns], abs=20)


async def test_the_agent_may_hang_up():
    call, log = small_call(), CallLog()
    async with serving(BeepPeer(["Hello."])) as url:
        caller = Caller(Dialogue(call, "again", "tomorrow"), {said: tone(0.3) for said in utterances(call)}, log)
        await caller.call(url, token=None)
    assert log.ended_by == "agent"
    assert [turn.say for turn in log.turns] == ["A table."]


async def test_no_server_is_an_error_that_names_the_url():
    peer = Peer(CallClock(), lambda message: None)
    try:
        with pytest.raises(CallError, match=r"no answer to the offer from http://127\.0\.0\.1:9"):
            await peer.connect("http://127.0.0.1:9")
    finally:
        await peer.close()
