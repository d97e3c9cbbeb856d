"""Where streamed text may be cut for synthesis: after sentences, after clauses, never inside an expression. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from voice_agent.tts.lexicon import ABBREVIATIONS, DAYS, MONTHS_SHORT, TITLES

_MARK = re.compile(r"([.!?]+|[,;:]|\s[-–]|—)[\"'”’)\]*_]*(\s+)(?=\S)|[ \t]*(\n)\s*(?=\S)")
_BEFORE = re.compile(r"\s(?=(?:and|but|or|because|so|if|when|which|who|that|with|for|from|at|on|in|to|until)\s)")
_STREET_WORDS = frozenset({"st", "dr"})
_NEVER_END = frozenset({"vs", "e.g", "i.e", "approx", "dept", "tel", "ext"})
_NEVER_END_CAPITAL = TITLES | frozenset(MONTHS_SHORT) | frozenset(DAYS)
"""Only with a capital: "he sat." and "in the sun." end a sentence."""


@dataclass(frozen=True)
class ClauseOptions:
    """Lengths of the pieces, in characters.

    Attributes:
        first_min: The first piece is cut at a clause only if it is this long: "Yes," alone sounds clipped.
        later_min: The same for later pieces, which can afford better prosody.
        unpunctuated: Text without a mark is cut before a conjunction or preposition once it is this long.
        first_longest: A reply whose sentences are all there already is still cut behind the last one that ends within
            this: the encoder's work before the first sound grows with the text (40 ms for 20 words, 100 ms for 40).
        longest: No piece is longer.
    """

    first_min: int = 8
    later_min: int = 40
    unpunctuated: int = 70
    first_longest: int = 80
    longest: int = 280

    def __post_init__(self) -> None:
        if not 0 < self.first_min <= self.later_min <= self.unpunctuated <= self.longest:
            raise ValueError("ClauseOptions needs 0 < first_min <= later_min <= unpunctuated <= longest")


@dataclass(frozen=True)
class Boundary:
    """A place where text may be cut: before index `at`; `sentence` where a sentence ends."""

    at: int
    sentence: bool


def boundaries(text: str) -> Iterator[Boundary]:
    """Where a text may be cut, in order. The end of the text is none: what follows could still change its reading.

    "Dr. Smith", "7.30", "$49.95", "3 p.m. tomorrow", "March 3, 2026" and code blocks are left whole.
    """
    for match in _MARK.finditer(text):
        if text.count("```", 0, match.end()) % 2:
            continue
        if match[3] is not None:
            yield Boundary(match.end(), True)
            continue
        mark, before, after = match[1].strip(), text[: match.start()], text[match.end() :]
        if "[" in before and before.rfind("[") > before.rfind("]"):
            continue  # inside a link's text
        if mark[0] in "!?":
            yield Boundary(match.end(), True)
        elif mark == ".":
            if _ends_sentence(before, after):
                yield Boundary(match.end(), True)
        elif mark[0] == ".":
            yield Boundary(match.end(), after[:1].isupper())
        elif not (before[-1:].isdigit() and after[:1].isdigit()):
            yield Boundary(match.end(), False)


def _ends_sentence(before: str, after: str) -> bool:
    """Whether a full stop between these texts ends a sentence."""
    word = re.split(r"[\s(\"'“]", before)[-1]
    key = word.lower()
    starts_upper = after[:1].isupper() or after[:1] in "\"“'(" or not after[:1].isalnum()
    if before[-1:].isdigit():
        alone = word.isdigit() and (before[: -len(word)].rstrip() == "" or before[: -len(word)].endswith("\n"))
        return not alone and not after[:1].isdigit()  # "1. Pizza" is a list
    if len(word) == 1 and word.isupper():
        return word == "I" and starts_upper  # "J. Smith"
    if key in _STREET_WORDS:  # "Oak St. It is" ends one, "St. James" and "Dr. Smith" don't
        previous = before[: -len(word)].split()
        return starts_upper and len(previous) > 1 and previous[-1][:1].isupper() and previous[-1][-1].isalpha()
    if key == "no":  # "No. 7", but "No. We are closed."
        return not after[:1].isdigit()
    if key in _NEVER_END or (key in _NEVER_END_CAPITAL and word[:1].isupper()):
        return False
    if key in ABBREVIATIONS or "." in key:  # "Jr.", "a.m.", "U.S."
        return starts_upper
    return True


class ClauseSplitter:
    """Text in as it streams, pieces out as they are wanted. The pieces, joined, are the text.

    Args:
        options: Lengths of the pieces.
    """

    def __init__(self, options: ClauseOptions | None = None) -> None:
        self.options = options or ClauseOptions()
        self._text = ""
        self._ended = False
        self._first = True

    def push(self, text: str) -> None:
        """Take the next characters."""
        self._text += text

    def end(self) -> None:
        """No more text comes: what is left may be taken."""
        self._ended = True

    @property
    def finished(self) -> bool:
        """Whether all text has come and been taken."""
        return self._ended and not self._text

    def take(self, *, urgent: bool) -> str | None:
        """The next piece, as long as it may be, or None if more text is needed first.

        Args:
            urgent: The listener will soon run out of audio, so the end of a clause will do; otherwise only whole
                sentences are handed out, which sound better.
        """
        at = self._cut(urgent)
        if at is None:
            return None
        piece, self._text = self._text[:at], self._text[at:]
        self._first = self._first and not piece.strip()
        return piece

    def _cut(self, urgent: bool) -> int | None:
        text, options = self._text, self.options
        if self._ended and len(text) <= (options.first_longest if self._first else options.longest):
            return len(text) or None
        reach = [boundary for boundary in boundaries(text) if boundary.at <= options.longest]
        sentences = [boundary.at for boundary in reach if boundary.sentence]
        if sentences and self._first:
            return next((at for at in reversed(sentences) if at <= options.first_longest), sentences[0])
        if sentences:
            return sentences[-1]
        if self._ended and len(text) <= options.longest:
            return len(text)
        if not urgent and not self._ended and len(text) <= options.longest:
            return None
        minimum = options.first_min if self._first else options.later_min
        usable = [b.at for b in reach if b.sentence or len(text[: b.at].strip()) >= minimum]
        if usable:
            return usable[-1]
        if len(text) < options.unpunctuated:
            return None
        return self._unpunctuated(text[: options.longest], minimum)

    def _unpunctuated(self, text: str, minimum: int) -> int | None:
        """A cut in a text without marks: before a conjunction or preposition; where it is too long, at any space."""
        places = [match.end() for match in _BEFORE.finditer(text) if match.end() >= minimum and _free(text, match)]
        if places:
            return places[-1]
        if len(text) < self.options.longest:
            return None
        return text.rfind(" ") + 1 or len(text)


def _free(text: str, match: re.Match[str]) -> bool:
    """Not between numbers, where "to" and "and" belong to an expression."""
    return not text[: match.start()][-1:].isdigit()
