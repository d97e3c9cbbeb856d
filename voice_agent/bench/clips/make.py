"""Make the clips anew: `python -m voice_agent.bench.clips.make` (needs flite and ffmpeg)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from voice_agent.bench.clips import FOLDER, SAMPLE_RATE_HZ


def main() -> int:
    """Speak every sentence of the list; returns the exit status."""
    for entry in yaml.safe_load((FOLDER / "clips.yaml").read_text()):
        with tempfile.TemporaryDirectory() as folder:
            wav = Path(folder) / "clip.wav"
            subprocess.run(["flite", "-voice", entry["voice"], "-t", entry["text"], "-o", str(wav)], check=True)
            target = FOLDER / f"{entry['name']}.flac"
            convert = ["ffmpeg", "-v", "error", "-y", "-i", str(wav), "-ar", str(SAMPLE_RATE_HZ), "-ac", "1"]
            subprocess.run([*convert, "-sample_fmt", "s16", "-compression_level", "12", str(target)], check=True)
            print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB  {entry['voice']}: {entry['text']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
