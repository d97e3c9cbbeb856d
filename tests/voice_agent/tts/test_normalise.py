from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.tts.normalise import normalise, spoken_text

GOLDEN = Path(__file__).parents[2] / "data" / "normalise_golden.tsv"


def golden() -> list[tuple[str, str]]:
    rows = [line for line in GOLDEN.read_text().splitlines() if "\t" in line]
    return [(written.replace("\\n", "\n"), spoken) for written, spoken in (row.split("\t") for row in rows)]


def test_golden_table_is_large_enough() -> None:
    assert len({written for written, _ in golden()}) >= 200


@pytest.mark.parametrize(("written", "spoken"), golden())
def test_golden_table(written: str, spoken: str) -> None:
    assert spoken_text(written) == spoken


@pytest.mark.parametrize("written", [written for written, _ in golden()])
def test_units_keep_the_text_as_written(written: str) -> None:
    assert "".join(unit.written for unit in normalise(written)) == written


def test_a_unit_maps_its_written_words_to_its_spoken_ones() -> None:
    units = normalise("Come on March 3, 2026 with $4.")
    assert [(unit.written, " ".join(unit.spoken)) for unit in units] == [
        ("Come ", "Come"),
        ("on ", "on"),
        ("March 3, 2026 ", "March third, twenty twenty six"),
        ("with ", "with"),
        ("$4.", "four dollars."),
    ]


@given(st.text())
def test_any_text_is_kept_and_gives_words_that_can_be_spoken(text: str) -> None:
    units = normalise(text)
    assert "".join(unit.written for unit in units) == text
    for word in (word for unit in units for word in unit.spoken):
        assert not any(sign in word for sign in "*`#<>|$€£~^")


@given(st.lists(st.sampled_from([written for written, _ in golden()]), min_size=1, max_size=4))
def test_joined_expressions_are_kept(parts: list[str]) -> None:
    text = " ".join(parts)
    assert "".join(unit.written for unit in normalise(text)) == text
