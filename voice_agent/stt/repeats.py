"""Repetition in a transcript: what a decoder does when it loops, told from what people say. Pure."""

from __future__ import annotations

import re

_NOT_WORD = re.compile(r"[^\w']+")
_MIN_REPEATED_WORDS = 3
"""Shorter phrases are said twice by people ("no, no", "yes please, yes please")."""
_MAX_PHRASE_WORDS = 12
_LOOP_TIMES = 4
"""A phrase of two words and more comes this often in a row only in a decoder's loop; people stop at three."""
_LOOP_TIMES_ONE_WORD = 6


def normalise_word(word: str) -> str:
    """A word without case and punctuation."""
    return _NOT_WORD.sub("", word).lower()


def drop_prefix_repeat(text: str) -> str:
    """Remove the second half of a text that says its first half twice.

    Whisper in a short window starts over when it has reached the end of the speech: "Can I book a table? Can I book".
    The first half must have three words at least, so that "yes please, yes please" stays; a repeat that breaks off
    counts where it follows a sentence's end and covers more than half of it.
    """
    words = text.split()
    keys = [normalise_word(word) for word in words]
    for start in range(_MIN_REPEATED_WORDS, len(words)):
        tail = keys[start:]
        if tail != keys[: len(tail)]:
            continue
        broken_off = words[start - 1][-1] in ".?!" and words[-1][-1] not in ".?!" and 2 * len(tail) > start
        if len(tail) >= start or broken_off:
            return " ".join(words[:start])
    return text


def collapse_loops(text: str) -> str:
    """Reduce a phrase that is repeated far more often than anyone says it to one occurrence.

    "no no no" and "bye bye bye" stay; "I'm going to I'm going to I'm going to I'm going to" becomes
    "I'm going to". What follows the loop is kept.
    """
    words = text.split()
    position = 0
    out: list[str] = []
    while position < len(words):
        size, times = _loop_at(words, position)
        if times:
            out.extend(words[position : position + size])
            position += size * times
            position += _broken_off(words, position, size)
        else:
            out.append(words[position])
            position += 1
    return " ".join(out)


def _loop_at(words: list[str], position: int) -> tuple[int, int]:
    """Length and number of repeats of a loop that begins at `position`; (0, 0) for none."""
    keys = [normalise_word(word) for word in words[position:]]
    for size in range(1, min(_MAX_PHRASE_WORDS, len(keys) // 2) + 1):
        phrase = keys[:size]
        times = 1
        while keys[times * size : (times + 1) * size] == phrase:
            times += 1
        if times >= (_LOOP_TIMES_ONE_WORD if size == 1 else _LOOP_TIMES):
            return size, times
    return 0, 0


def _broken_off(words: list[str], position: int, size: int) -> int:
    """Words of a last, unfinished round of the loop, at the very end of the text."""
    rest = [normalise_word(word) for word in words[position:]]
    phrase = [normalise_word(word) for word in words[position - size : position]]
    return len(rest) if 0 < len(rest) < size and rest == phrase[: len(rest)] else 0
