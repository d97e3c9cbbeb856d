"""The calls under way: answered, counted, refused, ended."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from voice_agent.call import Call
from voice_agent.server import heap
from voice_agent.services import Services
from voice_agent.transports.webrtc import BadOfferError, WebRtcTransport

logger = logging.getLogger(__name__)

_UFRAG = re.compile(r"^a=ice-ufrag:(\S+)\s*$", re.MULTILINE)
_CLOSE_WITHIN_S = 8.0
_TIDY_AFTER_S = 1.0


class RefusedError(RuntimeError):
    """An offer isn't taken. ``status`` is HTTP's, ``code`` a name for programs, the message for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass
class _Line:
    call: Call
    ufrag: str
    watcher: asyncio.Task[None] | None = None


class CallRegistry:
    """Every live call of the process.

    Args:
        services: What calls share.
        max_calls: Calls at a time.
        ice_servers: STUN or TURN URLs.
    """

    def __init__(self, services: Services, *, max_calls: int, ice_servers: Sequence[str] = ()) -> None:
        self._services = services
        self._max_calls = max_calls
        self._ice_servers = ice_servers
        self._lines: dict[str, _Line] = {}
        self._draining = False

    @property
    def live(self) -> list[str]:
        """The ids of the calls under way."""
        return list(self._lines)

    async def answer(self, sdp: str, kind: str, call_id: str | None = None) -> tuple[str, str]:
        """Answer an offer; returns the call's id and the answer's SDP.

        Args:
            sdp: The offer.
            kind: Its type.
            call_id: A live call that the offer is for; no call takes a second one.

        Raises:
            RefusedError: the offer is broken, belongs to a live call, or all lines are busy.
        """
        match = _UFRAG.search(sdp)
        ufrag = match.group(1) if match else ""
        if call_id in self._lines or (ufrag and any(line.ufrag == ufrag for line in self._lines.values())):
            raise self._refuse(409, "call_is_live", "this call is connected already: hang up first, then call again")
        if self._draining:
            raise self._refuse(503, "closing", "the server is shutting down: call again in a minute")
        if len(self._lines) >= self._max_calls:
            raise self._refuse(503, "busy", f"all {self._max_calls} lines are busy: try again in a minute")

        call = Call(f"call-{secrets.token_hex(6)}", self._services)
        transport = WebRtcTransport(call, self._ice_servers)
        call.transport = transport
        line = _Line(call, ufrag)
        self._lines[call.call_id] = line  # before the first await: offers in the same instant are counted
        try:
            answer = await transport.answer(sdp, kind)
        except BadOfferError as error:
            self._lines.pop(call.call_id, None)
            await transport.aclose()
            raise self._refuse(400, "bad_offer", str(error)) from error
        except BaseException:
            self._lines.pop(call.call_id, None)
            await transport.aclose()
            raise
        line.watcher = asyncio.create_task(self._forget(call, transport), name=f"registry-{call.call_id}")
        return call.call_id, answer

    def hang_up(self, call_id: str, reason: str) -> bool:
        """End a call; False if there is none of that id."""
        line = self._lines.get(call_id)
        if line is None:
            return False
        line.call.hang_up(reason)
        return True

    def each(self, tell: Callable[[Call], None]) -> None:
        """Tell every live call something."""
        for line in list(self._lines.values()):
            tell(line.call)

    async def aclose(self) -> None:
        """End all calls."""
        self._draining = True
        lines = list(self._lines.values())
        for line in lines:
            line.call.hang_up("the server is shutting down")
        watchers = [line.watcher for line in lines if line.watcher is not None]
        if watchers:
            await asyncio.wait(watchers, timeout=_CLOSE_WITHIN_S)

    async def _forget(self, call: Call, transport: WebRtcTransport) -> None:
        reason = await call.ended()
        self._services.metrics.late_frames.inc(transport.late_frames)
        self._lines.pop(call.call_id, None)
        logger.info("%s ended: %s", call.call_id, reason)
        asyncio.get_running_loop().call_later(_TIDY_AFTER_S, self._tidy)

    def _tidy(self) -> None:
        """Free what ended calls have left while nobody can hear the pause; under way, the collector comes by itself."""
        if not self._lines:
            heap.give_back()

    def _refuse(self, status: int, code: str, message: str) -> RefusedError:
        self._services.metrics.refused.labels(code).inc()
        return RefusedError(status, code, message)
