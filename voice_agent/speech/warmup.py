"""Load both models and run each once, so that the first caller doesn't pay for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from voice_agent.stt.whisper import SAMPLE_RATE_HZ, WhisperRecognizer, find_recognizer
from voice_agent.tts.synthesizer import Synthesizer
from voice_agent.tts.voice_files import find_voice

_SHORT = "Yes, of course."
_LONG = "We are open every day from eleven in the morning until ten at night, except on Mondays."


def load_and_warm(
    stt_model: Path | None, voice: Path | None, cache: Path | None, stt_threads: int, tts_threads: int
) -> tuple[WhisperRecognizer, Synthesizer]:
    """Load the recogniser and the voice, and run both over a short and a longer input.

    Raises:
        MissingModelError: A model is missing or damaged.
    """
    folder, files = find_recognizer(stt_model), find_voice(voice)
    synthesizer = Synthesizer(files, tts_threads, cache)
    recognizer = WhisperRecognizer(folder, stt_threads)
    for text in (_SHORT, _LONG):
        for _ in synthesizer.synthesize(text.split()):
            pass
    silence = np.zeros(2 * SAMPLE_RATE_HZ, dtype=np.int16)
    for _ in range(2):
        recognizer.transcribe(silence, word_times=True)
    return recognizer, synthesizer
