"""Does a turn sound over? Judged by its words and by what the agent had asked. Pure.

The recogniser's text of a dip is all there is to judge by: "I'd like to book a table." is a whole sentence, and yet
most callers go on with "for four people, tomorrow". The rules know what calls for more in a service call: a wish
without its details, a clock time that may be of the morning or of the evening, a "no" that a correction follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from voice_agent.turn_taking.wording import is_unfinished, words


class Completeness(Enum):
    """How a turn sounds, from its words."""

    UNFINISHED = "unfinished"
    """It breaks off: on a filler, a preposition, within a number."""
    OPEN = "open"
    """A whole phrase, after which more is likely."""
    NEUTRAL = "neutral"
    CLOSED = "closed"
    """A question, a courtesy, the answer to what was asked."""


class Asked(Enum):
    """What the agent's last sentence asks the caller for."""

    NOTHING = "nothing"
    DATE = "date"
    TIME = "time"
    NUMBER = "number"
    NAME = "name"
    YES_OR_NO = "yes or no"
    WISH = "wish"


_ASKS = (
    (Asked.WISH, r"anything else|(how|what) (can|may|could) i (help|do)|what would you like to (do|change)"),
    (Asked.NAME, r"\bname\b"),
    (Asked.NUMBER, r"how many|\bnumber\b"),
    (Asked.TIME, r"what (other )?time|at what time"),
    (Asked.DATE, r"(what|which) (other )?(day|date)|^when\b"),
    (Asked.YES_OR_NO, r"^(shall|should|is|are|do|does|did|can|could|would|will|have|has)\b|(right|correct|okay)$"),
)


def asked_for(agent: str) -> Asked:
    """What the agent's last sentence asks for, from what the caller heard of it."""
    sentence = re.split(r"(?<=[.!?])\s+", agent.strip())[-1]
    said = " ".join(words(sentence))
    return next((asked for asked, pattern in _ASKS if re.search(pattern, said)), Asked.NOTHING)


_ONES = "one|two|three|four|five|six|seven|eight|nine"
_HOUR = rf"(?:{_ONES}|ten|eleven|twelve|0?[1-9]|1[0-2])"
_MINUTES = rf"(?:o ?clock|[0-5]\d|(?:oh|zero) (?:{_ONES})|ten|fifteen|(?:twenty|thirty|forty|fifty)(?: (?:{_ONES}))?)"
_NUMBER = rf"(?:\d+|{_ONES}|ten|eleven|twelve|a couple)"
_DAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|today|tomorrow|tonight|weekend)"
_MONTH = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_ORDINAL = (
    r"(?:\d+(?:st|nd|rd|th)|first|second|third"
    r"|(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|\w+teen|twentie|thirtie)th)"
)
_DATE = rf"(?:{_DAY}|{_MONTH}|{_ORDINAL})"
_CLOCK = rf"(?:{_HOUR}(?: {_MINUTES})?|[1-9][0-5]\d|1[0-2][0-5]\d)"
_AT_CLOCK = rf"(?:(?:half past|quarter past|quarter to|at|around|about|by) {_CLOCK}|{_HOUR} {_MINUTES})"
_SURE_TIME = (
    r"(?:o ?clock|\d*[ap] ?m|noon|midnight|morning|afternoon|evening|tonight|lunchtime|(?:1[3-9]|2[0-3]) ?[0-5]\d)"
)
_PEOPLE = r"(?:people|persons?|guests|of us)"
_ADULTS = r"(?:adults?|grown ups?)"

_GREETED = r"^(?:(?:hi|hello|hey|and|so|oh|yes|no|okay|sorry|excuse me) )*"
_QUESTION = rf"{_GREETED}(?:what|when|where|which|who|how|why|do|does|is|are|did|have|has)\b"
_WISH = r"\b(?:like|want|need|book|reserve|get|have|make|looking for)\b.*\b(?:table|booking|reservation|appointment)\b"
_BARE_WISH = r"\b(?:to|can i|could i|i'll|please) (?:book|cancel|change|move|reserve|order|ask|make|know)$"
_ANNOUNCED = r"\b(?:a|another|one|quick|more) (?:quick )?(?:question|problem|thing|request)$"
_BARE_GREETING = r"^(?:hi|hello|hey|good (?:morning|afternoon|evening)|there| )+$"
_COURTESY = (
    r"\b(?:please|thanks|thank you(?: very much| so much)?|bye|goodbye|that's (?:all|everything|it|right|correct))$"
)
_BARE_YES_OR_NO = r"^(?:(?:oh|well|um|uh) )*(?:yes|yeah|yep|no|nope|okay|ok|sure|right)(?: (?:yes|no))*$"


def completeness(text: str, asked: Asked = Asked.NOTHING) -> Completeness:
    """How the turn ``text`` sounds to someone who had asked for ``asked``.

    Text without a closing mark (the recogniser writes one after most sentences) is never more than neutral.
    """
    said = " ".join(word.strip("'") for word in words(text)).replace("o'clock", "oclock")
    if not said or is_unfinished(text):
        return Completeness.UNFINISHED
    judged = _of_words(said, asked)
    if judged is Completeness.NEUTRAL and text.rstrip().endswith("?"):
        return Completeness.CLOSED
    if judged is Completeness.CLOSED and not text.rstrip().endswith((".", "?", "!")):
        return Completeness.NEUTRAL
    return judged


def _of_words(said: str, asked: Asked) -> Completeness:
    def ends(pattern: str) -> bool:
        return re.search(rf"(?:^|\s){pattern}$", said) is not None

    def has(pattern: str) -> bool:
        return re.search(rf"(?:^|\s){pattern}(?:$|\s)", said) is not None

    if re.search(_COURTESY, said):
        return Completeness.CLOSED
    if re.search(_BARE_YES_OR_NO, said):
        denied = said.split()[-1] in ("no", "nope")
        return Completeness.CLOSED if asked is Asked.YES_OR_NO and not denied else Completeness.OPEN
    if any(re.search(pattern, said) for pattern in (_BARE_WISH, _ANNOUNCED, _BARE_GREETING)):
        return Completeness.OPEN
    if re.search(_WISH, said):
        when = has(_DATE), has(_SURE_TIME) or ends(_AT_CLOCK)
        return {2: Completeness.CLOSED, 1: Completeness.NEUTRAL, 0: Completeness.OPEN}[sum(when)]
    if re.search(_QUESTION, said):
        return Completeness.CLOSED
    if ends(_SURE_TIME):
        return Completeness.CLOSED
    return _of_answer(said, asked, ends)


def _of_answer(said: str, asked: Asked, ends: Callable[[str], bool]) -> Completeness:
    """Of words that are no question and no wish: maybe the detail that was asked for."""
    if ends(_AT_CLOCK) or (asked is Asked.TIME and ends(_CLOCK)):
        return Completeness.OPEN
    if asked is Asked.DATE and ends(_DATE):
        return Completeness.CLOSED if len(said.split()) > 1 else Completeness.NEUTRAL
    if ends(_ADULTS):
        return Completeness.OPEN
    if asked is Asked.NUMBER and ends(rf"{_NUMBER} {_PEOPLE}"):
        return Completeness.CLOSED
    if asked is Asked.NAME:
        name = re.sub(r"^(?:(?:yes|it's|it is|that's|that is|my|the|name|is|would|be|under|put|it|for) ?)+", "", said)
        return Completeness.CLOSED if len(name.split()) >= 2 else Completeness.OPEN
    return Completeness.NEUTRAL
