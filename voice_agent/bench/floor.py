"""`voice-agent bench floor`: what the floor adds to the gap, and how often it begins in a pause.

Every utterance is replayed through the call's own voice activity detection, recogniser and floor, on a simulated
clock: no engine, no synthesizer, so the figures are the floor's own and the same on every run. An utterance with a
pause is replayed with pauses of several lengths.

hold: from the caller's last audible sample to the floor's decision, ms. gap: to the agent's first packet, with a reply
that takes --reply-ms. takeover: the agent became audible before the caller's end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from voice_agent.bench.recordings import load_recording, recording_path
from voice_agent.bench.render import as_received, render
from voice_agent.bench.replay import RATE_HZ, Timing, described, replay
from voice_agent.bench.scenario import PAUSE
from voice_agent.bench.simulated_recognizer import CachedWhisper, Transcriber
from voice_agent.bench.word_errors import word_errors
from voice_agent.turn_taking import SilenceFloor

CASES = Path(__file__).parent / "floor_cases.yaml"
DEFAULT_OUT = Path("out/floor")
TAIL_S = 3.0
PAUSES_S = (0.5, 0.6, 0.7)


@dataclass(frozen=True)
class Case:
    """An utterance as it is replayed: ``pause_s`` is the length of its pause, None where it has none."""

    group: str
    after: str
    say: str
    voice: str
    pause_s: float | None


@dataclass(frozen=True)
class Row:
    """A case and what came of it. Times in ms after the caller's last audible sample; None where nothing came."""

    case: Case
    hold_ms: float | None
    gap_ms: float | None
    takeovers: int
    withdrawn: int
    answered: str
    word_errors: int
    words: int


