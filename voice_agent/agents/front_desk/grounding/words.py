"""Sets of words, and whether an utterance begins as a question."""

from __future__ import annotations

from collections.abc import Sequence


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


# What may stand before the first word that matters.
_LEAD = word_set(
    """
    so okay yeah yes yep no well oh like and but right sorry hi hello hey hiya there good great nice lovely
    perfect cool listen also um uh hm just evening morning afternoon day see got thanks wait actually thank all
    bother greetings to know
    """
)
_AFTER_LEAD = {"it": "got", "see": "i", "you": "thank"}
_ASKS = word_set(
    """
    do does did is isn't are aren't can can't could couldn't would will won't what what's whats when when's
    where where's how how's who who's why which has have had shall should any am
    """
)


def is_question(words: Sequence[str]) -> bool:
    """Whether the words begin as a question, greetings and acknowledgements apart."""
    before = ""
    for at, word in enumerate(words):
        lead = word in _LEAD or _AFTER_LEAD.get(word) == before or list(words[at : at + 2]) == ["i", "see"]
        if not lead:
            return word in _ASKS
        before = word
    return False
