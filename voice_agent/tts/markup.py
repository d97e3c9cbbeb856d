"""Markdown, emoji and typography taken off a text, with every remaining character's place in the original. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class PlainText:
    """Text without markup.

    Attributes:
        text: What is left.
        origin: For every character of `text`, its index in the original; never decreasing.
    """

    text: str
    origin: list[int]


_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TABLE_RULE = re.compile(r"(?m)^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)*\|?[ \t]*$")
_REMOVED = [
    _FENCE,
    _TABLE_RULE,
    re.compile(r"(?m)^[ \t]{0,3}(?:[-*_][ \t]*){3,}$"),  # thematic break
    re.compile(r"(?m)^[ \t]{0,3}#{1,6}[ \t]+"),  # heading
    re.compile(r"(?m)^[ \t]*>[ \t]?"),  # quotation
    re.compile(r"(?m)^[ \t]*[-*+•][ \t]+(?:\[[ xX]\][ \t]+)?"),  # list item
    re.compile(r"!?\[(?=[^\]\n]*\]\()"),  # a link's opening bracket ...
    re.compile(r"(?<=\S)\]\([^)\s]*(?:[ \t]+\"[^\"]*\")?\)"),  # ... and its address
    re.compile(r"</?[a-zA-Z][^<>\n]*>"),  # HTML
    re.compile(r"\*+(?=\S)|(?<=\S)\*+|~~|`+"),  # bold, italic, struck, code
    re.compile(r"(?<![\w@.])_{1,2}(?=\w)|(?<=[\w.!?,])_{1,2}(?![\w@.])"),  # italic
]
_REPLACED = {
    "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "…": ".", "‑": "-", "−": "-",
    "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\t": " ",
}  # fmt: skip
_PICTURE_CATEGORIES = frozenset({"So", "Sk", "Cs", "Co", "Cn", "Cf", "Cc"})
_KEPT_SYMBOLS = frozenset("°^\n")
_JOINERS = frozenset("\u200d\ufe0f\u20e3")
"""Parts of composed emoji that aren't symbols themselves."""


def strip_markup(text: str) -> PlainText:
    """Remove what isn't spoken: Markdown, HTML tags, code blocks, emoji; a line's end becomes a sentence's end.

    Works on whole texts and on pieces of one: a marker without its partner goes too.
    """
    keep = [True] * len(text)
    for pattern in _REMOVED:
        for match in pattern.finditer(text):
            for index in range(match.start(), match.end()):
                keep[index] = keep[index] and text[index] == "\n" and pattern is not _FENCE
    out: list[str] = []
    origin: list[int] = []

    def add(characters: str, index: int) -> None:
        out.extend(characters)
        origin.extend([index] * len(characters))

    for index, character in enumerate(text):
        if not keep[index]:
            continue
        if character == "\n":
            add(_line_end(out), index)
        elif character == "|":
            last = next((c for c in reversed(out) if not c.isspace()), "")
            add(", " if last not in ("", ",", ".", "\n") else " ", index)
        elif character in ("—", "–") and not _between_digits(text, index):
            add(", " if (out and out[-1] == " ") or character == "—" else "-", index)
        elif character in _REPLACED:
            add(_REPLACED[character], index)
        elif character in _JOINERS or (
            unicodedata.category(character) in _PICTURE_CATEGORIES and character not in _KEPT_SYMBOLS
        ):
            continue
        else:
            add("-" if character == "–" else character, index)
    return PlainText("".join(out), origin)


def _line_end(out: list[str]) -> str:
    """What a line break is read as: the end of a sentence, if there is one to end."""
    last = next((character for character in reversed(out) if not character.isspace()), "")
    return " " if not last or last in ".!?:;," else ". "


def _between_digits(text: str, index: int) -> bool:
    before, after = text[:index].rstrip()[-1:], text[index + 1 :].lstrip()[:1]
    return before.isdigit() and (after.isdigit() or after in "$€£")
