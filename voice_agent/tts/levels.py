"""Levels of synthesized speech: a fixed gain with a soft ceiling, quiet ends, no clicks. Streaming, chunk by chunk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float32]

GAIN = 1.2
"""The packaged voice peaks at -7.2 to -2.6 dBFS by utterance (median -5.8); with this gain the median is near -4."""
KNEE = 10 ** (-6 / 20)
CEILING = 10 ** (-3 / 20)
"""-3 dBFS: what a telephone's codec and a phone's loudspeaker take without distortion."""
FADE_MS = 4.0
SILENCE = 10 ** (-45 / 20)
"""-45 dBFS, the threshold at which the project counts a sample as audible."""
KEPT_LEAD_MS = 10.0


def shape_level(audio: Float, gain: float = GAIN) -> Float:
    """Amplify, then bend what exceeds the knee (-6 dBFS) towards the ceiling (-3 dBFS), which it never reaches.

    Sample by sample, so that chunks join; below the knee it is linear. float32 [samples] in and out.
    """
    out = audio * np.float32(gain)
    magnitude = np.abs(out)
    over = magnitude > KNEE
    if over.any():
        room = CEILING - KNEE
        bent = KNEE + room * np.tanh((magnitude[over] - KNEE) / room)
        out[over] = np.sign(out[over]) * bent.astype(np.float32)
    return out.astype(np.float32)


def lead_samples(audio: Float, sample_rate: int) -> int:
    """Samples of silence to cut from the beginning: all before the first audible one but `KEPT_LEAD_MS`.

    0 where nothing in `audio` is audible.
    """
    audible = np.flatnonzero(np.abs(audio) > SILENCE)
    if audible.size == 0:
        return 0
    return max(0, int(audible[0]) - int(KEPT_LEAD_MS * sample_rate / 1000))


def fade(audio: Float, sample_rate: int, *, start: bool = False, end: bool = False) -> Float:
    """Fade the edges of an utterance over `FADE_MS`; its inner chunks are left alone."""
    length = min(audio.size, int(FADE_MS * sample_rate / 1000))
    if length == 0 or not (start or end):
        return audio
    ramp = np.linspace(0.0, 1.0, length, dtype=np.float32)
    out = audio.copy()
    if start:
        out[:length] *= ramp
    if end:
        out[-length:] *= ramp[::-1]
    return out


def to_pcm(audio: Float) -> bytes:
    """Signed 16-bit PCM."""
    return (np.clip(audio, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()
