"""Drafts for nothing: what followed the same words elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

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
