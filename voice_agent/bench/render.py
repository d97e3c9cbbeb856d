"""Render the callers' utterances with flite: `voice-agent bench render`.

Each utterance is spoken by the caller's own voice, or by the next one when the agent's recogniser misunderstands that:
the demo measures the agent, not a synthetic voice. What it wrote is kept beside the recordings, in index.yaml.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import yaml

from voice_agent.bench.microphone import ROOM_NOISE_DBFS
from voice_agent.bench.recordings import RECORDINGS, read_audio, recording_path, write_flac
from voice_agent.bench.scenario import PAUSE, SCENARIOS, fragments, load_scenario, utterances
from voice_agent.stt.whisper import WhisperRecognizer, find_recognizer

RATE = 16000
VOICES = ("rms", "awb", "slt")
"""flite voices in the order of their word error rate with tiny.en (12, 16 and 18 % on short sentences)."""
SPEECH_RMS_DBFS = -23.0
TRIM_DBFS = -45.0
EDGE_MS = 15
TAILS_S = (0.1, 0.2, 0.3, 0.5)
"""Silence after the words when the recogniser is asked: it is, before the turn's end is certain."""


def speak(words: str, voice: str) -> npt.NDArray[np.float32]:
    """Synthesize words with flite, silence at both ends cut away; 16 kHz mono, shape (samples,)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "spoken.wav")
        command = ["flite", "-voice", voice, "--setf", "duration_stretch=1.05", "-t", words, "-o", str(path)]
        subprocess.run(command, check=True)
        samples = read_audio(path, RATE)
    audible = np.flatnonzero(np.abs(samples) >= 10 ** (TRIM_DBFS / 20))
    edge = EDGE_MS * RATE // 1000
    return samples[max(0, audible[0] - edge) : audible[-1] + edge]


def render(utterance: str, voice: str) -> npt.NDArray[np.float32]:
    """Synthesize an utterance with its pauses, at a speaking level of `SPEECH_RMS_DBFS`."""
    pieces = []
    for words, pause in fragments(utterance):
        spoken = speak(words, voice)
        spoken *= 10 ** (SPEECH_RMS_DBFS / 20) / float(np.sqrt(np.mean(spoken**2)))
        pieces += [spoken, np.zeros(round(pause * RATE), dtype=np.float32)]
    return np.clip(np.concatenate(pieces), -0.9, 0.9)


def as_received(samples: npt.NDArray[np.float32], tail_s: float) -> npt.NDArray[np.int16]:
    """Return 16 kHz speech as the agent receives it: with the room's noise, silence around it, and through Opus."""
    padded = np.pad(samples, (RATE * 3 // 10, round(tail_s * RATE)))
    noise = np.random.default_rng(round(tail_s * 10)).normal(0.0, 10 ** (ROOM_NOISE_DBFS / 20), len(padded))
    frame = av.AudioFrame.from_ndarray(((padded + noise) * 32767).astype(np.int16)[None], format="s16", layout="mono")
    frame.sample_rate = RATE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sent.ogg")
        with av.open(str(path), "w") as container:
            stream = container.add_stream("libopus", rate=48_000, layout="mono")
            stream.bit_rate = 96_000
            for packet in [*stream.encode(frame), *stream.encode(None)]:
                container.mux(packet)
        return (read_audio(path, RATE) * 32767).astype(np.int16)


def words_of(text: str) -> str:
    """Reduce a text to what two spellings of the same speech share."""
    spelled = PAUSE.sub("", text).lower().replace("'", "")
    for digits, word in (
        ("7.30", "seven thirty"),
        ("7 30", "seven thirty"),
        ("730", "seven thirty"),
        ("7:30", "seven thirty"),
        ("6", "six"),
    ):
        spelled = spelled.replace(digits, word)
    for digits, word in (("2", "two"), ("4", "four"), ("7", "seven"), ("ok", "okay")):
        spelled = spelled.replace(digits, word)
    return " ".join("".join(c if c.isalnum() else " " for c in spelled).split())


def main(arguments: list[str] | None = None) -> int:
    """Render the utterances of a scenario that have no recording yet."""
    parser = argparse.ArgumentParser(prog="voice-agent bench render", description=__doc__)
    parser.add_argument("--scenario", type=Path, default=SCENARIOS / "two_bookings.yaml")
    parser.add_argument("--out", type=Path, default=RECORDINGS)
    parser.add_argument("--all", action="store_true", help="render again what is there already")
    options = parser.parse_args(arguments)
    if shutil.which("flite") is None:
        print("flite is not installed: sudo apt-get install flite", file=sys.stderr)
        return 1
    recogniser = WhisperRecognizer(find_recognizer())
    options.out.mkdir(parents=True, exist_ok=True)
    index_path = options.out / "index.yaml"
    index = yaml.safe_load(index_path.read_text(encoding="utf-8")) if index_path.exists() else {}
    misunderstood = 0
    for call in load_scenario(options.scenario).calls:
        for utterance in utterances(call):
            path = recording_path(utterance, call.voice, options.out)
            if path.exists() and not options.all:
                continue
            for voice in (call.voice, *(other for other in VOICES if other != call.voice)):
                samples = render(utterance, voice)
                recognised = [recogniser.transcribe(as_received(samples, tail)).text for tail in TAILS_S]
                understood = all(words_of(text) == words_of(utterance) for text in recognised)
                verdict, wrote = "ok" if understood else "no", " | ".join(dict.fromkeys(recognised))
                print(f"{verdict}  {voice}  {utterance}  ->  {wrote}", flush=True)
                if understood:
                    break
            misunderstood += not understood
            write_flac(path, samples, RATE)
            index[path.name] = {"says": utterance, "voice": voice, "recognised": recognised[-1]}
    index = {name: entry for name, entry in index.items() if (options.out / name).exists()}
    index_path.write_text(yaml.safe_dump(index, sort_keys=True, allow_unicode=True, width=120), encoding="utf-8")
    return 1 if misunderstood else 0


if __name__ == "__main__":
    sys.exit(main())
