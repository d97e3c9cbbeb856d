"""A simulated caller: speaks one scripted call over WebRTC, listens, reacts, and records both sides.

Run in a process of its own (`voice-agent bench caller`), so that its pacing is nobody else's: it stands for
a caller on another machine. It writes OUT.wav (left: sent, right: heard) and OUT.json (what was said when).
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from voice_agent.bench.call_clock import RATE, CallClock
from voice_agent.bench.ear import audible_positions
from voice_agent.bench.gaps import Span
from voice_agent.bench.peer import CallError, Peer
from voice_agent.bench.recordings import RecordingError, load_recording, write_wav
from voice_agent.bench.scenario import SCENARIOS, Dialogue, ScenarioError, load_scenario, utterances

QUIET_S = 0.7
"""Silence after which the caller takes the agent's turn to be over, if the agent says that it listens."""
STUCK_S = 4.0
"""The same when the agent doesn't say so."""
NO_ANSWER_S = 6.0
"""Silence after which the caller speaks again; beyond the 5 s that make a missed turn, so that both are told apart."""
GREETING_S = 8.0
LONGEST_CALL_S = 240.0
POLL_S = 0.01
PING_S = 2.0


@dataclass
class SpokenTurn:
    """One caller turn: samples `start` to `end` of the left channel, and the agent's words after it."""

    say: str
    start: int
    end: int
    agent: str | None = None


@dataclass
class CallLog:
    """What happened in one call, beside its recording."""

    call_id: str | None = None
    rate: int = RATE
    turns: list[SpokenTurn] = field(default_factory=list)
    greeting: str | None = None
    messages: list[dict[str, Any]] = field(default_factory=list)
    """Everything the server sent on the data channel, with `at_ms` on the caller's clock."""
    unfinished: list[str] = field(default_factory=list)
    ended_by: str = "caller"
    error: str | None = None
    pacing_late_ms: dict[str, float] = field(default_factory=dict)
    """How late frames left: `p50`, `p99`, `max`."""
    playout: dict[str, Any] = field(default_factory=dict)
    priority: str = "normal"
    server_offset_ms: float | None = None
    """The server's call clock minus the caller's, from the fastest of the pings."""
    ping_ms: float | None = None


