"""One caller's stream: audio and the VAD's word in, transcripts out."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, cast

import numpy as np
from livekit import rtc
from livekit.agents import APIConnectOptions, stt
from livekit.agents.utils import aio, shortuuid

from voice_agent.speech.api_errors import as_api_error
from voice_agent.speech.client import SpeechClient
from voice_agent.speech.errors import PassDroppedError, SpeechError
from voice_agent.speech.protocol import PassKind
from voice_agent.stt.guard import Heard, guard
from voice_agent.stt.options import RecognizerOptions
from voice_agent.stt.stream_state import (
    SAME_CLOCK_MS,
    Activity,
    Current,
    Cut,
    Failure,
    Pass,
    Told,
    activity_of,
    speech_data,
)
from voice_agent.stt.utterance import SAMPLE_RATE_HZ, Pcm, PreRoll, Utterance
from voice_agent.vad.detector import VadOptions, VoiceActivityDetector
from voice_agent.vad.events import VadEvent


class RecognizerStream(stt.RecognizeStream):
    """One caller's stream, 16 kHz inside (any rate may be pushed). Made by `STT.stream`.

    Events of an utterance: START_OF_SPEECH, then INTERIM and PREFLIGHT in any number, then FINAL unless the guard found
    no words, then END_OF_SPEECH. A PREFLIGHT is the text up to a dip; if the caller goes on it was wrong, and an
    INTERIM or PREFLIGHT with more follows. `SpeechData.metadata` has `covers_ms` (stream time up to which the audio
    was heard), `queue_ms`, `compute_ms`, `no_speech_prob` and, with a final, `reused_preflight`.

    All times are stream times: milliseconds (`at_ms`) or seconds (`SpeechData`) since the first pushed sample.
    """

    def __init__(
        self,
        owner: stt.STT[Any],
        client: SpeechClient,
        options: RecognizerOptions,
        conn_options: APIConnectOptions,
        *,
        own_vad: bool,
        vad: VadOptions | None,
    ) -> None:
        self._client = client
        self._options = options
        self._detector = VoiceActivityDetector(vad) if own_vad else None
        self._pre_roll = PreRoll(options.pre_roll_ms + 500.0)
        self._current: Current | None = None
        self._ending: list[tuple[Current, float]] = []
        self._stream_id = shortuuid("stream_")
        self._passes: set[asyncio.Task[Any]] = set()
        super().__init__(stt=owner, conn_options=conn_options, sample_rate=SAMPLE_RATE_HZ)

    @property
    def closed(self) -> bool:
        """Whether no more events will come."""
        return bool(self._event_ch.closed)

    def vad_event(self, event: VadEvent) -> None:
        """Take an event of the call's detector: its gate opens and closes utterances, its trigger marks their dips."""
        self._tell(activity_of(event))

    def speech_started(self, at_ms: float) -> None:
        """The caller speaks since stream time `at_ms`: an onset, or the end of a pause."""
        self._tell(Activity(Told.STARTED, at_ms))

    def speech_paused(self, at_ms: float) -> None:
        """The energy has dipped at `at_ms`: a pass over everything so far begins at once."""
        self._tell(Activity(Told.PAUSED, at_ms))

    def speech_ended(self, at_ms: float) -> None:
        """The utterance is over, its last sound was at `at_ms`: a final comes.

        It costs no further pass if the one begun at the last dip heard everything up to `at_ms`.
        """
        self._tell(Activity(Told.ENDED, at_ms))

    def _tell(self, activity: Activity | Failure) -> None:
        if not self._input_ch.closed:
            cast("aio.Chan[Any]", self._input_ch).send_nowait(activity)

    async def aclose(self) -> None:
        """Close at once; passes under way are cancelled."""
        await super().aclose()
        await aio.cancel_and_wait(*self._passes)

    async def _run(self) -> None:
        for current, at_ms in list(self._ending):  # what a lost connection left without a final
            await self._finish(current, at_ms)
        async for item in cast("aio.Chan[Any]", self._input_ch):
            if isinstance(item, rtc.AudioFrame):
                await self._hear(item)
            elif isinstance(item, Activity):
                await self._react(item)
            elif isinstance(item, Failure):
                raise item.error
            elif self._current is not None:  # a flush: the session commits the turn
                await self._end(self._current.utterance.end_ms)

    async def _hear(self, frame: rtc.AudioFrame) -> None:
        pcm = np.frombuffer(bytes(frame.data), dtype=np.int16)
        if frame.num_channels > 1:
            pcm = pcm.reshape(-1, frame.num_channels).mean(axis=1).astype(np.int16)
        self._pre_roll.push(pcm)
        if self._current is not None:
            self._current.utterance.append(pcm)
        if self._detector is not None:
            for event in self._detector.push(pcm.tobytes()):
                await self._react(activity_of(event))
        if (current := self._current) is not None:
            if current.utterance.length_ms > self._options.max_utterance_ms:
                self._cut(current)
            self._maybe_partial(current)

    async def _react(self, activity: Activity) -> None:
        if activity.told_ms is not None:
            # A stream that was opened during the call, after a failure, counts from there; the detector doesn't.
            apart_ms = self._pre_roll.position_ms - activity.told_ms
            if abs(apart_ms) > SAME_CLOCK_MS:
                activity = replace(activity, at_ms=max(0.0, activity.at_ms + apart_ms), told_ms=None)
        if activity.told is Told.STARTED:
            if activity.opens or self._current is not None:
                self._start(activity.at_ms)
        elif self._current is None:
            return
        elif activity.told is Told.PAUSED:
            self._pause(self._current, activity.at_ms)
        else:
            await self._end(activity.at_ms)

    def _start(self, at_ms: float) -> None:
        if self._current is not None:
            self._current.utterance.paused = False
            self._current.preflight = None
            return
        audio, start_ms = self._pre_roll.since(at_ms - self._options.pre_roll_ms)
        self._current = Current(Utterance(start_ms), at_ms)
        self._current.utterance.append(audio)
        self._emit(stt.SpeechEventType.START_OF_SPEECH, self._current)

    def _maybe_partial(self, current: Current) -> None:
        utterance = current.utterance
        spoken_ms = utterance.end_ms - max(current.onset_ms, current.last_partial_ms)
        first = current.last_partial_ms == 0.0
        wanted_ms = self._options.first_partial_ms if first else self._options.partial_interval_ms
        if utterance.paused or current.partial is not None or spoken_ms < wanted_ms or utterance.dips():
            return
        current.last_partial_ms = utterance.end_ms
        current.partial = self._begin(current, PassKind.PARTIAL, None)

        def done(_: asyncio.Task[stt.SpeechData | None]) -> None:
            current.partial = None

        current.partial.task.add_done_callback(done)

    def _pause(self, current: Current, at_ms: float) -> None:
        current.utterance.paused = True
        if current.partial is not None:
            current.partial.task.cancel()
        current.preflight = self._begin(current, PassKind.PREFLIGHT, at_ms)

    async def _end(self, at_ms: float) -> None:
        current, self._current = self._current, None
        if current is None:
            return
        if current.partial is not None:
            current.partial.task.cancel()
        self._ending.append((current, at_ms))
        await self._finish(current, at_ms)

    async def _finish(self, current: Current, at_ms: float) -> None:
        """Emit the final, from the last preflight if it heard all of the speech, else from a pass of its own."""
        preflight = current.preflight
        data: stt.SpeechData | None = None
        if preflight is not None and preflight.covers_ms >= at_ms - self._options.reuse_slack_ms:
            data = await preflight.task
        reused = data is not None
        await self._settle_cuts(current)
        if data is None:
            data = await self._begin(current, PassKind.FINAL, at_ms).task
        self._ending = [entry for entry in self._ending if entry[0] is not current]
        if data is not None and data.text:
            metadata = {**(data.metadata or {}), "reused_preflight": reused}
            self._emit(
                stt.SpeechEventType.FINAL_TRANSCRIPT, current, replace(data, end_time=at_ms / 1000, metadata=metadata)
            )
        self._emit(stt.SpeechEventType.END_OF_SPEECH, current)
        usage = stt.RecognitionUsage(current.utterance.length_ms / 1000)
        self._event_ch.send_nowait(
            stt.SpeechEvent(stt.SpeechEventType.RECOGNITION_USAGE, current.request_id, recognition_usage=usage)
        )

    async def _settle_cuts(self, current: Current) -> None:
        """Wait for the parts that were cut off; begin again what a lost connection has failed."""
        for place, cut in enumerate(current.cuts):
            if cut.task.done() and not cut.task.cancelled() and cut.task.exception() is not None:
                cut.task = self._begin_cut(current, place, cut)
            await cut.task

    def _cut(self, current: Current) -> None:
        """Commit the front of an utterance that has grown too long for one pass."""
        head = current.utterance.cut(self._options.cut_search_ms)
        current.utterance.committed.append("")
        cut = Cut(head, current.utterance.start_ms)
        current.cuts.append(cut)
        cut.task = self._begin_cut(current, len(current.cuts) - 1, cut)
        current.preflight = None

    def _begin_cut(self, current: Current, place: int, cut: Cut) -> asyncio.Task[None]:
        async def commit() -> None:
            data = await self._recognize(current, PassKind.FINAL, cut.audio, cut.end_ms, None, with_committed=False)
            current.utterance.committed[place] = data.text if data is not None else ""

        task = asyncio.create_task(commit())
        self._keep(task)
        return task

    def _begin(self, current: Current, kind: PassKind, speech_end_ms: float | None) -> Pass:
        """Start a pass over the utterance as it is now."""
        audio, covers_ms = current.utterance.audio(), current.utterance.end_ms
        task = asyncio.create_task(self._recognize(current, kind, audio, covers_ms, speech_end_ms))
        self._keep(task)
        return Pass(covers_ms, task)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._passes.add(task)
        task.add_done_callback(self._passes.discard)

    async def _recognize(
        self,
        current: Current,
        kind: PassKind,
        audio: Pcm,
        covers_ms: float,
        speech_end_ms: float | None,
        *,
        with_committed: bool = True,
    ) -> stt.SpeechData | None:
        """Run one pass, guard its text, and emit what isn't a final. None for a pass that a newer one replaced."""
        offset_ms = covers_ms - audio.size * 1000 / SAMPLE_RATE_HZ
        word_times = self._options.word_times and kind is not PassKind.PARTIAL
        try:
            result = await self._client.transcribe(
                audio.tobytes(), stream=self._stream_id, kind=kind, word_times=word_times
            )
        except PassDroppedError:
            return None
        except SpeechError as error:
            failure = as_api_error(error)
            if kind is PassKind.FINAL:
                raise failure from error
            self._tell(Failure(failure))
            return None
        text = guard(
            Heard(
                result.text,
                result.no_speech_prob,
                speech_end_ms - offset_ms if speech_end_ms is not None else None,
                tuple(word.start_ms for word in result.words),
            ),
            self._options.guard,
        )
        if with_committed:
            text = " ".join(filter(None, [*current.utterance.committed, text]))
        data = speech_data(text, result, offset_ms, covers_ms)
        if kind is PassKind.PARTIAL and self._current is current and text and text != current.last_text:
            current.last_text = text
            self._emit(stt.SpeechEventType.INTERIM_TRANSCRIPT, current, data)
        elif kind is PassKind.PREFLIGHT and self._current is current and text:
            current.last_text = text
            stale = not current.utterance.paused
            self._emit(
                stt.SpeechEventType.INTERIM_TRANSCRIPT if stale else stt.SpeechEventType.PREFLIGHT_TRANSCRIPT,
                current,
                data,
            )
        return data

    def _emit(self, kind: stt.SpeechEventType, current: Current, data: stt.SpeechData | None = None) -> None:
        if self._event_ch.closed:
            return
        event = stt.SpeechEvent(kind, current.request_id, [data] if data is not None else [])
        if kind is stt.SpeechEventType.START_OF_SPEECH:
            event.speech_start_time = time.time() - (self._pre_roll.position_ms - current.onset_ms) / 1000
        self._event_ch.send_nowait(event)
