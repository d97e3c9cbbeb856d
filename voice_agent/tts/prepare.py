"""Set-up of the voice: `python -m voice_agent.tts.prepare` splits it once, so that no call waits for that."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from voice_agent.speech.errors import MissingModelError
from voice_agent.tts.split import ensure_split
from voice_agent.tts.voice_files import find_voice


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m voice_agent.tts.prepare", description=__doc__)
    parser.add_argument("--voice", type=Path, help="a piper voice, NAME.onnx (default: the packaged en_US-joe-medium)")
    parser.add_argument("--cache", type=Path, help="folder for the result (default: the user's cache folder)")
    arguments = parser.parse_args(argv)
    started = time.perf_counter()
    try:
        voice = ensure_split(find_voice(arguments.voice).model, arguments.cache)
    except MissingModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"voice ready in {voice.encoder.parent} ({time.perf_counter() - started:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
