"""The replay of utterances through detector, recogniser and floor on a simulated clock."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from voice_agent.bench import floor
from voice_agent.bench.render import as_received
from voice_agent.bench.replay import RATE_HZ, Replayed, replay
from voice_agent.bench.simulated_recognizer import CachedWhisper, SimulatedRecognizer
from voice_agent.speech.errors import PassDroppedError
from voice_agent.speech.protocol import PassKind, Transcript
from voice_agent.turn_taking import SilenceFloor


def transcript(text: str) -> Transcript:
    return Transcript(
        id="t",
        text=text,
        segments=[],
        words=[],
        no_speech_prob=0.0,
        avg_logprob=-0.2,
        audio_ms=0.0,
        queue_ms=0.0,
        compute_ms=0.0,
    )


@pytest.fixture(scope="module")
def whisper() -> CachedWhisper:
    return CachedWhisper(None)


async def replayed(say: str, voice: str, pause_s: float, after: str, whisper: CachedWhisper) -> Replayed:
    case = floor.Case("scripted", after, say, voice, pause_s)
    spoken = floor.audio_of(case, Path("unused"), flite=False)
    assert spoken is not None, "the recording is packaged"
    return await replay(as_received(spoken, floor.TAIL_S), SilenceFloor(), whisper, asked=after)


@pytest.mark.parametrize(
    ("say", "voice", "pause_s", "after", "first", "last"),
    [
        ("At seven thirty [0.5] in the evening.", "slt", 0.6, "What time would you like?", "at 7", "in the evening."),
        (
            "I would like to book a table, [0.6] for four people.",
            "slt",
            0.6,
            "Anything else?",
            "I would like",
            "people.",
        ),
        ("The name is [0.5] Peter Johnson.", "rms", 0.5, "What name is it under?", "The name", "Peter Johnson."),
    ],
)
async def test_a_pause_within_a_turn_is_waited_for_and_every_word_is_answered(
    say: str, voice: str, pause_s: float, after: str, first: str, last: str, whisper: CachedWhisper
) -> None:
    done = await replayed(say, voice, pause_s, after, whisper)
    ((at, text),) = done.commits
    assert text.startswith(first)
    assert text.endswith(last)
    assert at > done.end
    assert [heard > done.end for heard in done.audible] == [True]


async def test_a_pause_longer_than_any_hold_is_counted_as_a_takeover(whisper: CachedWhisper) -> None:
    say = "At seven thirty [0.5] in the evening."
    case = floor.Case("scripted", "", say, "slt", 1.5)
    spoken = floor.audio_of(case, Path("unused"), flite=False)
    assert spoken is not None
    row, decisions = await floor.run_case(case, spoken, whisper, floor.Timing())
    assert row.takeovers == 1
    assert row.hold_ms is not None
    assert row.hold_ms > 0
    assert sum("Commit" in name for entry in decisions for name in entry["decisions"]) == 2


def test_the_longest_silence_gets_the_wanted_length() -> None:
    tone = np.full(RATE_HZ, 0.3, dtype=np.float32)
    spoken = np.concatenate((tone, np.zeros(800, np.float32), tone, np.zeros(8000, np.float32), tone))
    longer = floor.with_pause(spoken, 0.7)
    assert longer.size == spoken.size - 8000 + round(0.7 * RATE_HZ)
    assert np.count_nonzero(longer) == np.count_nonzero(spoken)


async def test_passes_take_their_time_and_partials_make_room() -> None:
    recognizer = SimulatedRecognizer(lambda pcm, word_times: transcript(pcm.decode()), 0.1)

    def ask(name: str, kind: PassKind) -> asyncio.Task[Transcript]:
        return asyncio.create_task(recognizer.transcribe(name.encode(), stream="s", kind=kind))

    running = ask("running", PassKind.PARTIAL)
    await asyncio.sleep(0)
    recognizer.advance(0.02)
    queued, final = ask("queued", PassKind.PARTIAL), None
    await asyncio.sleep(0)
    final = ask("final", PassKind.FINAL)
    await asyncio.sleep(0)
    for now in (0.09, 0.11):
        recognizer.advance(now)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert running.done() == (now > 0.1)
    with pytest.raises(PassDroppedError):
        await queued
    recognizer.advance(0.19)
    assert not final.done()
    recognizer.advance(0.21)
    assert (await final).text == "final"


def test_transcripts_are_kept_and_found_again(tmp_path: Path) -> None:
    pcm = bytes(2 * RATE_HZ)
    first = CachedWhisper(tmp_path)(pcm, False)
    (kept,) = tmp_path.iterdir()
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "text": "from the folder"}))
    assert CachedWhisper(tmp_path)(pcm, False) == first.model_copy(update={"text": "from the folder"})


def test_all_cases_are_well_formed_and_the_scripted_ones_need_no_synthesizer() -> None:
    cases = floor.load_cases(floor.PAUSES_S)
    assert all(case.after and case.say for case in cases)
    scripted = [case for case in cases if case.group == "scripted"]
    assert all(floor.audio_of(case, Path("unused"), flite=False) is not None for case in scripted)
    assert {case.pause_s for case in scripted} == {None, *floor.PAUSES_S}
