"""A browser's call: one aiortc peer connection with an audio track each way and the data channel `events`."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import Sequence

import aioice.ice
from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.exceptions import InvalidAccessError, InvalidStateError, OperationError
from aiortc.mediastreams import MediaStreamTrack

from voice_agent.transports.audio_output import PlaybackOutput
from voice_agent.transports.base import CallEvents
from voice_agent.transports.events import Message, encode
from voice_agent.transports.microphone import Microphone, hand_on_at_once
from voice_agent.transports.outgoing import OutgoingTrack

logger = logging.getLogger(__name__)

_FINGERPRINT = re.compile(r"^a=fingerprint:sha-(256|384|512) ", re.MULTILINE | re.IGNORECASE)

_BACKLOG = 64
_GONE_AFTER_S = 6.0
_CONNECT_WITHIN_S = 15.0

# RFC 7675 lets consent expire after 30 s; a caller who vanished shall not hold a line that long.
aioice.ice.CONSENT_INTERVAL = 2
aioice.ice.CONSENT_FAILURES = 3


class BadOfferError(ValueError):
    """The offer can't be answered; the message says why."""


class WebRtcTransport:
    """See :class:`voice_agent.transports.base.Transport`. Make one per offer, inside the event loop.

    Args:
        events: The call.
        ice_servers: STUN or TURN URLs. None by default: a server on the same machine or network needs none, and no
            stranger's server shall learn of calls.
    """

    def __init__(self, events: CallEvents, ice_servers: Sequence[str] = ()) -> None:
        servers = [RTCIceServer(urls=list(ice_servers))] if ice_servers else []
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=servers))
        self._events = events
        self._output = PlaybackOutput()
        self._track = OutgoingTrack(self._output.playback)
        self._microphone = Microphone(self._on_frame)
        self._channel: RTCDataChannel | None = None
        self._backlog: deque[str] = deque(maxlen=_BACKLOG)
        self._tasks: set[asyncio.Task[None]] = set()
        self._alive_at: float | None = None
        self._connected = False
        self._disconnected = False
        self._pc.on("track", self._on_track)
        self._pc.on("datachannel", self._on_datachannel)
        self._pc.on("connectionstatechange", self._on_state)

    @property
    def microphone(self) -> Microphone:
        """The caller's audio."""
        return self._microphone

    @property
    def output(self) -> PlaybackOutput:
        """The agent's audio."""
        return self._output

    @property
    def late_frames(self) -> int:
        """Outgoing frames that missed their time by more than 20 ms."""
        return self._track.late_frames

    async def answer(self, sdp: str, kind: str = "offer") -> str:
        """Answer an offer (all candidates inside, no trickle) and return the answer's SDP.

        Raises:
            BadOfferError: it is no offer, can't be parsed, or brings no audio.
        """
        if kind != "offer":
            raise BadOfferError(f'the session description must be of type "offer", not {kind!r}')
        if not sdp.lstrip().startswith("v=0"):
            raise BadOfferError("this is no SDP: it must begin with v=0")
        try:
            await self._pc.setRemoteDescription(RTCSessionDescription(sdp=sdp, type="offer"))
            if not any(t.kind == "audio" for t in self._pc.getTransceivers()):
                raise BadOfferError("the offer has no audio: add a microphone track or an audio transceiver")
            if not _FINGERPRINT.search(sdp):
                raise BadOfferError(
                    "the offer has no certificate fingerprint (sha-256 or longer): it can't be encrypted"
                )
            self._pc.addTrack(self._track)
            await self._pc.setLocalDescription(await self._pc.createAnswer())
        except BadOfferError:
            raise
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError) as error:
            # aiortc parses by splitting lines; a broken one surfaces as any of these.
            raise BadOfferError(f"the SDP can't be parsed: {str(error) or type(error).__name__}") from error
        except (OperationError, InvalidAccessError, InvalidStateError, ConnectionError) as error:
            raise BadOfferError(f"the offer can't be answered: {error}") from error
        self._spawn(self._watch(), "webrtc-watch")
        return str(self._pc.localDescription.sdp)

    def send(self, message: Message) -> None:
        """Send a message to the page; kept until the channel is open, dropped when it is gone."""
        text = encode(message)
        if self._channel is not None and self._channel.readyState == "open":
            self._channel.send(text)
        elif not self._disconnected:
            self._backlog.append(text)

    async def aclose(self) -> None:
        """Hang up and free everything. Safe to call twice."""
        self._disconnected = True
        self._output.playback.close()
        self._microphone.end()
        await self._drain_channel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pc.close()

    async def _drain_channel(self) -> None:
        """Give the last message (`bye`) a moment to leave."""
        if self._channel is None or self._pc.connectionState != "connected":
            return
        for _ in range(10):
            if self._channel.readyState != "open" or self._channel.bufferedAmount == 0:
                return
            await asyncio.sleep(0.02)

    def _spawn(self, coroutine: object, name: str) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine, name=name)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_frame(self, pcm: bytes) -> None:
        self._alive_at = asyncio.get_running_loop().time()
        self._events.on_caller_frame(pcm)

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind != "audio":
            return
        for receiver in self._pc.getReceivers():
            if receiver.track is track:
                hand_on_at_once(receiver)
        self._spawn(self._microphone.pump(track), "webrtc-microphone")

    def _on_datachannel(self, channel: RTCDataChannel) -> None:
        if channel.label != "events":
            return
        self._channel = channel
        channel.on("message", self._on_text)
        while self._backlog:
            channel.send(self._backlog.popleft())

    def _on_text(self, text: object) -> None:
        try:
            message = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):  # no JSON, a number of 5,000 digits, or 100,000 brackets
            message = None
        self._alive_at = asyncio.get_running_loop().time()
        if isinstance(message, dict) and isinstance(message.get("type"), str):
            self._events.on_message(message)
        else:
            logger.warning("ignored a message that is no JSON object with a type")

    def _on_state(self) -> None:
        state = self._pc.connectionState
        if state == "connected" and not self._connected:
            self._connected = True
            self._events.on_connected()
        elif state in ("failed", "closed"):
            self._lose(f"the connection is {state}")

    def _lose(self, reason: str) -> None:
        if not self._disconnected:
            self._disconnected = True
            self._events.on_disconnected(reason)

    async def _watch(self) -> None:
        """Notice a line on which nobody is any more, before or beside what ICE says."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        while not self._disconnected:
            await asyncio.sleep(1.0)
            if not self._connected:
                if loop.time() - asked_at > _CONNECT_WITHIN_S:
                    self._lose("no connection came about")
            elif self._alive_at is not None and loop.time() - self._alive_at > _GONE_AFTER_S:
                self._lose("nothing more came from the caller")
