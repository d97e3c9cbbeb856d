"""What the words of a transcript say about the floor: backchannels, answers, unfinished phrases."""

from __future__ import annotations

import re

_WORD = re.compile(r"[a-z0-9']+")

FILLERS = frozenset({"uh", "um", "uhm", "umm", "er", "erm", "hm", "hmm", "mm", "emm", "ah"})

#: Said while the other goes on speaking; they claim nothing (Yngve 1970 coined "backchannel").
BACKCHANNELS = frozenset(
    {
        *FILLERS,
        *("mhm", "mmhmm", "uhhuh", "mm hmm", "uh huh", "yeah", "yep", "yes", "ok", "okay", "right", "sure", "oh"),
        *("i see", "got it", "all right", "alright", "great", "good", "fine", "perfect", "thanks", "thank you"),
        *("cool", "nice", "wow", "really", "of course", "sounds good", "oh okay", "no problem"),
    }
)

#: The same words after a yes/no question are its answer.
ANSWERS = frozenset(
    {"yes", "yeah", "yep", "ok", "okay", "right", "sure", "mhm", "uh huh", "uhhuh", "all right", "alright", "perfect"}
    | {"great", "fine", "good", "sounds good", "of course", "thank you", "thanks", "no problem"}
)

#: A phrase that ends in one of these is not over.
_DANGLING = frozenset(
    {
        *("a", "an", "the", "my", "our", "your", "his", "her", "their", "its", "this", "these", "some", "any"),
        *("for", "at", "on", "in", "to", "of", "with", "by", "from", "about", "under", "until", "till", "around"),
        *(
            "before",
            "after",
            "between",
            "and",
            "or",
            "but",
            "so",
            "because",
            "if",
            "that",
            "then",
            "than",
            "as",
            "like",
        ),
        *("is", "are", "was", "were", "be", "am", "i'm", "it's", "we're", "i", "we", "you", "he", "she", "they"),
        *("would", "could", "can", "will", "i'd", "we'd", "i'll", "we'll", "want", "need", "have"),
    }
)
#: But these are, whatever their last word is.
_SET_PHRASES = frozenset({("thank", "you"), ("see", "you"), ("like", "that"), ("about", "that"), ("than", "that")})
_DIGITS = frozenset(
    {*"0123456789", "oh", "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}
)
#: Digits dictated one by one so far that make no whole telephone number.
_PART_OF_A_NUMBER = frozenset({3, 4, 5, 6, 8, 9})


def words(text: str) -> list[str]:
    """The words of ``text``, lower case, without punctuation; hyphens join ("uh-huh" is one word)."""
    return _WORD.findall(text.lower().replace("-", "").replace("’", "'"))


def is_backchannel(text: str, *, after_question: bool) -> bool:
    """Whether ``text`` is only listening noise.

    Args:
        text: What the caller said over the agent.
        after_question: The agent had just asked something: then an answering word is an answer.
    """
    spoken = words(text)
    if not spoken:
        return True
    return _made_of(spoken, BACKCHANNELS - ANSWERS if after_question else BACKCHANNELS)


def _made_of(spoken: list[str], phrases: frozenset[str]) -> bool:
    """Whether ``spoken`` can be cut into ``phrases`` of one or two words, at most four words in all."""
    if not spoken:
        return True
    if len(spoken) > 4:
        return False
    return any(len(spoken) >= n and " ".join(spoken[:n]) in phrases and _made_of(spoken[n:], phrases) for n in (1, 2))


_CLOSING = frozenset(("please", "thanks", "goodbye", "bye"))
"""Last words of a turn, whatever dots follow them."""


def is_unfinished(text: str) -> bool:
    """Whether ``text`` breaks off: on a filler, a preposition, an article, "so", trailing dots, within a number."""
    spoken = words(text)
    if not spoken:
        return False
    if dictated_digits(text) in _PART_OF_A_NUMBER:
        return True
    if tuple(spoken[-2:]) in _SET_PHRASES or spoken[-1] in _CLOSING:
        return False  # the recogniser hangs dots on short utterances, "Tomorrow, please..." among them
    return spoken[-1] in _DANGLING | FILLERS or text.rstrip().endswith(("...", "…", ",", "-"))


def dictated_digits(text: str) -> int:
    """How many digits, spoken one by one ("five five five oh" or "555-0"), ``text`` ends in."""
    count = 0
    for token in reversed(text.lower().replace("-", " - ").split()):
        token = token.strip(".,;")
        if token in _DIGITS:
            count += 1
        elif token.isdigit() and "-" in text:
            count += len(token)
        elif token and token != "-":
            break
    return count
