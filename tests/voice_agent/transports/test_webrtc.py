"""The WebRTC transport against a real peer on loopback."""

from __future__ import annotations

import asyncio

import aioice.ice
import numpy as np
import pytest
from aiortc import RTCPeerConnection
from aiortc.rtp import RtpPacket
from livekit import rtc

from tests.voice_agent.transports.peer import RATE_HZ, Caller, until
from voice_agent.transports import webrtc
from voice_agent.transports.events import Message
from voice_agent.transports.microphone import ImmediateBuffer
from voice_agent.transports.webrtc import BadOfferError, WebRtcTransport

pytestmark = pytest.mark.usefixtures("loopback", "no_leaks")


class Line:
    """Notes what the transport tells a call."""

    def __init__(self) -> None:
        self.connected = 0
        self.pcm = bytearray()
        self.messages: list[Message] = []
        self.lost: list[str] = []

    def on_connected(self) -> None:
        self.connected += 1

    def on_caller_frame(self, pcm: bytes) -> None:
        assert len(pcm) == 640
        self.pcm += pcm

    def on_message(self, message: Message) -> None:
        self.messages.append(message)

    def on_disconnected(self, reason: str) -> None:
        self.lost.append(reason)


def tone(seconds: float, hertz: float = 440.0) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return (8_000 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE_HZ)) / RATE_HZ)).astype(np.int16)


async def connect(line: Line, samples: np.ndarray[tuple[int], np.dtype[np.int16]]) -> tuple[WebRtcTransport, Caller]:
    caller = Caller(samples)
    transport = WebRtcTransport(line)
    await caller.accept(await transport.answer(await caller.offer()))
    await until(lambda: line.connected == 1 and caller.channel.readyState == "open")
    return transport, caller


async def test_audio_and_messages_go_both_ways() -> None:
    line = Line()
    transport, caller = await connect(line, tone(5.0))
    speech = tone(0.5, 880.0)
    await transport.output.capture_frame(rtc.AudioFrame(speech.tobytes(), RATE_HZ, 1, speech.size))
    transport.output.flush()
    transport.send({"type": "state", "state": "speaking"})
    caller.channel.send('{"type": "ping", "client_ms": 12}')
    for broken in ("not json", "[" * 50_000, '{"type": "ping", "client_ms": ' + "9" * 5_000 + "}", "[]", b"\0"):
        caller.channel.send(broken)
    caller.channel.send('{"type": "hangup"}')

    played = await asyncio.wait_for(transport.output.wait_for_playout(), 5)
    assert played.playback_position == pytest.approx(0.5)
    assert not played.interrupted
    await until(lambda: np.count_nonzero(np.abs(caller.heard().astype(np.int32)) > 2_000) > 0.3 * RATE_HZ)
    await until(lambda: len(line.pcm) >= 640 * 25)
    await until(lambda: len(line.messages) == 2 and bool(caller.messages))
    assert line.messages == [{"type": "ping", "client_ms": 12}, {"type": "hangup"}]
    assert caller.messages == [{"type": "state", "state": "speaking"}]

    # What the call gets is the caller's tone, at 16 kHz.
    heard = np.frombuffer(bytes(line.pcm), np.int16)[-3_200:].astype(np.float64)
    spectrum = np.abs(np.fft.rfft(heard * np.hanning(heard.size)))
    assert np.argmax(spectrum) * 16_000 / heard.size == pytest.approx(440, abs=10)

    await caller.hang_up()
    await transport.aclose()


async def test_the_session_reads_the_same_frames() -> None:
    line = Line()
    transport, caller = await connect(line, tone(5.0))
    frame = await asyncio.wait_for(anext(transport.microphone), 5)
    assert (frame.sample_rate, frame.num_channels, frame.samples_per_channel) == (16_000, 1, 320)
    await transport.aclose()
    async with asyncio.timeout(5):
        assert len([frame async for frame in transport.microphone]) < 500, "the input ends with the call"
    await caller.hang_up()


