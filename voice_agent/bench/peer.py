"""The caller's end of a WebRTC call: the same offer, tracks and data channel as the page's."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aioice.ice
import httpx
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from voice_agent.bench.call_clock import CallClock
from voice_agent.bench.ear import Ear
from voice_agent.bench.microphone import Microphone
from voice_agent.bench.playout import Playout

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 15.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class CallError(RuntimeError):
    """The call couldn't be set up; the message says at which step and why."""


def use_loopback_only() -> None:
    """Offer 127.0.0.1 as the only address: aioice leaves loopback out, and a machine may have no other interface."""
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]


def _without_prefetch(peer: RTCPeerConnection) -> None:
    """Hand on a frame once the next has come, not four later: 20 ms as in a browser at rest, instead of 80."""
    for receiver in peer.getReceivers():
        buffer = getattr(receiver, "_RTCRtpReceiver__jitter_buffer", None)
        if buffer is None:
            raise CallError("this aiortc keeps its jitter buffer elsewhere; its delay can't be set")
        buffer._prefetch = 0


class Peer:
    """One call: `microphone` sends, `playout` and `ear` receive, `on_message` gets the data channel's messages."""

    def __init__(self, clock: CallClock, on_message: Callable[[dict[str, Any]], None]) -> None:
        self.microphone = Microphone(clock)
        self.playout = Playout()
        self.ear = Ear()
        self.call_id: str | None = None
        self.ended = asyncio.Event()
        self._clock = clock
        self._on_message = on_message
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._tasks: set[asyncio.Task[None]] = set()
        self._connected = asyncio.Event()
        self._peer.on("track", self._on_track)
        self._peer.on("connectionstatechange", self._on_state)
        self._channel = self._peer.createDataChannel("events")
        self._channel.on("message", self._on_text)
        self._opened = asyncio.Event()
        self._channel.on("open", self._opened.set)

    async def connect(self, url: str, token: str | None = None) -> None:
        """Offer the call to a server and wait until media and data flow; raises CallError."""
        if urlsplit(url).hostname in LOOPBACK:
            use_loopback_only()
        self._peer.addTrack(self.microphone)
        await self._peer.setLocalDescription(await self._peer.createOffer())
        _without_prefetch(self._peer)
        local = self._peer.localDescription
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with httpx.AsyncClient(timeout=CONNECT_TIMEOUT_S) as client:
                response = await client.post(
                    f"{url.rstrip('/')}/api/offer", json={"sdp": local.sdp, "type": local.type}, headers=headers
                )
        except httpx.HTTPError as error:
            raise CallError(f"no answer to the offer from {url}: {error or type(error).__name__}") from error
        if response.is_error:
            raise CallError(f"{url} refused the offer with {response.status_code}: {response.text[:300]}")
        answer = response.json()
        self.call_id = answer.get("call_id")
        await self._peer.setRemoteDescription(RTCSessionDescription(sdp=answer["sdp"], type=answer["type"]))
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._connected.wait()
                await self._opened.wait()
        except TimeoutError:
            raise CallError(
                f"no connection within {CONNECT_TIMEOUT_S:.0f} s: peer {self._peer.connectionState}, "
                f"ICE {self._peer.iceConnectionState}, data channel {self._channel.readyState}"
            ) from None

    def send(self, message: dict[str, Any]) -> None:
        """Send a message on the data channel; dropped when that is closed."""
        if self._channel.readyState == "open":
            self._channel.send(json.dumps(message))

    async def close(self) -> None:
        """Hang up."""
        await self._peer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_state(self) -> None:
        state = self._peer.connectionState
        if state == "connected":
            self._connected.set()
        elif state in ("failed", "closed", "disconnected"):
            self.ended.set()

    def _on_text(self, text: str | bytes) -> None:
        try:
            message = json.loads(text)
        except ValueError:
            logger.warning("the data channel brought something that isn't JSON: %.80r", text)
            return
        self._on_message(message)

    def _on_track(self, track: MediaStreamTrack) -> None:
        task = asyncio.get_running_loop().create_task(self._listen(track))
        self._tasks.add(task)

    async def _listen(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                frame = await track.recv()
                arrival = self._clock.now()
                if not isinstance(frame, AudioFrame) or frame.pts is None:
                    continue
                # aiortc decodes Opus to interleaved stereo; the sender is mono, so one channel is all of it.
                samples = frame.to_ndarray().reshape(-1, len(frame.layout.channels))[:, 0].astype(np.int16)
                self.ear.hear(samples, self.playout.add(samples, frame.pts, arrival))
        except MediaStreamError:
            self.ended.set()
