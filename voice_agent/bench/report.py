"""What a demo's calls came to: turns measured from the recordings, the server's own figures beside them, a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from voice_agent.bench.audio_sanity import dbfs, holes, measure_levels
from voice_agent.bench.gaps import Span, TurnGap, audible_stretches, measure_turns, silences

SAME_END_MS = 1000.0
"""A record whose caller's end is further than this from a turn's is another turn's."""

TIMELINE = ("vad_trigger_end", "vad_end", "preflight", "final", "decision", "tts_first_chunk", "first_packet")
LOUD_DBFS, QUIET_DBFS = -12.0, -32.0
"""Speech RMS outside of these is noted: the usual level of telephone and broadcast speech is -18 to -26 dBFS."""
LONG_PAUSE_MS = 1500.0

Recording = npt.NDArray[np.int16]


def match_records(
    turns: Sequence[TurnGap], records: Sequence[Mapping[str, Any]], rate: int, server_offset_ms: float | None
) -> list[Mapping[str, Any] | None]:
    """Find each turn's record by when the caller's audio ended; None for a turn the server has no record of.

    A turn that the agent cut in two has two records; the one that ends with the turn is its own.
    """
    free = [record for record in records if record.get("events", {}).get("caller_audio_end") is not None]
    found: list[Mapping[str, Any] | None] = []
    for turn in turns:
        end_ms = turn.caller.end * 1000 / rate + (server_offset_ms or 0.0)
        nearest = min(free, key=lambda record: abs(record["events"]["caller_audio_end"] - end_ms), default=None)
        if nearest is None or abs(nearest["events"]["caller_audio_end"] - end_ms) > SAME_END_MS:
            found.append(None)
            continue
        free.remove(nearest)
        found.append(nearest)
    return found


def restarts(turn: TurnGap, until: int, records: Sequence[Mapping[str, Any]], rate: int, offset_ms: float) -> int:
    """Count the replies of a turn that the server broke off: it took a piece of the turn, or a late word, for a turn.

    The scripted caller never talks over a reply, so whatever was interrupted before the caller's next turn (at sample
    `until`) was begun too early.
    """
    start_ms, end_ms = (sample * 1000 / rate + offset_ms for sample in (turn.caller.start, until))
    packets = [r["events"]["first_packet"] for r in records if r.get("interrupted") and r["events"].get("first_packet")]
    return sum(start_ms <= packet < end_ms for packet in packets)


