"""Reading a whole step at once gives what reading row by row gives, through fixed buffers and one small transfer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.decoding import Pass, Query, Reads, Sampling
from diffusion_engine.runtime import Limits, Scheduler
from diffusion_engine.runtime.reader import RowReader, StepReader, make_reader
from diffusion_engine.runtime.static_runner import StaticRunner
from tests.diffusion_engine.conftest import EVERY_FAMILY, Loaded, run_all
from tests.diffusion_engine.runtime.test_static_runner import NothingDependsOnData, traced

T = TypeVar("T")
VOCAB = 50
SUPPRESSED = torch.tensor([3, 49])
CPU = torch.device("cpu")


@st.composite
def queries(draw: st.DrawFn, rows: int) -> Query:
    reads = draw(st.sampled_from([Reads.BEST, Reads.PROBABILITIES, Reads.ENTROPY | Reads.PROBABILITIES, Reads.MARGIN]))
    sampling = Sampling(temperature=draw(st.sampled_from([0.5, 1.3])), top_p=draw(st.sampled_from([1.0, 0.7])))

    def each(of: st.SearchStrategy[T]) -> list[T | None]:
        return draw(st.just([]) | st.lists(st.none() | of, min_size=rows, max_size=rows))

    return Query(
        reads=reads,
        sampling=sampling,
        drawn=each(st.floats(0, 1, exclude_max=True)),
        asked=each(st.integers(0, VOCAB - 1)),
    )


@st.composite
def steps(draw: st.DrawFn) -> list[Pass]:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.integers(1, 5))
        wanted = range(draw(st.integers(0, rows)))
        query = draw(queries(len(wanted)))
        found.append(Pass(tokens=[0] * rows, start=0, clean=rows, wanted=wanted, query=query))
    return found


@pytest.fixture(scope="module", params=["plain", "traced"])
def together(request: pytest.FixtureRequest) -> StepReader:
    """Keeps what it has recorded over all examples."""
    return StepReader(CPU, SUPPRESSED, traced if request.param == "traced" else None)


@given(passes=steps(), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_all_rows_at_once_are_read_like_each_by_itself(together: StepReader, passes: list[Pass], seed: int) -> None:
    """What one request asks changes nothing for its mates, and padding nothing for anyone."""
    generator = torch.Generator().manual_seed(seed)
    logits = [torch.randn(len(step.wanted), VOCAB, generator=generator) * 3 for step in passes]
    if logits[0].numel() and seed % 5 == 0:
        logits[0][0, 7] = torch.nan
    single = RowReader(SUPPRESSED).read(passes, [own.clone() for own in logits])
    for ours, theirs in zip(together.read(passes, logits), single, strict=True):
        assert [row.finite for row in ours] == [row.finite for row in theirs]
        for got, wanted in zip(ours, theirs, strict=True):
            if not wanted.finite:
                continue
            assert (got.best, got.token) == (wanted.best, wanted.token)
            assert torch.equal(got.logits(), wanted.logits())
            for name in ("probability", "best_probability", "asked", "entropy", "margin"):
                # A mate's question may have been computed for this row as well.
                assert getattr(wanted, name) in (0.0, getattr(got, name))


@pytest.mark.parametrize("reads", [Reads.BEST, Reads.PROBABILITIES, Reads.ENTROPY, Reads.MARGIN])
@pytest.mark.parametrize("top_p", [1.0, 0.5])
def test_nothing_that_is_recorded_depends_on_data(reads: Reads, top_p: float) -> None:
    def record(function: Callable[[], None]) -> Callable[[], None]:
        def checked() -> None:
            with NothingDependsOnData():
                function()

        return checked

    query = Query(reads=reads, sampling=Sampling(temperature=1.0, top_p=top_p), drawn=[0.3, None], asked=[5, None])
    step = Pass(tokens=[0, 0], start=0, clean=2, wanted=range(2), query=query)
    StepReader(CPU, SUPPRESSED, record).read([step], [torch.randn(2, VOCAB)])


def test_a_step_is_recorded_once_for_every_padded_number_of_rows_and_set_of_questions() -> None:
    recorded = 0

    def record(function: Callable[[], None]) -> Callable[[], None]:
        nonlocal recorded
        recorded += 1
        return function

    reader = StepReader(CPU, SUPPRESSED, record)
    for rows in (4, 1, 3, 4, 3, 1):
        step = Pass(tokens=[0] * rows, start=0, clean=rows, wanted=range(rows))
        assert len(reader.read([step], [torch.randn(rows, VOCAB)])[0]) == rows
    assert recorded == 2
    reader.prepare(100, VOCAB)
    prepared = recorded
    for rows in range(1, 101):
        step = Pass(tokens=[0] * rows, start=0, clean=rows, wanted=range(rows))
        assert len(reader.read([step], [torch.randn(rows, VOCAB)])[0]) == rows
    assert recorded == prepared
    larger = Pass(tokens=[0] * 300, start=0, clean=300, wanted=range(300))
    assert len(reader.read([larger], [torch.randn(300, VOCAB)])[0]) == 300
    reader.read([step], [torch.randn(100, VOCAB)])
    assert recorded == prepared + 1, "what was recorded stays good beside larger ones"


def test_the_cpu_reads_row_by_row_and_a_gpu_all_at_once() -> None:
    assert isinstance(make_reader(CPU, SUPPRESSED), RowReader)
    assert isinstance(make_reader(torch.device("meta"), SUPPRESSED), StepReader)


@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_replies_through_fixed_buffers_are_the_same(loaded: dict[str, Loaded], family: str, temperature: float) -> None:
    """The path of a GPU, on the CPU: padded passes, one reading a step; every strategy, three requests at once."""
    model = loaded[family]
    for strategy in model.strategies:
        requests = [
            model.request(
                [1, 2, 3, 4] * (3 * i + 1), strategy, id=str(i), max_tokens=12, seed=i, temperature=temperature
            )
            for i in range(3)
        ]
        static = Scheduler(StaticRunner(model.model, 64), 64, model.tokenizer, Limits())
        static._reader = StepReader(CPU, static._suppressed)
        assert [r.text for r in run_all(static, requests)] == [r.text for r in run_all(model.scheduler(), requests)]
