"""The table of reported faults names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = TESTS.parents[1] / "docs" / "engine-cases.md"


def test_every_test_that_the_table_names_is_there() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", TABLE.read_text(), re.MULTILINE)
    assert len(rows) == 27
    for number, _, covered in rows:
        file = TESTS
        for path, function in re.findall(r"`([\w/]+(?:\.py|/))?(?:::(test_\w+))?`", covered):
            file = TESTS / path if path else file
            assert file.exists(), f"row {number}: {file}"
            assert not function or f"def {function}(" in file.read_text(), f"row {number}: {file}::{function}"