def parser() -> argparse.ArgumentParser:
    """The options of the benchmark."""
    made = argparse.ArgumentParser(
        prog="voice-agent bench floor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, default=DEFAULT_OUT, help="floor.json and transcripts (default: %(default)s)")
    made.add_argument(
        "--pauses", type=float, nargs="*", default=PAUSES_S, help="s; none: as written (default: .5 .6 .7)"
    )
    made.add_argument("--voices", nargs="*", default=(), help="let these flite voices say every utterance instead")
    made.add_argument("--pass-ms", type=float, default=110.0, help="time of a recogniser pass (default: %(default)s)")
    made.add_argument("--reply-ms", type=float, default=300.0, help="request to first audio (default: %(default)s)")
    made.add_argument("--only", default="", help="only utterances that hold these words; prints every decision")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status: 1 when a turn was not answered."""
    options = parser().parse_args(argv)
    timing = Timing(pass_s=options.pass_ms / 1000, reply_s=options.reply_ms / 1000)
    transcriber = CachedWhisper(options.out / "transcripts")
    flite = shutil.which("flite") is not None
    rows, logs, left_out = [], [], 0
    for case in load_cases(options.pauses, options.voices):
        if options.only and options.only.lower() not in case.say.lower():
            continue
        spoken = audio_of(case, options.out / "audio", flite=flite)
        if spoken is None:
            left_out += 1
            continue
        row, log = asyncio.run(run_case(case, spoken, transcriber, timing))
        rows.append(row)
        logs.append(log)
        print(_line(row), flush=True)
        if options.only:
            print("\n".join(f"    {entry['at']:6.2f} {entry['event']} {entry['decisions'] or ''}" for entry in log))
    if not rows:
        print("nothing to replay", file=sys.stderr)
        return 2
    summary = _summary(rows)
    print("\n" + "\n".join(_summary_line(name, figures) for name, figures in summary.items()))
    if left_out:
        print(f"note: {left_out} utterances were left out: flite, which speaks them, is not installed")
    report = {"summary": summary, "rows": [asdict(row) for row in rows], "timing_s": asdict(timing), "decisions": logs}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "floor.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.out / 'floor.json'}")
    return 1 if any(row.hold_ms is None for row in rows) else 0


def load_cases(pauses: Sequence[float], voices: Sequence[str] = ()) -> list[Case]:
    """The utterances to replay.

    Args:
        pauses: Each utterance with a pause comes once for every length (s) of these; none: as written.
        voices: Each comes in every one of these voices; none: in its own.
    """
    groups: dict[str, list[dict[str, str]]] = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    cases = []
    for group, entries in groups.items():
        for entry in entries:
            written = PAUSE.search(entry["say"])
            lengths = list(pauses) or [float(written[1])] if written else [None]
            for voice in voices or [entry["voice"]]:
                spoken = {**entry, "voice": voice}
                cases += [Case(group=group, pause_s=length, **spoken) for length in lengths]
    return cases


def audio_of(case: Case, folder: Path, *, flite: bool) -> npt.NDArray[np.float32] | None:
    """The utterance with its pause at the wanted length, 16 kHz; None where it can't be spoken here."""
    if recording_path(case.say, case.voice).exists():
        spoken = load_recording(case.say, case.voice, RATE_HZ)
    elif flite:
        cached = recording_path(case.say, case.voice, folder).with_suffix(".npy")
        if not cached.exists():
            cached.parent.mkdir(parents=True, exist_ok=True)
            np.save(cached, render(case.say, case.voice))
        spoken = np.load(cached)
    else:
        return None
    return spoken if case.pause_s is None else with_pause(spoken, case.pause_s)


def with_pause(spoken: npt.NDArray[np.float32], pause_s: float) -> npt.NDArray[np.float32]:
    """Give the longest silence in a rendered utterance another length."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (np.abs(spoken) < 1e-4).astype(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    silence = np.zeros(round(pause_s * RATE_HZ), dtype=np.float32)
    return np.concatenate((spoken[: starts[longest]], silence, spoken[ends[longest] :]))


async def run_case(
    case: Case, spoken: npt.NDArray[np.float32], transcriber: Transcriber, timing: Timing
) -> tuple[Row, list[dict[str, Any]]]:
    """Replay a case, ``spoken`` at 16 kHz; returns what came of it and every decision."""
    received = as_received(spoken, TAIL_S)
    done = await replay(received, SilenceFloor(), transcriber, asked=case.after, timing=timing)
    answered = done.commits[-1][1] if done.commits else ""
    errors, words = word_errors(PAUSE.sub("", case.say), answered)
    late = [at for at in done.audible if at >= done.end]
    row = Row(
        case=case,
        hold_ms=_ms(done.commits[-1][0] - done.end) if done.commits and done.commits[-1][0] >= done.end else None,
        gap_ms=_ms(late[0] - done.end) if late else None,
        takeovers=len(done.audible) - len(late),
        withdrawn=max(0, len(done.commits) - 1 - (len(done.audible) - len(late))),
        answered=answered,
        word_errors=errors,
        words=words,
    )
    return row, described(done)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _line(row: Row) -> str:
    pause = "    " if row.case.pause_s is None else f"{row.case.pause_s:4.2f}"
    hold = "   -" if row.hold_ms is None else f"{row.hold_ms:4.0f}"
    gap = "   -" if row.gap_ms is None else f"{row.gap_ms:4.0f}"
    marks = f"{'TAKEOVER ' * row.takeovers}{'withdrawn ' * row.withdrawn}"
    return f"{pause} hold {hold} gap {gap}  {row.case.voice} {PAUSE.sub('/', row.case.say):68} {marks}-> {row.answered}"


def _summary(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    groups = {
        group: [row for row in rows if row.case.group == group] for group in {row.case.group: None for row in rows}
    }
    return {name: _figures(some) for name, some in {**groups, "all": list(rows)}.items()}


def _figures(rows: Sequence[Row]) -> dict[str, Any]:
    holds = sorted(row.hold_ms for row in rows if row.hold_ms is not None)
    gaps = sorted(row.gap_ms for row in rows if row.gap_ms is not None)
    paused = [row for row in rows if row.case.pause_s is not None]
    return {
        "n": len(rows),
        "unanswered": sum(row.hold_ms is None for row in rows),
        "hold_p50_ms": round(statistics.median(holds), 1) if holds else None,
        "hold_p90_ms": holds[min(len(holds) - 1, int(0.9 * len(holds)))] if holds else None,
        "gap_p50_ms": round(statistics.median(gaps), 1) if gaps else None,
        "pauses": len(paused),
        "takeovers": sum(row.takeovers for row in rows),
        "withdrawn": sum(row.withdrawn for row in rows),
        "word_error_rate": round(sum(row.word_errors for row in rows) / sum(row.words for row in rows), 3),
    }


def _summary_line(name: str, figures: dict[str, Any]) -> str:
    return (
        f"{name:9} {figures['n']:3} turns: hold median {figures['hold_p50_ms']} ms, p90 {figures['hold_p90_ms']} ms; "
        f"gap median {figures['gap_p50_ms']} ms; takeovers {figures['takeovers']} in {figures['pauses']} pauses, "
        f"{figures['withdrawn']} more withdrawn unheard; {figures['unanswered']} unanswered; "
        f"words wrong {figures['word_error_rate']:.1%}"
    )


if __name__ == "__main__":
    sys.exit(main())
