"""A caller's end for tests: an aiortc peer on loopback that plays samples and records what it gets."""

from __future__ import annotations

import asyncio
import json
from fractions import Fraction
from typing import Any

import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from av import AudioFrame

RATE_HZ = 48_000


class PlayTrack(MediaStreamTrack):
    """Plays ``samples`` (48 kHz, mono), then silence, in 20 ms frames."""

    kind = "audio"

    def __init__(self, samples: np.ndarray[Any, np.dtype[np.int16]] | None = None) -> None:
        super().__init__()
        self._samples = np.zeros(0, np.int16) if samples is None else samples
        self._pts = 0
        self._start: float | None = None

    async def recv(self) -> AudioFrame:
        if self.readyState != "live":
            raise MediaStreamError
        loop = asyncio.get_running_loop()
        self._start = loop.time() if self._start is None else self._start
        await asyncio.sleep(max(0.0, self._start + self._pts / RATE_HZ - loop.time()))
        chunk = np.zeros(960, np.int16)
        part = self._samples[self._pts : self._pts + 960]
        chunk[: part.size] = part
        frame = AudioFrame(format="s16", layout="mono", samples=960)
        frame.planes[0].update(chunk.tobytes())
        frame.sample_rate, frame.time_base, frame.pts = RATE_HZ, Fraction(1, RATE_HZ), self._pts
        self._pts += 960
        return frame


class Caller:
    """One side of a call. ``received`` holds what it heard, ``messages`` what came over the data channel."""

    def __init__(self, samples: np.ndarray[Any, np.dtype[np.int16]] | None = None) -> None:
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.track = PlayTrack(samples)
        self.channel = self.pc.createDataChannel("events")
        self.messages: list[dict[str, Any]] = []
        self.received: list[np.ndarray[Any, np.dtype[np.int16]]] = []
        self._reader: asyncio.Task[None] | None = None
        self.pc.addTrack(self.track)
        self.channel.on("message", lambda text: self.messages.append(json.loads(text)))
        self.pc.on("track", self._on_track)

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._reader = asyncio.get_running_loop().create_task(self._read(track))

    async def _read(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                frame = await track.recv()
                assert isinstance(frame, AudioFrame)
                self.received.append(frame.to_ndarray().reshape(-1, 2)[:, 0])
        except MediaStreamError:
            pass

    async def offer(self) -> str:
        await self.pc.setLocalDescription(await self.pc.createOffer())
        return str(self.pc.localDescription.sdp)

    async def accept(self, sdp: str) -> None:
        await self.pc.setRemoteDescription(RTCSessionDescription(sdp=sdp, type="answer"))

    def heard(self) -> np.ndarray[Any, np.dtype[np.int16]]:
        return np.concatenate(self.received) if self.received else np.zeros(0, np.int16)

    async def hang_up(self) -> None:
        self.track.stop()
        await self.pc.close()
        if self._reader is not None:
            await asyncio.wait_for(self._reader, 5)


async def until(condition: Any, seconds: float = 10.0) -> None:
    """Wait for ``condition()``; the time is a bound for a broken test, nothing is measured with it."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the conditions are states of real peers, not events of ours
            await asyncio.sleep(0.01)
