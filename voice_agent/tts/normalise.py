"""Text as written to words as spoken, keeping which written words each spoken one stands for. Pure.

What was heard is told from that map, so it has to survive the rewriting. num2words counts; the rest are the rules
beside this file. (The finite-state grammars of nemo-text-processing and WeTextProcessing stand on pynini, a wheel of
166 MB; they were not tried.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from voice_agent.tts.markup import strip_markup
from voice_agent.tts.rules import readings

_TOKEN = re.compile(r"\S+")
_LEADING = re.compile(r"[\"'(\[{<*_~]+(?=[\w$€£¥#@.])")
_TRAILING = re.compile(r"[^\w\s]*")
_SPOKEN_PUNCTUATION = ".,!?;:"
_SILENT = re.compile(r"[\"()\[\]{}<>*~`^\\|#•]+")


@dataclass(frozen=True)
class SpokenUnit:
    """A piece of the text as written, and how it is spoken.

    Attributes:
        written: Exactly as in the text, the space behind it included; the units of a text, joined, are the text.
        spoken: Its words, punctuation attached; empty for what isn't spoken (markup, emoji).
    """

    written: str
    spoken: tuple[str, ...]


def normalise(text: str) -> list[SpokenUnit]:
    """Split a text into units and verbalise each: money, times, dates, numbers, units, addresses, abbreviations.

    A unit is a word, or the words of one expression ("March 3, 2026"). Markdown, code and emoji are left out of what is
    spoken and stay in what is written.
    """
    plain = strip_markup(text)
    units: list[SpokenUnit] = []
    start = 0
    pieces = list(_pieces(plain.text))
    for number, (begin, spoken) in enumerate(pieces):
        following = pieces[number + 1][0] if number + 1 < len(pieces) else None
        end = plain.origin[following] if following is not None else len(text)
        first = start if number else 0
        if number == 0 and plain.origin[begin] > 0 and not spoken:
            first = 0
        words = tuple(spoken.split())
        if len(spoken) == 1 and spoken in _SPOKEN_PUNCTUATION:  # a mark that stands alone is heard behind the last word
            words = ()
            if units and units[-1].spoken:
                units[-1] = _with_mark(units[-1], spoken)
        units.append(SpokenUnit(text[first:end], words))
        start = end
    if not units and text:
        units.append(SpokenUnit(text, ()))
    return units


def spoken_text(text: str) -> str:
    """The words of `normalise`, joined."""
    return " ".join(word for unit in normalise(text) for word in unit.spoken)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Start and spoken form of every expression or word of a plain text."""
    position = 0
    while (token := _TOKEN.search(text, position)) is not None:
        begin = token.start()
        inner = begin
        opening = ""
        if (leading := _LEADING.match(text, begin)) is not None and not _is_decade(text, begin):
            inner = leading.end()
            opening = leading.group()
        found = next(readings(text, begin), None)
        if found is None and inner > begin:
            found = next(readings(text, inner), None)
        if found is None:
            yield from _word(text, begin, token.end(), opening)
            position = token.end()
            continue
        end, spoken = found
        tail = _TRAILING.match(text, end)
        assert tail is not None
        after = tail.end()
        if after < len(text) and not text[after].isspace():  # the expression is only the beginning of the token
            after = end
        if text[end - 1] == "." and _ends_sentence(text, end) and not spoken.endswith("."):
            spoken += "."
        yield begin, spoken + _punctuation(text[end:after])
        position = after


def _word(text: str, begin: int, end: int, opening: str) -> Iterator[tuple[int, str]]:
    """A token that no rule reads: itself without signs, parts joined by a dash or slash read one by one."""
    token = text[begin:end]
    core = token[len(opening) :]
    closing = _SILENT.sub("", core)
    parts = [part for part in re.split(r"[/_\-]+(?=\w)", closing) if part]
    spoken_parts = []
    for part in parts:
        found = next(readings(part, 0), None) if part[:1].isdigit() or "/" in core else None
        if found is not None and found[0] >= len(part.rstrip(_SPOKEN_PUNCTUATION)):
            spoken_parts.append(found[1] + _punctuation(part[found[0] :]))
        else:
            spoken_parts.append(_clean(part))
    spoken = " ".join(filter(None, spoken_parts))
    if ")" in core and spoken and spoken[-1] not in _SPOKEN_PUNCTUATION:
        spoken += ","
    yield begin, spoken


def _with_mark(unit: SpokenUnit, mark: str) -> SpokenUnit:
    last = unit.spoken[-1]
    return unit if last[-1] in _SPOKEN_PUNCTUATION else SpokenUnit(unit.written, (*unit.spoken[:-1], last + mark))


def _clean(word: str) -> str:
    """A word without the signs that aren't spoken; its last punctuation mark is kept once."""
    bare = word.rstrip(_SPOKEN_PUNCTUATION + "'-/%&+=@")
    mark = next((character for character in word[len(bare) :] if character in _SPOKEN_PUNCTUATION), "")
    if not any(character.isalnum() for character in bare):
        return mark
    return re.sub(r"[^\w'.,:&%+=@-]", " ", bare.lstrip("'-")).replace("%", " percent").replace("&", " and ") + mark


def _punctuation(text: str) -> str:
    """The first mark of a run that is heard as a pause or a tone."""
    mark = next((character for character in text if character in _SPOKEN_PUNCTUATION), "")
    return mark or ("," if ")" in text else "")


def _is_decade(text: str, position: int) -> bool:
    return re.match(r"'\d\d", text[position:]) is not None


def _ends_sentence(text: str, end: int) -> bool:
    """Whether a full stop that belongs to an abbreviation ends the sentence as well."""
    rest = text[end:]
    return not rest.strip()
