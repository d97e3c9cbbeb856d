"""The demo's command against a small WebRTC peer: two turns, over loopback, measured from the recording."""

import asyncio
import json
import sqlite3
import sys

import numpy as np
import yaml

from tests.voice_agent.bench.beep_peer import BeepPeer, serving
from voice_agent.bench.recordings import read_wav

SCENARIO = {
    "name": "small",
    "time_zone": "Europe/London",
    "closed": [],
    "again": "pardon",
    "calls": [
        {
            "caller": "Peter Johnson",
            "voice": "rms",
            "dates": ["tomorrow"],
            "booking": {"name": "Peter Johnson", "time": "18:00", "party": 2},
            "parts": [{"about": "a table", "turns": [{"say": "Two people."}, {"say": "Yes please, that's right."}]}],
        }
    ],
}


async def run_demo(tmp_path, *replies: str) -> tuple[int, dict, str]:
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(SCENARIO))
    with sqlite3.connect(tmp_path / "bookings.db") as database:
        database.execute("CREATE TABLE bookings (name, date, minute, party, status)")
    async with serving(BeepPeer(list(replies))) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "voice_agent.bench.demo", "--url", url, "--out", str(tmp_path)),
            *("--scenario", str(tmp_path / "scenario.yaml"), "--database", str(tmp_path / "bookings.db")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
    return process.returncode, json.loads((tmp_path / "demo.json").read_text()), output.decode()


async def test_turns_are_measured_and_a_booking_that_was_not_made_fails_the_demo(tmp_path):
    status, result, output = await run_demo(tmp_path, "Hello.", "Shall I?", "Done.")
    assert status == 1
    assert "missing: Peter Johnson, 2 people" in output
    summary = result["summary"]
    assert (summary["n"], summary["missed"], summary["bookings_ok"]) == (2, 0, 0)
    assert [turn["agent"] for turn in result["turns"]] == ["Shall I?", "Done."]
    # The peer answers after 200 ms of silence.
    assert all(turn["gap_ms"] > 200 and not turn["takeover"] for turn in result["turns"])
    recording, rate = read_wav(tmp_path / "call.wav")
    assert rate == 48000
    assert np.abs(recording.astype(np.int32)).max(axis=0).min() > 3000
