"""The scripted calls behind `make demo`: real WebRTC, real speech, gaps measured from the recording.

Starts `voice-agent serve` with an empty database, makes every call of a scenario, and writes OUT/call.wav (left: what
the callers sent, right: what they heard), OUT/demo.json and OUT/server.log. Exits 1 when a turn is missed (nothing
audible within 5 s), a call breaks off or a booking isn't in the database.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import numpy as np

from voice_agent.bench import report
from voice_agent.bench.booking_check import BookedTable, missing_bookings, read_bookings
from voice_agent.bench.machine import busy_share, cpu_times, describe_machine
from voice_agent.bench.recordings import read_wav, write_wav
from voice_agent.bench.scenario import SCENARIOS, Scenario, ScenarioError, load_scenario
from voice_agent.bench.server_process import ServerError, free_port, running_server

DEFAULT_OUT = Path("out/demo")
BETWEEN_CALLS_S = 1.0
IDLE_LOAD = 0.3
"""Load average per core below which a machine counts as idle."""


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser; what follows `--` goes to `voice-agent serve` as it is."""
    parser = argparse.ArgumentParser(prog="voice-agent bench demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder for the results (default: %(default)s)")
    parser.add_argument("--scenario", type=Path, default=SCENARIOS / "two_bookings.yaml")
    parser.add_argument("--url", help="call a running server instead of starting one")
    parser.add_argument("--database", type=Path, help="with --url: its bookings, to be checked (default: unchecked)")
    parser.add_argument("--today", type=dt.date.fromisoformat, help="make the calls as if it were this ISO date")
    parser.add_argument("serve", nargs="*", help="arguments for voice-agent serve, after --")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit status."""
    options = parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    # A plain SIGTERM would end this process without its `finally`, and leave the server running.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _demo(options)
    except (ScenarioError, ServerError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _demo(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario)
    today = options.today or dt.datetime.now(ZoneInfo(scenario.time_zone)).date()
    expected = []
    for call in scenario.calls:
        _, day = call.day_named(today, scenario.closed)
        expected.append(BookedTable(call.booking.name, day, call.booking.time, call.booking.party))

    load_before = describe_machine()["load_average"][0]
    with ExitStack() as stack:
        database = options.database
        if options.url:
            url = options.url.rstrip("/")
        else:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voice-agent-demo-")))
            database, port = data / "bookings.sqlite", free_port()
            url = f"http://127.0.0.1:{port}"
            print("starting voice-agent serve ...", flush=True)
            settings = {
                "VOICE_AGENT_HOST": "127.0.0.1",
                "VOICE_AGENT_PORT": str(port),
                "VOICE_AGENT_DATABASE": str(database),
                "VOICE_AGENT_RECORD_DIR": str(data / "records"),
            }
            if options.today:
                settings["VOICE_AGENT_TODAY"] = options.today.isoformat()
            command = [sys.executable, "-m", "voice_agent.cli", "serve", *options.serve]
            stack.enter_context(running_server(command, url, options.out / "server.log", settings))
        info = _get(f"{url}/api/info") or {}
        print(f"answered by {info.get('model', 'an unnamed model')}", flush=True)
        before = cpu_times()
        calls = [_make_call(url, options, scenario, number, today) for number in range(len(scenario.calls))]
        machine = {**describe_machine(), "load_before": load_before, "busy": busy_share(before, cpu_times())}
        logs = [log for log, _ in calls if log is not None]
        records = [_get(f"{url}/api/calls/{log['call_id']}") or {} for log in logs]
        missing = missing_bookings(expected, _bookings(database)) if database else []

    recordings = [recording for log, recording in calls if log is not None]
    if not recordings:
        print("no call could be made", file=sys.stderr)
        return 1
    result = _result(logs, recordings, records)
    result["summary"].update(
        bookings_expected=[str(booking) for booking in expected],
        bookings_ok=(len(expected) - len(missing)) if database else None,
        bookings_missing=[str(booking) for booking in missing],
        machine=machine,
        model=info.get("model"),
        engine=info.get("engine"),
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
    if load_before > IDLE_LOAD * machine["cores"]:
        busy = (
            f"the machine was not idle before the calls (load {load_before:.1f}): the gaps are longer than they need be"
        )
        result["summary"]["notes"].append(busy)
    rate = logs[0]["rate"]
    between = np.zeros((round(BETWEEN_CALLS_S * rate), 2), dtype=np.int16)
    joined = [piece for recording in recordings for piece in (recording, between)][:-1]
    write_wav(options.out / "call.wav", np.concatenate(joined), rate)
    (options.out / "demo.json").write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")
    _print(result, options.out)
    broken = len(recordings) < len(scenario.calls) or any(log["error"] for log in logs)
    return 1 if broken or missing or result["summary"]["missed"] else 0


def _make_call(
    url: str, options: argparse.Namespace, scenario: Scenario, number: int, today: dt.date
) -> tuple[dict[str, Any] | None, report.Recording]:
    """Let a caller of its own process make a call; returns its log (None when it made none) and recording."""
    print(f"call {number + 1} of {len(scenario.calls)}: {scenario.calls[number].caller} ...", flush=True)
    out = options.out / f"call-{number + 1}"
    for stale in (out.with_suffix(".json"), out.with_suffix(".wav")):
        stale.unlink(missing_ok=True)
    command = [sys.executable, "-m", "voice_agent.bench.caller", url, "--scenario", str(options.scenario)]
    command += ["--call", str(number), "--today", today.isoformat(), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=False)
    if not out.with_suffix(".json").exists():
        return None, np.zeros((0, 2), dtype=np.int16)
    log = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    recording, _ = read_wav(out.with_suffix(".wav"))
    return log, recording


def _result(
    logs: Sequence[dict[str, Any]], recordings: Sequence[report.Recording], records: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    turns = [
        row
        for number, (log, recording, record) in enumerate(zip(logs, recordings, records, strict=True), start=1)
        for row in report.turns_of_call(number, log, recording, record.get("turns", []))
    ]
    for log, record in zip(logs, records, strict=True):
        log["server_underruns"] = record.get("underruns")
    audio = report.audio_figures(recordings, logs[0]["rate"])
    return {
        "turns": turns,
        "summary": {**report.summarise(turns), "audio": audio, "notes": report.oddities(turns, audio, logs)},
        "calls": [{key: value for key, value in log.items() if key not in ("turns", "messages")} for log in logs],
    }


def _print(result: dict[str, Any], out: Path) -> None:
    summary = result["summary"]
    print()
    print(report.table(result["turns"]))
    print()
    print("gap: from the recording, ms; intern to packet: the server's own figures, ms after the caller's audio end")
    print(
        f"{summary['n']} turns: median gap {summary['gap_p50_ms']} ms, p95 {summary['gap_p95_ms']} ms, "
        f"{summary['missed']} missed, {summary['takeovers']} takeovers "
        f"({summary['pause_takeovers']} of them inside one of {summary['pauses']} pauses)"
    )
    if summary["bookings_ok"] is None:
        print("bookings: not checked (no --database)")
    else:
        print(f"bookings: {summary['bookings_ok']} of {len(summary['bookings_expected'])} in the database")
    for booking in summary["bookings_missing"]:
        print(f"  missing: {booking}")
    for note in summary["notes"]:
        print(f"note: {note}")
    machine = summary["machine"]
    busy = "" if machine["busy"] is None else f", {machine['busy']:.0%} busy"
    print(f"{machine['cpu']}, {machine['cores']} cores{busy}, load {machine['load_average'][0]}")
    print(f"written: {out / 'call.wav'}, {out / 'demo.json'}")


def _bookings(database: Path) -> list[BookedTable]:
    try:
        return read_bookings(database)
    except sqlite3.Error as error:
        print(f"the bookings in {database} can't be read: {error}", file=sys.stderr)
        return []


def _get(url: str) -> dict[str, Any] | None:
    token = os.environ.get("VOICE_AGENT_TOKEN")
    try:
        response = httpx.get(url, timeout=10.0, headers={"Authorization": f"Bearer {token}"} if token else {})
        response.raise_for_status()
    except httpx.HTTPError as error:
        print(f"no answer from {url}: {error}", file=sys.stderr)
        return None
    body = response.json()
    return body if isinstance(body, dict) else None


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
