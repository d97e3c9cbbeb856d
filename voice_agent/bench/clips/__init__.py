"""A few clips of known speech, for benchmarks and tests: 16 kHz mono FLAC beside the list of their texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import yaml

from voice_agent.bench.recordings import read_audio

FOLDER = Path(__file__).parent
SAMPLE_RATE_HZ = 16_000


@dataclass(frozen=True)
class Clip:
    """A sentence and its recording.

    Attributes:
        name: Its file's name, without the suffix.
        voice: flite's name of the speaker.
        text: What is said.
        pcm: int16 [samples], 16 kHz mono, no silence added.
    """

    name: str
    voice: str
    text: str
    pcm: npt.NDArray[np.int16]


def load_clips() -> list[Clip]:
    """All clips, in the order of the list."""
    entries = yaml.safe_load((FOLDER / "clips.yaml").read_text())
    return [Clip(e["name"], e["voice"], e["text"], _load(e["name"])) for e in entries]


def _load(name: str) -> npt.NDArray[np.int16]:
    samples = read_audio(FOLDER / f"{name}.flac", SAMPLE_RATE_HZ)
    return np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16)
