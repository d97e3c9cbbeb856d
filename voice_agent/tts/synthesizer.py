"""Words in, chunks of PCM with word times out: the voice that the speech process serves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from piper.config import PiperConfig

from voice_agent.speech.errors import MissingModelError
from voice_agent.tts import levels
from voice_agent.tts.phonemes import PhonemizedUtterance, Phonemizer
from voice_agent.tts.split import ensure_split
from voice_agent.tts.vits import EncodedUtterance, Scales, SplitVits
from voice_agent.tts.voice_files import VoiceFiles


@dataclass(frozen=True)
class WordTiming:
    """Where a word is heard, in milliseconds from the utterance's first sample."""

    index: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class PcmChunk:
    """A chunk of an utterance.

    Attributes:
        pcm: Mono s16 PCM.
        words: Times of all words of the utterance, with the first chunk; empty with the others.
    """

    pcm: bytes
    words: tuple[WordTiming, ...]


class Synthesizer:
    """A piper voice, split, with word times and levels. Not for two threads at once.

    Args:
        files: The voice.
        threads: Compute threads.
        cache: Folder of split voices; None for the user's cache.

    Raises:
        MissingModelError: The voice is missing, damaged, or not one that can be split.
    """

    def __init__(self, files: VoiceFiles, threads: int = 1, cache: Path | None = None) -> None:
        try:
            config = PiperConfig.from_dict(json.loads(files.config.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError) as error:
            raise MissingModelError(
                f"The voice's configuration {files.config} can't be read ({error}): reinstall the voice"
            ) from error
        self.name = files.model.stem
        self.sample_rate = config.sample_rate
        self._scales = Scales(config.noise_scale, config.length_scale, config.noise_w_scale)
        self._phonemizer = Phonemizer(config.espeak_voice, config.phoneme_id_map)
        self._vits = SplitVits(ensure_split(files.model, cache), config.hop_length, threads)

    def synthesize(
        self, words: Sequence[str], *, trim_lead: bool = False, length_scale: float | None = None
    ) -> Iterator[PcmChunk]:
        """Speak words as one utterance; yields its chunks as they are computed.

        Args:
            words: Speakable words, punctuation attached.
            trim_lead: Cut the silence before the first sound.
            length_scale: Slower above 1; None for the voice's own.
        """
        utterance = self._phonemizer.utterance(words)
        if not any(last > first for first, last in utterance.word_ids):
            return
        scales = self._scales if length_scale is None else replace(self._scales, length=length_scale)
        encoded = self._vits.encode(utterance.ids, scales)
        for index, (audio, last) in enumerate(self._vits.decode(encoded)):
            timings: tuple[WordTiming, ...] = ()
            audio = levels.shape_level(audio)
            if index == 0:
                lead = levels.lead_samples(audio, self.sample_rate) if trim_lead else 0
                audio = audio[lead:]
                timings = self._timings(utterance, encoded, lead)
            audio = levels.fade(audio, self.sample_rate, start=index == 0, end=last)
            yield PcmChunk(levels.to_pcm(audio), timings)

    def _timings(self, utterance: PhonemizedUtterance, encoded: EncodedUtterance, lead: int) -> tuple[WordTiming, ...]:
        """Word times from the durations of the phonemes, in order and never beyond the audio."""
        ends = np.concatenate([[0], np.cumsum(encoded.durations)]) * self._vits.hop_length - lead
        to_ms = 1000.0 / self.sample_rate
        timings, previous = [], 0.0
        for index, (first, last) in enumerate(utterance.word_ids):
            start = max(previous, float(ends[first]) * to_ms) if last > first else previous
            end = max(start, float(ends[last]) * to_ms) if last > first else start
            timings.append(WordTiming(index, start, end))
            previous = end
        return tuple(timings)
