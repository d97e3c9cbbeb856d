"""What is true about one restaurant: read from YAML, checked when it is loaded."""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self
from zoneinfo import ZoneInfo

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DEFAULT_FACTS = Path(__file__).with_name("facts.yaml")


class FactsError(ValueError):
    """A facts file that can't be used; the message names the file, the field and what is wrong with it."""


def _one_sentence(text: str) -> str:
    if not text or text[-1] not in ".!?":
        raise ValueError(f"must be a sentence that ends with a full stop: {text!r}")
    if len(text.split()) > 25:
        raise ValueError(f"is too long to be spoken in one breath (25 words): {text!r}")
    return text


Sentence = Annotated[str, AfterValidator(_one_sentence)]


class Service(BaseModel):
    """An interval of one day in which guests are served, from `opens` to `closes` (minutes since midnight)."""

    model_config = ConfigDict(frozen=True)
    opens: int = Field(ge=0, lt=24 * 60)
    closes: int = Field(gt=0, le=24 * 60)

    @classmethod
    def parse(cls, text: str) -> Service:
        """Read "17:00-22:00"."""
        try:
            opens, closes = (int(h) * 60 + int(m) for h, m in (part.split(":") for part in text.split("-")))
        except ValueError as error:
            raise ValueError(f"must look like 17:00-22:00, not {text!r}") from error
        if closes <= opens:
            raise ValueError(f"must close after it opens: {text!r}")
        return cls(opens=opens, closes=closes)


class BookingRules(BaseModel):
    """Tables and the rules of taking bookings; durations in minutes, `tables` maps seats to the number of tables."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    dining_minutes: int = Field(gt=0, le=600)
    last_seating_minutes: int = Field(ge=0, le=600)
    slot_minutes: int = Field(gt=0, le=60)
    days_ahead: int = Field(gt=0, le=365)
    max_party: int = Field(gt=0, le=99)
    tables: dict[int, int]

    @model_validator(mode="after")
    def _seats_for_the_largest_party(self) -> Self:
        if not self.tables or max(self.tables) < self.max_party:
            raise ValueError(f"no table seats max_party {self.max_party}")
        if min(self.tables) < 1 or min(self.tables.values()) < 1:
            raise ValueError("tables must map seats >= 1 to a number of tables >= 1")
        return self


class Restaurant(BaseModel):
    """Everything the front desk may say about its restaurant."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(min_length=1)
    time_zone: str
    greeting: Sentence
    goodbye: Sentence
    hand_over: Sentence
    opening_hours: dict[str, tuple[Service, ...]]
    bookings: BookingRules
    topics: dict[str, Sentence] = Field(min_length=1)

    @field_validator("opening_hours", mode="before")
    @classmethod
    def _parse_services(cls, value: object) -> object:
        if not isinstance(value, dict):
            raise ValueError("must map weekdays to lists of services")
        unknown = sorted(set(value) - set(WEEKDAYS))
        if unknown:
            raise ValueError(f"unknown weekday {unknown[0]!r}; use {', '.join(WEEKDAYS)}")
        return {day: tuple(Service.parse(s) if isinstance(s, str) else s for s in v) for day, v in value.items()}

    @field_validator("time_zone")
    @classmethod
    def _known_time_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError) as error:
            raise ValueError(f"unknown time zone {value!r}; use a name such as Europe/London") from error
        return value

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone in which today, now and every booking are meant."""
        return ZoneInfo(self.time_zone)

    def services(self, date: dt.date) -> tuple[Service, ...]:
        """When guests are served on `date`; empty when closed."""
        return self.opening_hours.get(WEEKDAYS[date.weekday()], ())

    def accepts(self, date: dt.date, minute: int) -> bool:
        """Whether a party may be seated on `date` at `minute` since midnight, tables aside."""
        last = self.bookings.last_seating_minutes
        return any(s.opens <= minute <= s.closes - last for s in self.services(date))


def load(path: Path = DEFAULT_FACTS) -> Restaurant:
    """Load a restaurant's facts.

    Raises:
        FactsError: the file is missing, isn't YAML, or a fact is missing or wrong; every fault is named.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Restaurant.model_validate(data)
    except FileNotFoundError as error:
        raise FactsError(f"{path}: there is no such facts file") from error
    except yaml.YAMLError as error:
        raise FactsError(f"{path}: not readable as YAML: {error}") from error
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise FactsError(f"{path}: {faults}") from error