async def test_a_caller_who_hangs_up_mid_word_is_noticed() -> None:
    line = Line()
    transport, caller = await connect(line, tone(5.0))
    speech = tone(3.0)
    await transport.output.capture_frame(rtc.AudioFrame(speech.tobytes(), RATE_HZ, 1, speech.size))
    transport.output.flush()
    await until(lambda: len(line.pcm) > 0)
    await caller.hang_up()
    await until(lambda: bool(line.lost))
    await transport.aclose()
    played = await asyncio.wait_for(transport.output.wait_for_playout(), 1)
    assert played.interrupted
    assert len(line.lost) == 1


async def test_a_caller_who_vanishes_is_noticed_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert webrtc._GONE_AFTER_S <= 10
    monkeypatch.setattr(webrtc, "_GONE_AFTER_S", 0.3)
    line = Line()
    transport, caller = await connect(line, tone(1.0))
    await until(lambda: len(line.pcm) > 0)
    caller.track.stop()  # no more packets, and no goodbye
    await until(lambda: line.lost == ["nothing more came from the caller"])
    await transport.aclose()
    await caller.hang_up()


def test_consent_to_send_expires_within_seconds() -> None:
    assert aioice.ice.CONSENT_INTERVAL * 1.2 * aioice.ice.CONSENT_FAILURES <= 10


async def test_the_agent_hangs_up_and_the_last_message_arrives() -> None:
    line = Line()
    transport, caller = await connect(line, tone(1.0))
    transport.send({"type": "bye", "reason": "the agent ended the call"})
    await transport.aclose()
    await transport.aclose()
    await until(lambda: any(message["type"] == "bye" for message in caller.messages))
    await caller.hang_up()


@pytest.mark.parametrize(
    ("sdp", "kind", "says"),
    [
        ("hello", "offer", "v=0"),
        ("", "offer", "v=0"),
        ("v=0\r\nm=audio x\r\n", "offer", "parsed"),
        ("v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n", "offer", "no audio"),
        ("v=0\r\n", "answer", "must be of type"),
    ],
)
async def test_a_broken_offer_is_refused(sdp: str, kind: str, says: str) -> None:
    transport = WebRtcTransport(Line())
    with pytest.raises(BadOfferError, match=says):
        await transport.answer(sdp, kind)
    await transport.aclose()


def packet(sequence_number: int) -> RtpPacket:
    made = RtpPacket(sequence_number=sequence_number & 0xFFFF, timestamp=sequence_number * 960)
    made._data = bytes([sequence_number & 0xFF])  # type: ignore[attr-defined]
    return made


def test_packets_are_handed_on_at_once_and_late_ones_dropped() -> None:
    buffer = ImmediateBuffer()
    order = [65_534, 65_535, 65_537, 65_536, 65_537, 65_538]
    frames = [buffer.add(packet(number))[1] for number in order]
    assert [None if frame is None else frame.data[0] for frame in frames] == [0xFE, 0xFF, 0x01, None, None, 0x02]
    assert buffer.dropped == 2


@pytest.mark.parametrize("fingerprint", ["", "a=fingerprint:md5 00:11"])
async def test_an_offer_that_cannot_be_encrypted_is_refused(fingerprint: str) -> None:
    peer = RTCPeerConnection()
    peer.addTransceiver("audio")
    await peer.setLocalDescription(await peer.createOffer())
    lines = peer.localDescription.sdp.splitlines()
    sdp = "\r\n".join(fingerprint if line.startswith("a=fingerprint:") else line for line in lines if line) + "\r\n"
    await peer.close()
    transport = WebRtcTransport(Line())
    with pytest.raises(BadOfferError, match="fingerprint"):
        await transport.answer(sdp.replace("\r\n\r\n", "\r\n"), "offer")
    await transport.aclose()
