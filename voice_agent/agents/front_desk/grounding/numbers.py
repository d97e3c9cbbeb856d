"""Number words, read from a list of words: cardinals, ordinals and booking numbers."""

from __future__ import annotations

from collections.abc import Sequence

from voice_agent.agents.front_desk import speech

CARDINALS = {speech.cardinal(n): n for n in range(100) if " " not in speech.cardinal(n)}
ORDINALS = {speech.ordinal(n): n for n in range(1, 32) if " " not in speech.ordinal(n)}
_DIGITS = {word: str(n) for n, word in enumerate(speech.DIGITS)} | {"oh": "0", "o": "0", "nought": "0", "naught": "0"}
# What a recogniser makes of a digit said between digits.
_HOMOPHONES = {"to": "2", "too": "2", "for": "4", "won": "1", "ate": "8", "tree": "3", "sex": "6"}
_REPEATS = {"double": 2, "triple": 3, "treble": 3}
BOOKING_DIGITS = 4


def cardinal(words: Sequence[str], at: int) -> tuple[int, int] | None:
    """A number 0..99 that begins at `at`, as (value, words taken)."""
    if at >= len(words) or words[at] not in CARDINALS:
        return None
    value = CARDINALS[words[at]]
    if value >= 20 and value % 10 == 0 and at + 1 < len(words):
        unit = CARDINALS.get(words[at + 1], 0)
        if 1 <= unit <= 9:
            return value + unit, 2
    return value, 1


def ordinal(words: Sequence[str], at: int) -> tuple[int, int] | None:
    """A day of the month as an ordinal, 1..31, that begins at `at`, as (value, words taken)."""
    if at >= len(words):
        return None
    if words[at] in ("twenty", "thirty") and at + 1 < len(words):
        value = CARDINALS[words[at]] + ORDINALS.get(words[at + 1], 99)
        if value <= 31:
            return value, 2
    value = ORDINALS.get(words[at], 0)
    return (value, 1) if value else None


def is_digit(word: str) -> bool:
    """Whether a word is one digit of a spoken number; "oh" is as often an interjection."""
    return word in _DIGITS and word not in ("oh", "o")


def booking_number(words: Sequence[str], at: int, *, expected: bool) -> tuple[str, int] | None:
    """Four digits that begin at `at`, as (digits, words taken): "four two seven one", "double two", "oh".

    When a number is `expected`, pairs ("forty two seventy one") and the homophones to and for count too. A longer run
    is some other number (a telephone's), a shorter one is a part: neither is a booking number.
    """
    digits, i = "", at
    while i < len(words):
        word = words[i]
        if len(digits) >= BOOKING_DIGITS and word not in _DIGITS:
            break
        following = _DIGITS.get(words[i + 1]) if i + 1 < len(words) else None
        if word in _DIGITS:
            digits += _DIGITS[word]
        elif word in _REPEATS and following is not None:
            digits += following * _REPEATS[word]
            i += 1
        elif (
            expected and digits and word in _HOMOPHONES and (following is not None or len(digits) == BOOKING_DIGITS - 1)
        ):
            digits += _HOMOPHONES[word]
        elif expected and (pair := cardinal(words, i)) and pair[0] >= 10:
            digits += str(pair[0])
            i += pair[1] - 1
        else:
            break
        i += 1
    if len(digits) == BOOKING_DIGITS and digits[0] != "0":
        return digits, i - at
    return None
