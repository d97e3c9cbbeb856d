"""`voice-agent bench speech`: how soon the voice sounds and the recogniser answers, against the usual way, in one run.

Two pairs, each on the same weights, threads and inputs, their runs interleaved so that both meet the same load:

- first audio of a sentence: the split voice in chunks, against piper, which synthesizes whole sentences;
- a recogniser pass over 2 s and 4 s of speech: the short window, against Whisper's 30-second window.

Quality is reported beside speed: how exactly the chunks join, how often playback would have run dry, and the word error
rate of both windows over the same clips.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voice_agent.speech.threads import pin_threads


def build_parser() -> argparse.ArgumentParser:
    """The options of the benchmark."""
    parser = argparse.ArgumentParser(
        prog="voice-agent bench speech", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15, help="runs of each measurement (default: 15)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each model, for both sides (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    if arguments.runs < 1 or arguments.threads < 1:
        print("error: --runs and --threads must be at least 1", file=sys.stderr)
        return 2
    if "numpy" in sys.modules and os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # Thread counts are read when numpy is imported, which has happened: measure in a process of its own.
        environment = dict(os.environ)
        pin_threads(environment)
        command = [sys.executable, "-m", "voice_agent.bench.speech", *(sys.argv[1:] if argv is None else argv)]
        return subprocess.run(command, env=environment, check=False).returncode
    pin_threads()
    from voice_agent.bench.machine import describe_machine
    from voice_agent.bench.speech_measure import measure_recognizer, measure_voice

    before = describe_machine()
    print("measuring the voice ...", file=sys.stderr, flush=True)
    voice = measure_voice(arguments.runs, arguments.threads)
    print("measuring the recogniser ...", file=sys.stderr, flush=True)
    recognizer = measure_recognizer(arguments.runs, arguments.threads)
    report = {
        "machine": before,
        "load_average_after": describe_machine()["load_average"],
        "threads": arguments.threads,
        "runs": arguments.runs,
        "versions": {
            name: importlib.metadata.version(name)
            for name in ("onnxruntime", "piper-tts", "ctranslate2", "faster-whisper")
        },
        "voice": voice,
        "recognizer": recognizer,
    }
    print(render(report))
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def render(report: dict[str, Any]) -> str:
    """The report as text."""
    machine, voice, recognizer = report["machine"], report["voice"], report["recognizer"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_average'][0]} -> "
        f"{report['load_average_after'][0]}; {report['threads']} thread(s) a model, "
        f"median (10th - 90th percentile) of {report['runs']} interleaved runs, ms",
        "",
        f"{'first audio':26}{'in chunks':>24}{'whole sentence':>24}{'ratio':>8}",
    ]
    for row in voice["first_audio"]:
        lines.append(_row(f"{row['words']} words", row["chunks_ms"], row["whole_ms"]))
    lines += [
        f"  joined chunks equal the unsplit decoder to {voice['seam_db']:.0f} dB; "
        f"playback ran dry {voice['underruns']} times in {voice['replies']} replies",
        f"  work per second of speech: {voice['chunks_rtf']:.3f} s in chunks, {voice['whole_rtf']:.3f} s whole",
        "",
        f"{'partial transcript':26}{'short window':>24}{'30 s window':>24}{'ratio':>8}",
    ]
    for row in recognizer["partial"]:
        lines.append(_row(f"{row['speech_s']:g} s of speech", row["short_ms"], row["long_ms"]))
    lines.append(
        f"  word error rate over {recognizer['clips']} clips ({recognizer['words']} words): "
        f"{recognizer['short_wer']:.1%} short window, {recognizer['long_wer']:.1%} 30 s window"
    )
    return "\n".join(lines)


def _row(name: str, ours: dict[str, float], theirs: dict[str, float]) -> str:
    def cell(figures: dict[str, float]) -> str:
        return f"{figures['median']:.0f} ({figures['p10']:.0f} - {figures['p90']:.0f})"

    return f"{name:26}{cell(ours):>24}{cell(theirs):>24}{theirs['median'] / ours['median']:>7.1f}x"


if __name__ == "__main__":
    sys.exit(main())
