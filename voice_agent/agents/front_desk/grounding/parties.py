"""Party sizes in a list of words: "a table for four", "me and my wife", "two adults and a baby", "just us two"."""

from __future__ import annotations

from collections.abc import Sequence

from voice_agent.agents.front_desk.grounding import numbers
from voice_agent.agents.front_desk.grounding.words import word_set

_PEOPLE = word_set(
    """
    people persons person guests guest adults adult pax diners diner covers seats kids kid children child heads
    folks friends colleagues babies toddlers teenagers grown ups
    """
)
_RELATION = word_set(
    """
    wife husband partner girlfriend boyfriend friend mum mom dad mother father son daughter boss sister brother
    colleague fiance fiancee date grandmother grandfather gran kid child baby toddler neighbour neighbor cousin
    """
)
_SELF = word_set("me i myself")
_BEFORE_SIZE = (
    ("party", "of"),
    ("family", "of"),
    ("we'd", "be"),
    ("we", "would", "be"),
    ("for", "us"),
    ("group", "of"),
    ("table", "of"),
    ("total", "of"),
    ("we're",),
    ("were",),
    ("we", "are"),
    ("we'll", "be"),
    ("we", "will", "be"),
    ("it's", "for"),
    ("there's",),
    ("there", "are"),
    ("there", "will", "be"),
    ("there'll", "be"),
    ("there'd", "be"),
    ("it'll", "be"),
    ("it", "will", "be"),
    ("us", "to"),
    ("seat",),
    ("seats", "for"),
    ("people", "to"),
)
_ONE_OF_US_IS = word_set("is has can't cannot doesn't eats needs uses will might wants would")
_TO_ME = (["tell"], ["give"], ["ask"], ["let"], ["help"])
_AFTER_SIZE = (
    ("of", "us"),
    ("in", "total"),
    ("altogether",),
    ("all", "together"),
    ("in", "all"),
    ("top",),
    ("seater",),
)


def _count(words: Sequence[str], at: int) -> tuple[int, int] | None:
    """A count of people: a number, "a couple", "half a dozen", "nobody"."""
    for phrase, value in (
        (("a", "couple"), 2),
        (("half", "a", "dozen"), 6),
        (("a", "dozen"), 12),
        (("no", "one"), 0),
        (("nobody",), 0),
    ):
        if tuple(words[at : at + len(phrase)]) == phrase:
            return value, len(phrase)
    return numbers.cardinal(words, at)


def _unit(words: Sequence[str], at: int) -> tuple[int, int] | None:
    """One member of an enumeration of people: "me", "my wife", "two kids", "our three children", "a friend"."""
    if at >= len(words):
        return None
    if words[at] in _SELF:
        return 1, 1
    if words[at] in ("my", "our", "a", "the", "one", "his", "her"):
        if at + 1 < len(words) and words[at + 1] in _RELATION:
            return 1, 2
        count = numbers.cardinal(words, at + 1) if words[at] in ("my", "our", "the") else None
        at_people = at + 1 + count[1] if count else 0
        if count and at_people < len(words) and words[at_people] in _PEOPLE:
            return count[0], at_people + 1 - at
        if words[at] != "one":
            return None
    count = numbers.cardinal(words, at)
    if not count:
        return None
    i = at + count[1]
    i += i < len(words) and words[i] in ("small", "little", "young", "other")
    if i < len(words) and words[i] in _PEOPLE:
        return count[0], i + 1 - at
    return None


def _enumeration(words: Sequence[str], at: int) -> tuple[int, int] | None:
    """A sum of people: "me and my wife", "two adults and two kids"."""
    total, parts, i, others = 0, 0, at, False
    while True:
        unit = _unit(words, i)
        if unit is None:
            break
        others = others or words[i] not in _SELF
        total, parts, i = total + unit[0], parts + 1, i + unit[1]
        end = i
        i += i < len(words) and words[i] in ("and", "plus", "with")
    if parts >= 2 and others:
        return total, end - at
    return None


def party(words: Sequence[str], at: int, *, expects: str, known: bool) -> tuple[int, int] | None:
    """A party size that begins at `at`, as (people, words taken), or None.

    `known`: a size was understood in this utterance already, so a second "for eight" is rather a time.
    """
    found = _enumeration(words, at)
    if found and words[max(0, at - 1) : at] not in _TO_ME:  # "tell me my son is vegan"
        return found
    before = tuple(words[max(0, at - 3) : at])
    if words[at] == "myself" and before[-1:] == ("by",):
        return 1, 1
    if words[at] in ("me", "myself") and (
        before[-1:] in (("just",), ("only",), ("it's",)) or before[-2:] in (("just", "for"), ("table", "for"))
    ):
        return 1, 1
    if tuple(words[at : at + 4]) == ("on", "my", "own") or tuple(words[at : at + 3]) == ("on", "my", "own"):
        return 1, 3
    count = _count(words, at)
    if count is None:
        return None
    value, taken = count
    one_of_us = tuple(words[at + 1 : at + 3]) == ("of", "us") and words[at + 3 : at + 4]
    one_guest = words[at + 1 : at + 2] in (["guest"], ["person"]) and words[at + 2 : at + 3]
    if value == 1 and _ONE_OF_US_IS & set(one_of_us or one_guest or ()):
        return None  # "one of us is vegan"
    rest = tuple(words[at + taken : at + taken + 2])
    if (rest[:1] and rest[0] in _PEOPLE | {"more"}) or any(rest[: len(a)] == a for a in _AFTER_SIZE):
        return value, taken + 1
    if any(before[-len(b) :] == b for b in _BEFORE_SIZE) or before[-2:] in (("just", "us"), ("only", "us")):
        return value, taken
    if before[-2:] in (("make", "it"), ("make", "that"), ("made", "it"), ("be", "just"), ("us", "just")):
        return (value, taken) if expects != "time" else None
    if before[-2:] == ("the", "just") or before[-3:] == ("just", "the") or before[-1:] == ("just",):
        return (value, taken) if expects in ("party", "yesno") else None
    if before[-1:] == ("for",) and not known and expects != "time":
        return value, taken
    if before[-2:] == ("table", "for") or before[-2:] == ("reservation", "for"):
        return value, taken
    return (value, taken) if expects == "party" else None
