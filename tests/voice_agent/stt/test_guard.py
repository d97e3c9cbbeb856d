import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.stt.guard import GuardOptions, Heard, guard

SPEECH, SILENCE = 0.05, 0.9


@pytest.mark.parametrize(
    "text",
    [
        "Thank you for watching!",
        "I'd like to book a table.",
        "you",
        "Thank you.",
        "Subtitles by the Amara.org community",
    ],
)
def test_nothing_survives_where_there_was_no_speech(text: str) -> None:
    assert guard(Heard(text, SILENCE)) == ""


@pytest.mark.parametrize("text", ["", "...", " . ", "♪♪♪", "?!", "-"])
def test_text_without_letters_or_digits_is_dropped(text: str) -> None:
    assert guard(Heard(text, SPEECH)) == ""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("A table for two, please. Thank you for watching.", "A table for two, please."),
        ("A table for two, please. Thanks for watching! Don't forget to subscribe.", "A table for two, please."),
        ("Please like and subscribe. Do you have parking?", "Do you have parking?"),
        ("Thank you for watching.", ""),
    ],
)
def test_captions_of_videos_are_dropped_wherever_they_are(text: str, kept: str) -> None:
    assert guard(Heard(text, SPEECH)) == kept


@pytest.mark.parametrize(
    "text", ["Thank you.", "Thanks.", "Thank you very much, goodbye.", "No.", "You", "No, thank you. Bye."]
)
def test_a_real_thank_you_survives(text: str) -> None:
    assert guard(Heard(text, SPEECH)) == text


def test_a_thank_you_that_the_recogniser_doubts_is_dropped_but_a_doubtful_sentence_is_kept() -> None:
    assert guard(Heard("Thank you.", 0.4)) == ""
    assert guard(Heard("A table for two.", 0.4)) == "A table for two."


def test_a_thank_you_in_the_silence_after_a_sentence_is_dropped() -> None:
    text = "What time do you close? Thank you."
    starts = (100, 300, 450, 550, 700, 2400, 2600)
    ghost = Heard(text, SPEECH, speech_end_ms=1200, words=tuple(map(float, starts)))
    assert guard(ghost) == "What time do you close?"


def test_a_thank_you_that_was_spoken_after_a_sentence_is_kept() -> None:
    text = "What time do you close? Thank you."
    starts = (100, 300, 450, 550, 700, 1100, 1250)
    assert guard(Heard(text, SPEECH, speech_end_ms=1600, words=tuple(map(float, starts)))) == text
    assert guard(Heard(text, SPEECH, speech_end_ms=1200)) == text  # without word times nothing is proved


def test_loops_are_collapsed_and_a_real_no_no_no_is_kept() -> None:
    assert guard(Heard("I want to I want to I want to I want to I want to", SPEECH)) == "I want to"
    assert guard(Heard("No, no, no!", SPEECH)) == "No, no, no!"


@given(st.text(max_size=80), st.floats(0, 1))
def test_the_guard_adds_nothing(text: str, no_speech_prob: float) -> None:
    kept = guard(Heard(text, no_speech_prob))
    words = iter(text.split())
    assert all(word in words for word in kept.split())


def test_a_time_with_a_full_stop_stays_one_word() -> None:
    assert guard(Heard("Tomorrow at 7.30. Thank you for watching.", SPEECH)) == "Tomorrow at 7.30."


def test_contradicting_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="doubtful"):
        GuardOptions(no_speech=0.2, doubtful_no_speech=0.5)