def internal_figures(record: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a record's timeline in ms after the caller's audio end, and what the language model took."""
    if record is None:
        return {}
    events = record["events"]
    end = events["caller_audio_end"]
    figures: dict[str, Any] = {key: round(events[key] - end, 1) for key in TIMELINE if events.get(key) is not None}
    requests = [request for request in events.get("llm", []) if request.get("first_token") is not None]
    if requests:
        figures["llm_request"] = round(requests[0]["request"] - end, 1)
        figures["llm_first_token"] = round(requests[-1]["first_token"] - end, 1)
        figures["llm_requests"] = len(events["llm"])
        figures["tool_calls"] = [name for request in requests for name in request.get("tool_calls", [])]
    if events.get("client_audible") is not None:
        figures["client_audible"] = round(events["client_audible"] - end, 1)
    figures["client_gap_ms"] = record.get("gap_ms")
    figures["speculation"] = record.get("speculation")
    figures["recognised"] = record.get("caller")
    return figures


def turns_of_call(
    number: int, log: Mapping[str, Any], recording: Recording, records: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Measure one call; returns the rows of `demo.json`'s `turns`.

    Args:
        number: of the call, from 1.
        log: what the caller wrote (`caller.CallLog`).
        recording: shape (samples, 2).
        records: the server's turn records of the call; empty when there are none.
    """
    rate = log["rate"]
    spoken = [Span(turn["start"], min(turn["end"], len(recording))) for turn in log["turns"]]
    measured = measure_turns(recording[:, 0], recording[:, 1], rate, spoken)
    matched = match_records(measured, records, rate, log.get("server_offset_ms"))
    agent_stretches = audible_stretches(recording[:, 1], rate)
    next_starts = [turn.caller.start for turn in measured[1:]] + [len(recording)]
    rows = []
    for turn, words, record, until in zip(measured, log["turns"], matched, next_starts, strict=True):
        row = {
            "call": number,
            "caller": words["say"],
            "agent": words["agent"] or "",
            "gap_ms": _rounded(turn.gap_ms),
            "internal_gap_ms": None if record is None else record.get("internal_gap_ms"),
            "takeover": turn.takeover,
            "takeover_at_ms": _rounded(turn.takeover_at_ms),
            "missed": turn.missed,
            "pauses": len(turn.pauses),
            "pause_takeovers": turn.pause_takeovers,
            "restarts": restarts(turn, until, records, rate, log.get("server_offset_ms") or 0.0),
            "at_s": round(turn.caller.start / rate, 2),
            "internal": internal_figures(record),
            "reply": None,
        }
        if turn.reply is not None:
            inside = [s for s in agent_stretches if turn.reply.start <= s.start < turn.reply.end]
            pauses = [pause.end - pause.start for pause in silences(inside, 0)]
            row["reply"] = {
                "seconds": round((turn.reply.end - turn.reply.start) / rate, 2),
                "longest_pause_ms": round(max(pauses, default=0) * 1000 / rate),
                "holes": [asdict(hole) for hole in holes(recording[:, 1], turn.reply, rate)],
            }
        if record is not None and log.get("server_offset_ms") is not None:
            end_ms = turn.caller.end * 1000 / rate + log["server_offset_ms"]
            row["internal"]["caller_end_error_ms"] = round(record["events"]["caller_audio_end"] - end_ms, 1)
        rows.append(row)
    return rows


def audio_figures(recordings: Sequence[Recording], rate: int) -> dict[str, Any]:
    """Measure the levels, clipping and floor of both channels over all calls."""
    joined = np.concatenate(list(recordings))
    figures = {}
    for name, channel in (("caller", joined[:, 0]), ("agent", joined[:, 1])):
        speech = audible_stretches(channel, rate)
        figures[name] = {key: _rounded(value) for key, value in asdict(measure_levels(channel, speech)).items()}
        dc = dbfs(abs(float(np.mean(channel))) / 32768)
        figures[name]["dc_offset_dbfs"] = _rounded(dc)
        figures[name]["seconds_of_speech"] = round(sum(s.end - s.start for s in speech) / rate, 1)
    return figures


def summarise(turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise the gaps.

    Percentiles (linear interpolation) are over the turns that have a gap: takeovers and missed turns have none and are
    counted apart. `gaps_by_kind` splits them into kinds of turns that shouldn't be averaged unseen.
    """
    measured = [turn for turn in turns if turn["gap_ms"] is not None]
    gaps = [turn["gap_ms"] for turn in measured]
    first = {turn["call"]: number for number, turn in reversed(list(enumerate(turns)))}
    kinds: dict[str, list[float]] = {}
    for number, turn in enumerate(turns):
        if turn["gap_ms"] is None:
            continue
        internal = turn["internal"]
        tools = "with_tools" if internal.get("tool_calls") else "without_tools" if internal else "unknown"
        names = [tools, *(["first_turn"] if first[turn["call"]] == number else [])]
        if internal.get("speculation") is not None:
            names.append(f"speculation_{internal['speculation']}")
        for name in names:
            kinds.setdefault(name, []).append(turn["gap_ms"])
    internal_gaps = [turn["internal_gap_ms"] for turn in measured if turn["internal_gap_ms"] is not None]
    return {
        "n": len(turns),
        "gaps_measured": len(gaps),
        **{f"gap_p{percent}_ms": _percentile(gaps, percent) for percent in (50, 90, 95, 99)},
        "gaps_by_kind": {name: {"n": len(of), "p50_ms": _percentile(of, 50)} for name, of in sorted(kinds.items())},
        "internal_gap_p50_ms": _percentile(internal_gaps, 50),
        "missed": sum(turn["missed"] for turn in turns),
        "takeovers": sum(turn["takeover"] for turn in turns),
        "pauses": sum(turn["pauses"] for turn in turns),
        "pause_takeovers": sum(turn["pause_takeovers"] for turn in turns),
        "restarts": sum(turn["restarts"] for turn in turns),
    }


def oddities(
    turns: Sequence[Mapping[str, Any]], audio: Mapping[str, Any], logs: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Say in words what doesn't sound right or casts doubt on a figure."""
    notes = []
    for name, levels in audio.items():
        rms = levels["speech_rms_dbfs"]
        if rms is None:
            notes.append(f"the {name}'s channel has no speech")
        elif not QUIET_DBFS <= rms <= LOUD_DBFS:
            notes.append(f"the {name}'s speech is at {rms:.0f} dBFS (expected {QUIET_DBFS:.0f} to {LOUD_DBFS:.0f})")
        if levels["clipped_samples"]:
            notes.append(f"the {name}'s channel has {levels['clipped_samples']} clipped samples")
    for number, turn in enumerate(turns, start=1):
        reply = turn["reply"]
        if reply and reply["holes"] and logs[turn["call"] - 1].get("server_underruns") != 0:
            # Where the server's playout never ran dry, what breaks off and resumes is a consonant.
            longest = max(hole["duration_ms"] for hole in reply["holes"])
            notes.append(f"turn {number}: {len(reply['holes'])} holes in the reply, the longest {longest:.0f} ms")
        if reply and reply["longest_pause_ms"] > LONG_PAUSE_MS:
            notes.append(f"turn {number}: the reply pauses for {reply['longest_pause_ms']} ms")
        if turn["restarts"]:
            notes.append(f"turn {number}: the agent broke off a reply and began anew; the gap is the first one's")
        error = turn["internal"].get("caller_end_error_ms")
        if error is not None and abs(error) > 50:
            notes.append(f"turn {number}: the server puts the caller's end {error:+.0f} ms from the recording's")
    for number, log in enumerate(logs, start=1):
        if log["error"]:
            notes.append(f"call {number}: {log['error']}")
        if log["unfinished"]:
            notes.append(f"call {number}: gave up on {', '.join(log['unfinished'])}")
        if log["pacing_late_ms"].get("p99", 0.0) > 10:
            notes.append(
                f"call {number}: the caller's own frames left late (p99 {log['pacing_late_ms']['p99']:.0f} ms)"
            )
        if log.get("server_underruns"):
            notes.append(f"call {number}: the server's playout ran dry for {log['server_underruns']} frames of 20 ms")
        if log["playout"].get("underruns"):
            notes.append(
                f"call {number}: {len(log['playout']['underruns'])} frames of the agent came too late to be heard"
            )
    return notes


def table(turns: Sequence[Mapping[str, Any]]) -> str:
    """Lay the turns out for a terminal; columns after `gap` are the server's own, in ms after the caller's end."""
    titles = ("gap", "intern", "vad", "final", "decide", "token", "tts", "packet")
    header = "    " + " ".join(f"{title:>{7 if title == 'intern' else 6}}" for title in titles) + "  said"
    lines = [header]
    for number, turn in enumerate(turns, start=1):
        internal = turn["internal"]
        gap = "missed" if turn["missed"] else "took" if turn["takeover"] else f"{turn['gap_ms']:.0f}"
        figures = [turn["internal_gap_ms"], *(internal.get(key) for key in _COLUMNS)]
        cells = " ".join(
            f"{'-' if f is None else format(f, '.0f'):>{7 if i == 0 else 6}}" for i, f in enumerate(figures)
        )
        lines.append(f"{number:>3} {gap:>6} {cells}  {turn['caller']}")
        lines.append(f"{'':>57}> {turn['agent']}")
        if turn["takeover"]:
            lines.append(f"{'':>57}! the agent began {-turn['takeover_at_ms']:.0f} ms before the caller's end")
    return "\n".join(lines)


_COLUMNS = ("vad_end", "final", "decision", "llm_first_token", "tts_first_chunk", "first_packet")


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return round(float(np.percentile(values, percent)), 1) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
