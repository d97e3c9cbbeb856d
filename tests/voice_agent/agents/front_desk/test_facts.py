import datetime as dt
from pathlib import Path

import pytest
import yaml

from voice_agent.agents.front_desk import facts, speech
from voice_agent.agents.front_desk.facts import DEFAULT_FACTS, FactsError

from .places import FRIDAY, LUNA, MONDAY, TUESDAY


def test_the_shipped_restaurant_has_a_closing_day_and_longer_weekends():
    assert LUNA.services(MONDAY) == ()
    assert speech.hours(LUNA, TUESDAY) == "from five o'clock to ten o'clock"
    assert speech.hours(LUNA, FRIDAY) == "from noon to eleven o'clock"


def test_guests_are_seated_until_the_last_seating():
    assert LUNA.accepts(TUESDAY, 17 * 60)
    assert LUNA.accepts(TUESDAY, 20 * 60 + 30)
    assert not LUNA.accepts(TUESDAY, 20 * 60 + 45)
    assert not LUNA.accepts(MONDAY, 19 * 60)


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("time_zone", "Europe/Lundon", "unknown time zone 'Europe/Lundon'"),
        ("opening_hours", {"munday": ["12:00-14:00"]}, "unknown weekday 'munday'"),
        ("opening_hours", {"monday": ["14:00-12:00"]}, "must close after it opens"),
        ("opening_hours", {"monday": ["noon"]}, "must look like 17:00-22:00"),
        ("topics", {"parking": "Parking is free"}, "must be a sentence"),
        ("greeting", "word " * 30 + ".", "too long to be spoken"),
        ("menu", "Pizza.", "Extra inputs"),
    ],
)
def test_a_wrong_fact_is_named_with_its_file_and_field(tmp_path: Path, field: str, value: object, named: str):
    data = yaml.safe_load(DEFAULT_FACTS.read_text())
    data[field] = value
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(FactsError, match=r"other\.yaml") as error:
        facts.load(path)
    assert field in str(error.value)
    assert named in str(error.value)


def test_a_missing_file_and_a_broken_one_are_reported(tmp_path: Path):
    with pytest.raises(FactsError, match="no such facts file"):
        facts.load(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [")
    with pytest.raises(FactsError, match="not readable as YAML"):
        facts.load(broken)


def test_a_copy_with_other_facts_is_another_restaurant(tmp_path: Path):
    data = yaml.safe_load(DEFAULT_FACTS.read_text())
    data |= {"name": "Sol", "opening_hours": {"monday": ["08:00-11:00", "18:00-21:00"]}}
    path = tmp_path / "sol.yaml"
    path.write_text(yaml.safe_dump(data))
    sol = facts.load(path)
    assert speech.hours(sol, MONDAY) == (
        "from eight o'clock in the morning to eleven o'clock in the morning and from six o'clock to nine o'clock"
    )
    assert sol.services(MONDAY + dt.timedelta(days=1)) == ()
