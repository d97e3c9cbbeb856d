"""A WebRTC peer with the server's signalling that echoes what it hears, or answers every turn with a beep."""

import asyncio
import contextlib
import json
import time
from fractions import Fraction

import numpy as np
import uvicorn
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame
from fastapi import FastAPI

from voice_agent.bench.peer import use_loopback_only

RATE, FRAME = 48000, 960
BEEP = (8000 * np.sin(2 * np.pi * 440 * np.arange(RATE * 2 // 5) / RATE)).astype(np.int16)


class OutgoingTrack(MediaStreamTrack):
    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.pending = np.zeros(0, dtype=np.int16)
        self._sent = 0
        self._origin: float | None = None

    async def recv(self) -> AudioFrame:
        self._origin = self._origin or time.monotonic()
        await asyncio.sleep(max(0.0, self._origin + self._sent / RATE - time.monotonic()))
        samples, self.pending = self.pending[:FRAME], self.pending[FRAME:]
        frame = AudioFrame.from_ndarray(np.pad(samples, (0, FRAME - len(samples)))[None], format="s16", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), self._sent
        self._sent += FRAME
        return frame


class BeepPeer:
    """`replies`: captions of its answers, in order, the first at once; None makes it an echo instead."""

    HANG_OVER_FRAMES = 10
    CLOCK_AHEAD_MS = 5000.0

    def __init__(self, replies: list[str] | None) -> None:
        self.received: list[dict] = []
        self._replies = iter(enumerate(replies)) if replies is not None else None
        self._track = OutgoingTrack()
        self._channel = None
        self._tasks = []

    async def answer(self, sdp: str) -> str:
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))

        @self._peer.on("track")
        def on_track(track):
            self._tasks.append(asyncio.create_task(self._listen(track)))

        @self._peer.on("datachannel")
        def on_datachannel(channel):
            self._channel = channel
            channel.on("message", self._on_text)
            if self._replies:
                self._reply()

        self._peer.addTrack(self._track)
        await self._peer.setRemoteDescription(RTCSessionDescription(sdp=sdp, type="offer"))
        await self._peer.setLocalDescription(await self._peer.createAnswer())
        return self._peer.localDescription.sdp

    async def close(self) -> None:
        await self._peer.close()
        await asyncio.gather(*self._tasks)

    def _on_text(self, text: str) -> None:
        message = json.loads(text)
        self.received.append(message)
        if message["type"] == "ping":
            self._send(
                type="pong", client_ms=message["client_ms"], server_ms=message["client_ms"] + self.CLOCK_AHEAD_MS
            )

    def _send(self, **message) -> None:
        self._channel.send(json.dumps(message))

    def _reply(self) -> None:
        turn, text = next(self._replies, (None, None))
        if text is None:
            self._send(type="bye", reason="done")
            return
        self._send(type="caption", role="agent", turn=turn, text=text, final=True)
        self._send(type="state", state="listening")
        self._track.pending = BEEP

    async def _listen(self, track) -> None:
        silent, heard = 0, False
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                samples = frame.to_ndarray().reshape(-1, 2)[:, 0]
                if self._replies is None:
                    self._track.pending = np.concatenate([self._track.pending, samples])
                    continue
                loud = np.abs(samples.astype(np.int32)).max() > 500
                heard, silent = heard or loud, 0 if loud else silent + 1
                if heard and silent == self.HANG_OVER_FRAMES:
                    heard = False
                    self._reply()


@contextlib.asynccontextmanager
async def serving(peer: BeepPeer):
    """Serve /api/offer on a free port; yields the URL."""
    use_loopback_only()
    app = FastAPI()

    @app.post("/api/offer")
    async def offer(body: dict) -> dict:
        return {"sdp": await peer.answer(body["sdp"]), "type": "answer", "call_id": "beep"}

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        await peer.close()
        server.should_exit = True
        await task
