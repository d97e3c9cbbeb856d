"""Samples to figures, and replies compared."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.bench.figures import figure, milliseconds, paired_ratio
from diffusion_engine.bench.quality import compare

SECONDS = st.floats(0.001, 1000)


@given(st.lists(SECONDS, min_size=1))
def test_the_median_is_the_median(samples: list[float]) -> None:
    summary = figure(samples, digits=9)
    assert summary["p50"] == pytest.approx(statistics.median(samples), rel=1e-6)
    assert min(samples) - 1e-6 <= summary["p50"] <= summary["p95"] <= max(samples) + 1e-6
    assert summary["n"] == len(samples)


def test_samples_not_taken_are_not_counted() -> None:
    assert milliseconds([0.5, None, 1.5]) == {"p50": 1000.0, "p95": 1450.0, "n": 2}
    assert figure([None]) == {"p50": None, "p95": None, "n": 0}


def test_ratios_are_taken_pair_by_pair() -> None:
    # The machine was ten times slower in the second case, for both.
    assert paired_ratio([1.0, 10.0, None], [2.0, 20.0, 3.0]) == 0.5
    assert paired_ratio([None], [1.0]) is None


REPLIES = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=5)


@given(REPLIES)
def test_equal_replies_do_not_differ(replies: list[list[int]]) -> None:
    assert compare(replies, replies)["differ"] == 0.0


@given(REPLIES, st.data())
def test_one_other_token_is_seen(replies: list[list[int]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(replies) - 1))
    others = [list(reply) for reply in replies]
    others[at] = [*others[at], 10]
    found = compare(replies, others)
    assert found["differ"] == pytest.approx(1 / len(replies), abs=1e-4)
    assert found["token_agreement"] < 1.0


def test_what_follows_an_insertion_counts_as_wrong() -> None:
    assert compare([[1, 2, 3]], [[1, 9, 2, 3]]) == {"replies": 1, "differ": 1.0, "token_agreement": 0.25}
