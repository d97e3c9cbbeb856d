"""The caller's recorded utterances, and 16-bit audio files in and out."""

from __future__ import annotations

import re
import wave
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

RECORDINGS = Path(__file__).parent / "recordings"


class RecordingError(RuntimeError):
    """An utterance has no usable recording; the message says how to make it."""


def recording_path(utterance: str, voice: str, folder: Path = RECORDINGS) -> Path:
    """Return where an utterance is kept: its words, and the caller's voice it was made for."""
    words = re.sub(r"[^a-z0-9]+", "-", utterance.lower().replace("'", "")).strip("-")
    return folder / f"{voice}-{words}.flac"


def read_audio(path: Path, rate: int) -> npt.NDArray[np.float32]:
    """Decode a file to mono float32 in -1..1 at `rate` Hz, shape (samples,)."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
    with av.open(str(path)) as container:
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
    frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames]).astype(np.float32)


def load_recording(utterance: str, voice: str, rate: int, folder: Path = RECORDINGS) -> npt.NDArray[np.float32]:
    """Load an utterance at `rate` Hz; raises RecordingError when it was never rendered or can't be decoded."""
    path = recording_path(utterance, voice, folder)
    try:
        return read_audio(path, rate)
    except (OSError, av.FFmpegError, ValueError) as error:
        raise RecordingError(
            f"no recording of {utterance!r} at {path}: {error}. Render it with: voice-agent bench render"
        ) from error


def write_flac(path: Path, samples: npt.NDArray[np.float32], rate: int) -> None:
    """Write mono float samples as 16-bit FLAC."""
    frame = av.AudioFrame.from_ndarray(_int16(samples)[None], format="s16", layout="mono")
    frame.sample_rate = rate
    with av.open(str(path), "w", format="flac") as container:
        stream = container.add_stream("flac", rate=rate, options={"compression_level": "12"})
        assert isinstance(stream, av.AudioStream)
        stream.codec_context.layout = "mono"
        stream.codec_context.format = "s16"
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)


def write_wav(path: Path, channels: npt.NDArray[np.int16], rate: int) -> None:
    """Write int16 samples of shape (samples, channels) as WAV."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.ascontiguousarray(channels, dtype="<i2").tobytes())


def read_wav(path: Path) -> tuple[npt.NDArray[np.int16], int]:
    """Read a 16-bit WAV: samples of shape (samples, channels) and the rate in Hz."""
    with wave.open(str(path), "rb") as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        return samples.reshape(-1, file.getnchannels()).astype(np.int16), file.getframerate()


def _int16(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    return np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16)
