"""Real transcripts at simulated times: stands where the client of the speech process does."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from voice_agent.speech.errors import PassDroppedError
from voice_agent.speech.protocol import PassKind, Transcript

Transcriber = Callable[[bytes, bool], Transcript]
"""PCM (mono s16, 16 kHz) and whether to align the words, to a transcript."""


@dataclass
class _Pass:
    asked: float
    pcm: bytes
    word_times: bool
    kind: PassKind
    done: asyncio.Future[Transcript] = field(repr=False)


class SimulatedRecognizer:
    """One recogniser that takes ``pass_s`` a pass, in the order that the speech process keeps.

    Nothing happens by itself: ``advance`` carries out what is due at a time of the simulation.

    Args:
        transcriber: Does the work.
        pass_s: How long a pass shall seem to take (s).
    """

    def __init__(self, transcriber: Transcriber, pass_s: float) -> None:
        self._transcriber = transcriber
        self._pass_s = pass_s
        self._now = 0.0
        self._free_at = 0.0
        self._queue: list[_Pass] = []
        self._running: _Pass | None = None

    async def transcribe(
        self,
        pcm: bytes,
        *,
        stream: str,
        kind: PassKind = PassKind.FINAL,
        word_times: bool = False,
        window_s: float | None = None,
    ) -> Transcript:
        """See `SpeechClient.transcribe`; one stream only."""
        for queued in [queued for queued in self._queue if queued.kind is PassKind.PARTIAL]:
            self._queue.remove(queued)
            queued.done.set_exception(PassDroppedError("replaced by a newer pass"))
        asked = _Pass(self._now, pcm, word_times, kind, asyncio.get_running_loop().create_future())
        self._queue.append(asked)
        try:
            return await asked.done
        finally:
            if asked in self._queue:
                self._queue.remove(asked)

    def advance(self, now: float) -> None:
        """Finish the passes that are done by ``now`` (s), and begin the next ones."""
        while True:
            if self._running is not None:
                if self._free_at > now:
                    break
                finished, self._running = self._running, None
                if not finished.done.done():
                    finished.done.set_result(self._transcriber(finished.pcm, finished.word_times))
            if not self._queue:
                break
            self._running = min(self._queue, key=lambda queued: queued.kind is PassKind.PARTIAL)
            self._queue.remove(self._running)
            self._free_at = max(self._free_at, self._running.asked) + self._pass_s
        self._now = now


class CachedWhisper:
    """The packaged recogniser, and a folder that keeps its transcripts: a replay of the same audio needs no model.

    Args:
        folder: Where transcripts are kept, a file each; None keeps none.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._ids = itertools.count()
        self._whisper: Callable[[bytes, bool], Transcript] | None = None

    def __call__(self, pcm: bytes, word_times: bool) -> Transcript:
        """Transcribe, or look up; see `Transcriber`."""
        path: Path | None = None
        if self._folder is not None:
            path = self._folder / f"{hashlib.sha256(pcm + bytes([word_times])).hexdigest()[:24]}.json"
            if path.exists():
                return Transcript.model_validate_json(path.read_text(encoding="utf-8"))
        if self._whisper is None:
            self._whisper = _load_whisper()
        transcript = self._whisper(pcm, word_times)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(transcript.model_dump_json(), encoding="utf-8")
        return transcript


def _load_whisper() -> Transcriber:
    # Imported here: with every transcript at hand the model isn't needed.
    import numpy as np

    from voice_agent.speech.protocol import WordTime
    from voice_agent.stt.whisper import Segment, WhisperRecognizer, find_recognizer

    whisper = WhisperRecognizer(find_recognizer())

    def times(segments: tuple[Segment, ...]) -> list[WordTime]:
        return [WordTime(text=part.text, start_ms=part.start_ms, end_ms=part.end_ms) for part in segments]

    def transcribe(pcm: bytes, word_times: bool) -> Transcript:
        found = whisper.transcribe(np.frombuffer(pcm, np.int16), word_times=word_times)
        return Transcript(
            id="replay",
            text=found.text,
            segments=times(found.segments),
            words=times(found.words),
            no_speech_prob=found.no_speech_prob,
            avg_logprob=found.avg_logprob,
            audio_ms=found.audio_ms,
            queue_ms=0.0,
            compute_ms=found.compute_ms,
        )

    return transcribe
