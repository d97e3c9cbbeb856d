"""The bookkeeping of the caller's words."""

from __future__ import annotations

import pytest

from voice_agent.turn_taking.transcript import TurnTranscript


def committed(text: str, *, final: bool) -> TurnTranscript:
    transcript = TurnTranscript()
    transcript.hear(text, final=final)
    transcript.commit()
    return transcript


def test_texts_of_a_stretch_replace_one_another_and_stretches_follow_one_another() -> None:
    transcript = TurnTranscript()
    for text, final in (("At seven", False), ("at 730.", True), ("from far", False), ("for 4 people.", True)):
        transcript.hear(text, final=final)
    assert transcript.text == "at 730. for 4 people."


def test_a_reopened_turn_stands_before_what_came_since() -> None:
    transcript = committed("at 730.", final=True)
    transcript.hear("in the evening.", final=True)
    assert transcript.text == "in the evening."
    assert transcript.reopen()
    assert transcript.text == "at 730. in the evening."


def test_a_turn_that_was_answered_does_not_come_back() -> None:
    transcript = committed("at 730.", final=True)
    transcript.settle()
    transcript.hear("in the evening.", final=True)
    assert not transcript.reopen()
    assert transcript.text == "in the evening."


@pytest.mark.parametrize("final", ["at 7.30.", "At 730", "at"])
def test_the_same_audio_written_in_another_way_is_nothing_new(final: str) -> None:
    transcript = committed("at 7 30.", final=False)
    transcript.hear(final, final=True)
    assert transcript.text == ""


@pytest.mark.parametrize("final", ["at 730 in the evening.", "At 7.30 in the evening."])
def test_of_a_stretch_that_was_committed_early_only_the_rest_is_new(final: str) -> None:
    transcript = committed("at 7 30.", final=False)
    transcript.hear(final, final=True)
    assert transcript.text == "in the evening."


def test_another_text_altogether_is_new_as_a_whole() -> None:
    transcript = committed("from far", final=False)
    transcript.hear("we will be three, and a child", final=True)
    assert transcript.text == "we will be three, and a child"


def test_listening_noise_is_dropped_with_what_is_still_written_of_it() -> None:
    transcript = TurnTranscript()
    transcript.hear("yeah", final=False)
    transcript.release()
    transcript.hear("Yeah, okay.", final=True)
    assert transcript.text == ""
    transcript.hear("stop", final=True)
    assert transcript.text == "stop"


def test_a_noise_after_an_early_commit_costs_none_of_its_words() -> None:
    transcript = committed("for four people", final=False)
    transcript.release()
    transcript.hear("For four people. Okay.", final=True)
    assert transcript.reopen()
    assert transcript.text == "For four people. Okay."
