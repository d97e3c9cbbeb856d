"""Drafts for nothing: what followed the same words elsewhere; and how much of a draft may be said."""

from __future__ import annotations

from collections.abc import Collection, Sequence

GRAMS = (3, 2)
"""Lengths of the match, the longer tried first."""


def continuation(text: Sequence[int], source: Sequence[int], longest: int) -> list[int]:
    """What follows the end of a text where it occurs in a source, the last such place.

    Args:
        text: token ids.
        source: token ids; may be the text itself.
        longest: tokens at most.

    Returns:
        Token ids, empty where the last two tokens don't occur or nothing follows them.
    """
    for gram in GRAMS:
        if len(text) < gram:
            continue
        tail = list(text[-gram:])
        for at in range(len(source) - gram - 1, -1, -1):
            if source[at] == tail[0] and list(source[at : at + gram]) == tail:
                return list(source[at + gram : at + gram + longest])
    return []


def sayable(draft: Sequence[int], suppressed: Collection[int], ends: Collection[int]) -> list[int]:
    """A draft up to its end token, or before the first token that may not be said."""
    said: list[int] = []
    for token in draft:
        if token in suppressed:
            break
        said.append(token)
        if token in ends:
            break
    return said
