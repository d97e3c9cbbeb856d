"""The call's timeline: what happens is noted as it happens, and a turn's record is written when it is complete."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from voice_agent.dialogue.reply import Reply
from voice_agent.telemetry.clock import CallClock
from voice_agent.telemetry.metrics import Metrics
from voice_agent.telemetry.record import TurnEvents, TurnRecord
from voice_agent.telemetry.store import RecordStore
from voice_agent.turn_taking import Event, Final, Partial, Preflight, SpeechEnd, SpeechStart, TriggerEnd

logger = logging.getLogger(__name__)

_TAIL_MS = 300.0
"""A caller's sound this soon after the decision still belongs to the turn: a last fricative, a breath."""


class TurnLog:
    """Keeps the records of one call and writes them to the store.

    Args:
        call_id: The call.
        clock: Its clock.
        store: Where records go, in the background.
        metrics: Counted as turns end.
        publish: Called with each record that is complete or changed.
    """

    def __init__(
        self,
        call_id: str,
        clock: CallClock,
        store: RecordStore,
        metrics: Metrics,
        publish: Callable[[dict[str, Any]], None],
    ) -> None:
        self._call_id = call_id
        self._clock = clock
        self._store = store
        self._metrics = metrics
        self._publish = publish
        self._pending = TurnEvents()
        self._began = False  # the caller was heard since the latest turn was committed
        self._dropped = False  # a speculation of the pending turn was thrown away
        self._writes: set[asyncio.Task[None]] = set()
        self._client_offset_ms: float | None = None
        self.turns = 0
        """Number of the latest turn."""
        self.latest: TurnRecord | None = None

    def start(self, details: dict[str, Any]) -> None:
        """The call begins."""
        self._metrics.calls.inc()
        self._metrics.live_calls.inc()
        self._write(self._store.start_call(self._call_id, _wall_clock(), details))

    async def end(self, reason: str, details: dict[str, Any]) -> None:
        """The call is over; returns when everything is written."""
        self._metrics.live_calls.dec()
        self._write(self._store.end_call(self._call_id, _wall_clock(), reason, details))
        await asyncio.gather(*self._writes, return_exceptions=True)

    def note(self, event: Event) -> None:
        """Note what the caller's side did.

        A turn can be committed before its final transcript: what comes without a new onset belongs to that turn.
        """
        at_ms = round(event.at * 1000, 1)
        self._began = self._began or isinstance(event, SpeechStart)
        events = self._pending if self._began or self.latest is None else self.latest.events
        match event:
            case TriggerEnd() if self._began:
                events.vad_trigger_end = at_ms
            case SpeechEnd():
                events.vad_end = at_ms
            case Partial() if self._began:
                events.partials.append({"at": at_ms, "text": event.text})
            case Preflight() if self._began:
                events.preflight = at_ms
            case Final():
                events.final = at_ms
            case _:
                pass

    def speculation_dropped(self) -> None:
        """A prepared reply was thrown away."""
        self._dropped = True

    def greeting(self, text: str) -> TurnRecord:
        """Turn 0 begins."""
        self.latest = TurnRecord(0, agent=text)
        self.latest.events.decision = self._clock.ms()
        return self.latest

    def committed(
        self, caller: str, caller_audio_end_ms: float | None, reply: Reply, *, again: bool = False
    ) -> TurnRecord:
        """A turn of the caller is over, and ``reply`` answers it; ``again``: an answer was put off before."""
        self.turns += 1
        record = TurnRecord(self.turns, caller=caller, events=self._pending, again=again)
        record.events.caller_audio_end = None if again else caller_audio_end_ms
        record.events.decision = self._clock.ms()
        record.events.llm = reply.requests
        # A reply that was begun with the decision itself was not prepared.
        prepared = reply.speculative and bool(reply.requests)
        record.speculation = "hit" if prepared else "miss" if self._dropped else "none"
        self._pending = TurnEvents()
        self._began = self._dropped = False
        self.latest = record
        return record

    def reopened(self, record: TurnRecord, *, put_off: bool = False) -> bool:
        """The turn of ``record``, the latest, wasn't over or answered; tells whether the next commit takes its place.

        It does unless something of a reply was heard, which then is a turn of its own.
        """
        self._dropped = not put_off
        heard = record.events.first_packet is not None
        self._metrics.reopened.labels("put_off" if put_off else "heard" if heard else "unheard").inc()
        if heard or record is not self.latest:
            return False
        self.turns -= 1
        self._pending.partials = [*record.events.partials, *self._pending.partials]
        return True

    def first_packet(self, record: TurnRecord, caller_audio_end_ms: float | None) -> None:
        """The first packet of the turn's reply is sent."""
        events = record.events
        if events.first_packet is not None:
            return
        events.first_packet = self._clock.ms()
        if events.caller_audio_end is not None and caller_audio_end_ms is not None:
            tail_ms = caller_audio_end_ms - events.caller_audio_end
            events.caller_audio_end += tail_ms if 0 < tail_ms <= _TAIL_MS else 0.0
        self._publish(record.to_json())

    def ended(self, record: TurnRecord, *, heard: str, interrupted: bool, reply: Reply | None) -> None:
        """The turn's reply is over."""
        record.heard = heard
        record.interrupted = interrupted
        record.events.reply_ended = self._clock.ms()
        if reply is not None and reply.error:
            self._metrics.errors.labels("reply").inc()
        if record.turn > 0 and (record.events.first_packet is not None or not interrupted):
            self._metrics.turn_ended(record)
        self.completed(record, reply)

    def completed(self, record: TurnRecord, reply: Reply | None) -> None:
        """Write the record with what the reply has noted by now."""
        if reply is not None:
            record.agent = reply.written.strip()
            record.error = reply.error
            record.events.tts_first_chunk = reply.tts_first_chunk_ms
        self._save(record)

    def ping(self, client_ms: float) -> float:
        """Learn the client's clock from a ping; returns our time (ms)."""
        now = self._clock.ms()
        offset = now - client_ms
        known = self._client_offset_ms
        self._client_offset_ms = offset if known is None else min(known, offset)
        return now

    def client_heard(self, client_ms: float | None, gap_ms: float | None) -> None:
        """The client heard the agent begin, ``gap_ms`` after its own last sound."""
        record = self.latest
        if record is None or record.events.first_packet is None or record.events.client_audible is not None:
            return
        if client_ms is not None and self._client_offset_ms is not None:
            record.events.client_audible = client_ms + self._client_offset_ms
        if gap_ms is not None and record.turn > 0 and not record.again:
            record.gap_ms = gap_ms
            self._metrics.client_measured(gap_ms)
        self._save(record)

    def _save(self, record: TurnRecord) -> None:
        data = record.to_json()
        self._publish(data)
        self._write(self._store.put_turn(self._call_id, data))

    def _write(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name="turn-log-write")
        self._writes.add(task)
        task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._metrics.errors.labels("store").inc()
            logger.error("a record could not be written: %s", error)


def _wall_clock() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