class Caller:
    """Runs one dialogue on one connection."""

    def __init__(self, dialogue: Dialogue, recordings: dict[str, npt.NDArray[np.float32]], log: CallLog) -> None:
        self._dialogue = dialogue
        self._recordings = recordings
        self._log = log
        self._clock = CallClock()
        self._peer = Peer(self._clock, self._on_message)
        self._state: str | None = None
        self._captions: dict[Any, str] = {}
        self._answered: set[Any] = set()
        self._bye = False

    async def call(self, url: str, token: str | None) -> None:
        """Make the call, to its end or for at most `LONGEST_CALL_S`."""
        try:
            await self._peer.connect(url, token)
            self._log.call_id = self._peer.call_id
            pinging = asyncio.create_task(self._ping())
            try:
                async with asyncio.timeout(LONGEST_CALL_S):
                    await self._talk()
            finally:
                pinging.cancel()
        except CallError as error:
            self._log.error = str(error)
        except TimeoutError:
            self._log.error = f"the call was not over after {LONGEST_CALL_S:.0f} s"
        finally:
            await self._peer.close()
        self._log.unfinished = self._dialogue.unfinished
        late = np.array(self._peer.microphone.late_ms or [0.0])
        self._log.pacing_late_ms = {
            "p50": float(np.percentile(late, 50)),
            "p99": float(np.percentile(late, 99)),
            "max": float(late.max()),
        }
        playout = self._peer.playout
        self._log.playout = {
            "underruns": [asdict(u) for u in playout.underruns],
            "most_delay_ms": playout.most_delay_ms,
        }

    def recording(self) -> npt.NDArray[np.int16]:
        """Return both channels, shape (samples, 2)."""
        left = self._peer.microphone.recording()
        return np.stack([left, self._peer.playout.recording(len(left))], axis=1)

    async def _talk(self) -> None:
        said = self._log.greeting = await self._agents_turn(since=0, patience_s=GREETING_S)
        while not self._over():
            line = self._dialogue.next_line(said)
            if line is None:
                self._peer.send({"type": "hangup"})
                await self._until(lambda: self._bye, 2.0)
                return
            said = await self._say(line)
        self._log.ended_by = "agent"

    async def _say(self, line: str) -> str | None:
        recording = self._recordings[line]
        self._answered.update(self._captions)
        where = self._peer.microphone.speak(recording)
        turn = SpokenTurn(say=line, start=where.start, end=where.end)
        self._log.turns.append(turn)
        reporter = asyncio.create_task(self._report_audible(where, recording))
        try:
            await self._until(lambda: self._clock.now() >= where.end, len(recording) / RATE + 1)
            turn.agent = await self._agents_turn(since=where.end, patience_s=NO_ANSWER_S)
        finally:
            reporter.cancel()
        return turn.agent

    async def _agents_turn(self, since: int, patience_s: float) -> str | None:
        """Wait until the agent has spoken after sample `since` and stopped; returns its words, None for silence."""
        ear = self._peer.ear

        def begun() -> bool:
            return self._over() or ear.speech_after(since)

        def ended() -> bool:
            silent = ear.silent_for_s(self._clock.now())
            return self._over() or silent > STUCK_S or (silent > QUIET_S and self._state in (None, "listening"))

        await self._until(begun, patience_s)
        if not ear.speech_after(since):
            return None
        await self._until(ended, LONGEST_CALL_S)
        words = [text for turn, text in self._captions.items() if turn not in self._answered]
        return " ".join(words) or "(no caption)"

    async def _report_audible(self, where: Span, recording: npt.NDArray[np.float32]) -> None:
        """Tell the server, as the page does, when its reply became audible here."""
        ear = self._peer.ear
        spoken = audible_positions(recording) + where.start
        if ear.silent_for_s(self._clock.now()) < QUIET_S:
            # Talking over the agent: what is heard now is the reply before.
            await self._until(lambda: ear.silent_for_s(self._clock.now()) >= QUIET_S, LONGEST_CALL_S)
        ear.listen(where.start)
        await self._until(lambda: ear.onset is not None, LONGEST_CALL_S)
        if ear.onset is None:
            return
        before = spoken[spoken <= ear.onset]
        last_spoken = int(before[-1] if before.size else where.start)
        self._peer.send(
            {
                "type": "agent_audible",
                "client_ms": ear.onset * 1000 / RATE,
                "gap_ms": (ear.onset - last_spoken) * 1000 / RATE,
            }
        )

    async def _ping(self) -> None:
        while True:
            self._peer.send({"type": "ping", "client_ms": self._clock.now_ms()})
            await asyncio.sleep(PING_S)

    def _on_pong(self, sent_ms: float, server_ms: float) -> None:
        took = self._clock.now_ms() - sent_ms
        if self._log.ping_ms is None or took < self._log.ping_ms:
            self._log.ping_ms = took
            self._log.server_offset_ms = server_ms - (sent_ms + took / 2)

    def _on_message(self, message: dict[str, Any]) -> None:
        if message.get("type") == "pong":
            self._on_pong(float(message["client_ms"]), float(message["server_ms"]))
            return
        self._log.messages.append({"at_ms": round(self._clock.now_ms(), 1), **message})
        match message.get("type"):
            case "state":
                self._state = message.get("state")
            case "caption" if message.get("role") == "agent" and "heard_text" not in message:
                self._captions[message.get("turn")] = str(message.get("text", ""))
            case "bye":
                self._bye = True

    def _over(self) -> bool:
        return self._bye or self._peer.ended.is_set()

    async def _until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Wait until a condition holds, or for `timeout_s`."""
        deadline = self._clock.now_ms() + timeout_s * 1000
        while not condition() and self._clock.now_ms() < deadline:  # noqa: ASYNC110 - of the clock: nothing signals it
            await asyncio.sleep(POLL_S)


def raise_priority() -> str:
    """Run before everything else on this machine: a caller would be on another one. Returns what was granted."""
    try:
        # Threads made later (Opus) inherit it. An eighth of a core: nobody starves.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        return "real-time (round robin)"
    except (OSError, AttributeError):
        pass
    try:
        os.nice(-15)
    except OSError:
        return "normal (not allowed to raise it)"
    return "raised (nice -15)"


def main(arguments: list[str] | None = None) -> int:
    """Make one call of a scenario; exits 1 when it couldn't be made."""
    parser = argparse.ArgumentParser(prog="voice-agent bench caller", description=__doc__)
    parser.add_argument("url", help="of a running voice agent, such as http://127.0.0.1:8080")
    parser.add_argument("--scenario", type=Path, default=SCENARIOS / "two_bookings.yaml")
    parser.add_argument("--call", type=int, default=0, help="which call of the scenario, from 0")
    parser.add_argument("--today", type=dt.date.fromisoformat, default=dt.date.today(), help="ISO date")
    parser.add_argument("--out", type=Path, required=True, help="path without ending: OUT.wav and OUT.json are written")
    options = parser.parse_args(arguments)
    try:
        scenario = load_scenario(options.scenario)
        call = scenario.calls[options.call]
        day, _ = call.day_named(options.today, scenario.closed)
        recordings = {said: load_recording(said, call.voice, RATE) for said in utterances(call)}
    except (ScenarioError, RecordingError) as error:
        print(error, file=sys.stderr)
        return 2
    log = CallLog(priority=raise_priority())

    async def run() -> Caller:
        caller = Caller(Dialogue(call, scenario.again, day), recordings, log)
        await caller.call(options.url, os.environ.get("VOICE_AGENT_TOKEN"))
        return caller

    caller = asyncio.run(run())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_wav(options.out.with_suffix(".wav"), caller.recording(), RATE)
    options.out.with_suffix(".json").write_text(json.dumps(asdict(log), indent=1), encoding="utf-8")
    if log.error:
        print(log.error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
