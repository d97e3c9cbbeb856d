"""What a simulated caller says, and when: scenarios read from YAML, and the caller's side of the dialogue."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

SCENARIOS = Path(__file__).parent / "scenarios"
PAUSE = re.compile(r"\[(\d+(?:\.\d+)?)\]")


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _checked_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, BeforeValidator(_checked_pattern)]
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS: tuple[str, ...] = get_args(Weekday)
Day = Weekday | Literal["tomorrow"]


class ScenarioError(ValueError):
    """A scenario file can't be used; the message names the file and the field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Turn(_Strict):
    """One thing the caller may say. `when`: patterns that must all be found in the agent's last words."""

    say: str
    when: Annotated[list[Pattern], BeforeValidator(_as_list)] = Field(default_factory=list)
    times: int = Field(default=2, ge=1, description="How often a turn with `when` may be said.")


class Part(_Strict):
    """One thing the caller wants."""

    about: str
    turns: list[Turn] = Field(min_length=1)
    otherwise: str | None = None
    done: Pattern | None = None


class Booking(_Strict):
    """What must be in the database after a call; the date is the call's."""

    name: str
    time: str = Field(pattern=r"^\d\d:\d\d$")
    party: int = Field(ge=1)


class Call(_Strict):
    """One telephone call.

    `voice` is the flite voice its recordings prefer. `dates` are the ways the caller may name the day of the booking,
    the first that can be used is; `{date}` stands for it in what is said.
    """

    caller: str
    voice: str
    parts: list[Part] = Field(min_length=1)
    dates: list[Day] = Field(min_length=1)
    booking: Booking

    def day_named(self, today: dt.date, closed: Sequence[str]) -> tuple[str, dt.date]:
        """Choose the day of the booking: how it is named, and the date meant; raises ScenarioError if none is open."""
        for name in self.dates:
            day = meant_by(name, today)
            # On a Friday "on Friday" may mean today.
            if WEEKDAYS[day.weekday()] not in closed and WEEKDAYS[today.weekday()] != name:
                return name, day
        raise ScenarioError(f"{self.caller} can't book on {' or '.join(self.dates)} when today is {today:%A %d %B %Y}")


def meant_by(day: str, today: dt.date) -> dt.date:
    """Return the date of `tomorrow` or of the next weekday of that name, never today."""
    if day == "tomorrow":
        return today + dt.timedelta(days=1)
    return today + dt.timedelta(days=(WEEKDAYS.index(day) - today.weekday() - 1) % 7 + 1)


def spoken(utterance: str, day: str) -> str:
    """Put the name of a day into an utterance."""
    words = day if day == "tomorrow" else f"on {day.title()}"
    filled = utterance.replace("{date}", words)
    return filled[:1].upper() + filled[1:]


class Scenario(_Strict):
    """A file of scripted calls. `closed` are the weekdays without a table, `again` what makes a caller repeat."""

    name: str
    time_zone: str
    closed: list[Weekday]
    again: Pattern
    calls: list[Call] = Field(min_length=1)


def load_scenario(path: Path) -> Scenario:
    """Read and check a scenario file; raises ScenarioError."""
    try:
        return Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ScenarioError(f"cannot read the scenario {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValidationError) as error:
        raise ScenarioError(f"the scenario {path} is not valid: {error}") from error


def utterances(call: Call) -> list[str]:
    """Return everything the caller might say in a call, each once, with every name of the day."""
    said = [text for part in call.parts for text in [*(turn.say for turn in part.turns), part.otherwise] if text]
    return list(dict.fromkeys(spoken(text, day) for text in said for day in call.dates))


def fragments(utterance: str) -> list[tuple[str, float]]:
    """Split an utterance at its pauses: pairs of words and the seconds of silence after them."""
    pieces = PAUSE.split(utterance)
    pauses = [float(pause) for pause in pieces[1::2]]
    return [(words.strip(), pause) for words, pause in zip(pieces[::2], [*pauses, 0.0], strict=True)]


class Dialogue:
    """The caller's side of one call: given the agent's last words, what to say next."""

    MOST_REPEATS = 2
    MOST_OTHERWISE = 2

    def __init__(self, call: Call, again: str, day: str) -> None:
        """`day` is how the booking's date is named, one of `call.dates`."""
        self.call = call
        self.day = day
        self.unfinished: list[str] = []
        """Parts given up because the agent asked for something the script has no answer to."""
        self._again = re.compile(again, re.IGNORECASE)
        self._part = 0
        self._used: Counter[int] = Counter()
        self._last: str | None = None
        self._repeats = 0
        self._otherwise = 0

    @property
    def part(self) -> Part:
        """The part being spoken about; the last one at the end of the call."""
        return self.call.parts[min(self._part, len(self.call.parts) - 1)]

    def next_line(self, agent_said: str | None) -> str | None:
        """Return the caller's next words, or None to hang up.

        Args:
            agent_said: the agent's words since the caller's last turn; None when the agent was silent.
        """
        in_last_part = self._part >= len(self.call.parts) - 1
        not_understood = self._again.search(agent_said) if agent_said else not in_last_part
        if self._last is not None and not_understood and self._repeats < self.MOST_REPEATS:
            self._repeats += 1
            return self._last
        while self._part < len(self.call.parts):
            line = self._line_of_part(agent_said or "")
            if line is not None:
                self._last, self._repeats = line, 0
                return line
            self._part += 1
            self._used.clear()
            self._otherwise = 0
        return None

    def _line_of_part(self, agent_said: str) -> str | None:
        part = self.part
        begun = bool(self._used)
        if begun and part.done and re.search(part.done, agent_said, re.IGNORECASE):
            return None
        asked = [
            index
            for index, turn in enumerate(part.turns)
            if turn.when
            and self._used[index] < turn.times
            and all(re.search(pattern, agent_said, re.IGNORECASE) for pattern in turn.when)
        ]
        unsaid = [index for index, turn in enumerate(part.turns) if not turn.when and not self._used[index]]
        # Nothing is an answer before the part's first words: the greeting may well ask for a name.
        for index in [*asked, *unsaid] if begun or not unsaid else unsaid:
            self._used[index] += 1
            return spoken(part.turns[index].say, self.day)
        if part.done is None:
            return None
        if part.otherwise and self._otherwise < self.MOST_OTHERWISE:
            self._otherwise += 1
            return spoken(part.otherwise, self.day)
        self.unfinished.append(part.about)
        return None
