"""The caller's words, stretch by stretch: which belong to the turn under way, which were answered. Pure.

Nothing is lost here: a word is in the turn under way or in the one committed last, until that was answered; a
committed turn that wasn't over is reopened, and its words stand again before those that came since.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from voice_agent.turn_taking.wording import is_backchannel, words

_SAME_WORDING = 0.6
"""Two transcripts of the same audio share at least this much of their letters."""
_REWORDED = 3
"""By so many words may two transcripts of the same audio differ in length ("730", "seven thirty")."""


@dataclass(slots=True)
class _Stretch:
    """One stretch of speech: its latest text, and how much of it belongs to earlier turns.

    Attributes:
        text: The recogniser's latest words for the whole stretch.
        final: No other text will come for it.
        taken: Words at its beginning that were committed.
        answered: Those of ``taken`` whose turn was answered; the others may come back.
        released: Judged to be no claim to a turn: listening noise in it is dropped.
    """

    text: str = ""
    final: bool = False
    taken: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    released: bool = False

    @property
    def rest(self) -> str:
        """Its words beyond those that were committed.

        A stretch that was committed before its final transcript is transcribed once more, a word here or there in
        another way: new is only what goes beyond the committed words, unless it is another text altogether.
        """
        return _beyond(self.taken, self.text)

    def drop_rest(self) -> None:
        """Nobody needs to answer what goes beyond the committed words."""
        settled = self.taken == self.answered
        self.taken = tuple(words(self.text))
        if settled:
            self.answered = self.taken


class TurnTranscript:
    """The words of one caller.

    The recogniser's texts of a stretch replace one another until its final; then the next stretch begins.
    """

    def __init__(self) -> None:
        self._stretches: list[_Stretch] = []
        self._released = False

    @property
    def text(self) -> str:
        """The words of the turn under way."""
        return " ".join(rest for stretch in self._stretches if (rest := stretch.rest.strip()))

    def hear(self, text: str, *, final: bool) -> bool:
        """Take the recogniser's words for the stretch under way; tells whether the turn's words are others now."""
        before = words(self.text)
        stretch = self._stretches[-1] if self._stretches and not self._stretches[-1].final else None
        if stretch is None:
            stretch = _Stretch(released=self._released)
            self._stretches.append(stretch)
        self._released = False
        stretch.text, stretch.final = text.strip(), final
        if stretch.released and is_backchannel(stretch.rest, after_question=False):
            stretch.drop_rest()
        self._tidy()
        return words(self.text) != before

    def commit(self) -> None:
        """The turn is over: its words are to be answered."""
        for stretch in self._stretches:
            stretch.taken = tuple(words(stretch.text))

    def reopen(self) -> bool:
        """The turn committed last wasn't over: its words belong to the turn under way; tells whether it had any."""
        before = words(self.text)
        for stretch in self._stretches:
            stretch.taken = stretch.answered
        return words(self.text) != before

    def settle(self) -> None:
        """The turn committed last was answered: its words won't come back."""
        for stretch in self._stretches:
            stretch.answered = stretch.taken
        self._tidy()

    def release(self) -> None:
        """What was heard since the last commit was listening noise or none of the caller's: drop it.

        So is such noise in what the recogniser still writes for the same sound.
        """
        for stretch in self._stretches:
            if is_backchannel(stretch.rest, after_question=False):
                stretch.released = not stretch.final
                stretch.drop_rest()
        self._released = not self._stretches or self._stretches[-1].final
        self._tidy()

    def keep(self) -> None:
        """The caller speaks anew: what comes next counts, whatever was released before."""
        self._released = False

    def _tidy(self) -> None:
        self._stretches = [
            stretch
            for stretch in self._stretches
            if not stretch.final or words(_beyond(stretch.answered, stretch.text))
        ]


def _beyond(known: tuple[str, ...], text: str) -> str:
    """The part of ``text`` that goes beyond the ``known`` words at its beginning; all of it where it has others."""
    if not known:
        return text
    spoken, letters = words(text), "".join(known)

    def likeness(count: int) -> float:
        return _likeness(letters, "".join(spoken[:count]))

    lengths = range(max(0, len(known) - _REWORDED), min(len(spoken), len(known) + _REWORDED) + 1)
    best = max(lengths, key=likeness, default=0)
    if likeness(best) >= _SAME_WORDING:
        return _after(text, best)
    said = "".join(spoken)
    return "" if len(said) < len(letters) and _likeness(letters[: len(said)], said) >= _SAME_WORDING else text


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(a=one, b=other, autojunk=False).ratio()


def _after(text: str, count: int) -> str:
    """``text`` without the tokens that hold its first ``count`` words."""
    tokens = text.split()
    for place, token in enumerate(tokens):
        if count <= 0:
            return " ".join(tokens[place:])
        count -= len(words(token))
    return ""
