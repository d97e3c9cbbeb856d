import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from piper.phoneme_ids import DEFAULT_PHONEME_ID_MAP

from voice_agent.tts.phonemes import _BAND, _NOT_A_SOUND, Phonemizer, _pair, assign_words, sound_groups


@pytest.fixture(scope="module")
def phonemizer() -> Phonemizer:
    return Phonemizer("en-us", DEFAULT_PHONEME_ID_MAP)


def words_to_sounds(phonemizer: Phonemizer, text: str) -> list[str]:
    words = text.split()
    phonemes = phonemizer.phonemes(text)
    alone = ["".join(phonemizer.phonemes(word)) for word in words]
    alone = ["".join(c for c in word if c.isalpha() or c == "ː") for word in alone]
    return ["".join(phonemes[a:b]) for a, b in assign_words(phonemes, alone)]


def test_groups_are_what_lies_between_spaces_and_marks() -> None:
    assert sound_groups(list("jˈɛs, ʌv.")) == [(0, 4), (6, 8)]


def test_one_group_a_word(phonemizer: Phonemizer) -> None:
    assert words_to_sounds(phonemizer, "Your table is booked.") == ["jʊɹ", "tˈeɪbəl", "ɪz", "bˈʊkt"]


def test_joined_function_words_are_told_apart(phonemizer: Phonemizer) -> None:
    assert "ɪnðə" in "".join(phonemizer.phonemes("eleven in the morning"))  # espeak makes one of two
    sounds = words_to_sounds(phonemizer, "eleven in the morning")
    assert sounds[0].startswith("ᵻl")
    assert sounds[1:] == ["ɪn", "ðə", "mˈɔːɹnɪŋ"]


def test_a_word_of_two_groups_keeps_both(phonemizer: Phonemizer) -> None:
    sounds = words_to_sounds(phonemizer, "at seven PM tonight")
    assert "ɛm" in sounds[2]
    assert sounds[3].startswith("t")


@pytest.mark.parametrize(
    "text",
    [
        "One of the best in the city of Boston, as of the time of this call.",
        "It is on the left of the door, in the back of the room.",
        "Hello! How can I help you?",
        "the name is Smith. Thank you. Goodbye.",
        "forty nine dollars and ninety five cents",
        "B Y O B on Mondays",
    ],
)
def test_every_word_gets_sounds_in_order(phonemizer: Phonemizer, text: str) -> None:
    utterance = phonemizer.utterance(text.split())
    previous = 0
    for first, last in utterance.word_ids:
        assert previous <= first < last <= len(utterance.ids)
        previous = last


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["of", "the", "in", "a", "to", "I", "table", "Smith", "seven", ".", "--", "PM", "zzz", "7", "don't", "x"]
        ),
        max_size=12,
    )
)
def test_any_words_get_ordered_ranges(words: list[str]) -> None:
    utterance = Phonemizer("en-us", DEFAULT_PHONEME_ID_MAP).utterance(words)
    assert len(utterance.word_ids) == len(words)
    ranges = [span for span in utterance.word_ids if span[1] > span[0]]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))
    assert all(0 <= first <= last <= len(utterance.ids) for first, last in utterance.word_ids)


def test_the_band_costs_no_pairing(phonemizer: Phonemizer) -> None:
    """Looking near the diagonal only, which keeps long utterances quick, finds what looking everywhere does."""
    golden = (Path(__file__).parents[2] / "data" / "normalise_golden.tsv").read_text().splitlines()
    for spoken in (line.split("\t")[1] for line in golden if "\t" in line):
        words = spoken.split()
        phonemes = phonemizer.phonemes(spoken)
        alone = [phonemizer._alone(word) for word in words]
        sounds = ["".join(p for p in phonemes[a:b] if p not in _NOT_A_SOUND) for a, b in sound_groups(phonemes)]
        assert _pair(alone, sounds, _BAND) == _pair(alone, sounds, 10_000)
