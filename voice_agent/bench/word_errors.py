"""Word errors of a transcript, numbers compared as they are spoken ("7:30" is "seven thirty")."""

from __future__ import annotations

from voice_agent.tts.normalise import spoken_text


def word_errors(reference: str, heard: str) -> tuple[int, int]:
    """The fewest insertions, deletions and substitutions that make one text of the other, and the reference's words."""
    expected, found = _words(reference), _words(heard)
    previous = list(range(len(found) + 1))
    for row, word in enumerate(expected, 1):
        current = [row]
        for column, other in enumerate(found, 1):
            change = previous[column - 1] + (word != other)
            current.append(min(change, previous[column] + 1, current[-1] + 1))
        previous = current
    return previous[-1], len(expected)


def _words(text: str) -> list[str]:
    kept = (c if c.isalnum() or c == "'" else " " for c in spoken_text(text).lower())
    return "".join(kept).split()
