"""What is read off logits, by its definition."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.decoding import Pass, Query, Reading, Reads, Sampling
from diffusion_engine.decoding.reading import BEST
from diffusion_engine.runtime.reader import RowReader

ALL = Reads.PROBABILITIES | Reads.ENTROPY | Reads.MARGIN
NOTHING = torch.empty(0, dtype=torch.long)


def read(logits: torch.Tensor, query: Query = BEST, suppressed: torch.Tensor = NOTHING) -> list[Reading]:
    step = Pass(tokens=[0] * len(logits), start=0, clean=len(logits), wanted=range(len(logits)), query=query)
    return RowReader(suppressed).read([step], [logits.clone()])[0]


def test_numbers_are_what_they_are_called() -> None:
    even, sure = read(torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]).log(), Query(reads=ALL, asked=[2, 1]))
    assert (even.best, even.token, even.finite) == (0, 0, True)
    assert not sure.finite  # its zeros are minus infinity
    assert [even.best_probability, even.probability, even.asked, even.margin] == pytest.approx([0.5, 0.5, 0.25, 0.25])
    assert even.entropy == pytest.approx(1.5 * math.log(2))
    assert [sure.probability, sure.asked, sure.margin, sure.entropy] == pytest.approx([1.0, 0.0, 1.0, 0.0])


def test_what_is_never_emitted_is_never_best_but_counts_in_probabilities_and_entropy() -> None:
    (row,) = read(torch.tensor([[0.25, 0.5, 0.25]]).log(), Query(reads=ALL), torch.tensor([1]))
    assert (row.best, row.token) == (0, 0)
    assert [row.probability, row.margin, row.entropy] == pytest.approx([0.25, 0.25, 1.5 * math.log(2)])
    assert row.logits().tolist()[1] == -math.inf


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_says_so_alone(bad: float) -> None:
    logits = torch.zeros(3, 5)
    logits[1, 2] = bad
    assert [row.finite for row in read(logits)] == [True, False, True]


@given(
    st.lists(st.floats(-9, 9, width=32), min_size=2, max_size=20),
    st.floats(0.05, 2),
    st.sampled_from([1.0, 0.9, 0.3]),
    st.floats(0, 1, exclude_max=True),
)
def test_a_draw_inverts_the_cumulated_probabilities(values: list[float], t: float, top_p: float, drawn: float) -> None:
    logits = torch.tensor([values])
    sampling = Sampling(temperature=t, top_p=top_p)
    (row,) = read(logits, Query(reads=ALL, sampling=sampling, drawn=[drawn]))
    tempered = torch.softmax(logits[0].double() / t, -1)
    order = sorted(range(len(values)), key=lambda i: (-float(tempered[i]), i))
    kept, share, least = set(), 0.0, torch.inf
    for token in order:
        if kept and top_p <= share and top_p < 1.0 and tempered[token] < least:
            break
        kept.add(token)  # and its equals
        least = tempered[token]
        share += float(tempered[token])
    assert row.token in kept
    below = sum(float(tempered[i]) for i in range(row.token) if i in kept) / share
    assert below <= drawn + 1e-9
    assert drawn <= below + float(tempered[row.token]) / share + 1e-9
    assert row.best == int(logits.argmax())
    assert row.probability == pytest.approx(float(torch.softmax(logits[0].double(), -1)[row.token]))


def test_another_token_has_its_own_probability() -> None:
    logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
    query = Query(reads=Reads.PROBABILITIES, sampling=Sampling(temperature=1.0), drawn=[0.6])
    (row,) = read(logits, query)
    assert row.token == 1
    assert [row.of(token).probability for token in range(3)] == pytest.approx([0.5, 0.2, 0.3])
    assert [row.of(token).token for token in range(3)] == [0, 1, 2]


def test_kept_logits_outlive_what_they_were_read_off() -> None:
    logits = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    step = Pass(tokens=[0, 0], start=0, clean=2, wanted=range(2))
    ((_, row),) = RowReader(NOTHING).read([step], [logits])
    kept = row.kept()
    logits.zero_()
    assert kept.logits().tolist() == [3.0, 4.0]
    assert row.logits().tolist() == [0.0, 0.0]
    kept.logits().zero_()
    assert kept.logits().tolist() == [3.0, 4.0]
