"""How much of a long prompt runs in one step."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.runtime import Limits
from diffusion_engine.runtime.attention import Segment
from diffusion_engine.runtime.limits import LEAST_ROWS
from tests.diffusion_engine.conftest import Loaded, run_all, run_one


@given(cached=st.integers(0, 100_000), running=st.integers(1, 64), rows=st.integers(1, 512))
def test_a_chunk_moves_on_and_stays_within_rows_and_pairs(cached: int, running: int, rows: int) -> None:
    limits = Limits(prefill_rows=rows)
    chunk = limits.chunk_rows(cached, running)
    assert min(rows, LEAST_ROWS) <= chunk <= rows
    assert chunk < 2 * LEAST_ROWS or chunk * cached <= limits.prefill_pairs // running


def test_chunks_shrink_where_much_text_is_before_them_and_where_others_wait_for_the_step() -> None:
    limits = Limits()
    assert [limits.chunk_rows(cached, 1) for cached in (0, 1024, 4096, 7168)] == [256, 256, 64, 64]
    assert [limits.chunk_rows(cached, 4) for cached in (0, 1024, 4096, 7168)] == [256, 64, 64, 64]


def test_a_chunk_ends_at_a_whole_multiple_wherever_it_begins() -> None:
    assert Limits().chunk_rows(17, 1) == 256 - 17
    assert Limits().chunk_rows(1020, 8) == 1088 - 1020  # not the four tokens to the nearest one
    assert Limits(prefill_rows=16).chunk_rows(17, 1) == 16  # none in reach


def test_a_running_reply_shares_its_steps_with_small_chunks_only(
    causal: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = 128 * 160
    scheduler = causal.scheduler(prefill_pairs=pairs)
    passes: list[list[Segment]] = []
    run = scheduler._runner.run

    def watched(segments: list[Segment]) -> list[torch.Tensor]:
        passes.append(segments)
        return run(segments)

    monkeypatch.setattr(scheduler._runner, "run", watched)
    reply = causal.request([1, 2, 3], id="reply", max_tokens=40, block_length=1)
    long = causal.request([i % 250 for i in range(450)], id="long", max_tokens=4)
    results = run_all(scheduler, [reply, long])
    shared = [segments for segments in passes if len(segments) == 2]
    assert len(shared) > 4
    for _, chunk in shared:
        rows = len(chunk.step.tokens)
        assert rows <= LEAST_ROWS or rows * chunk.step.start <= pairs // 2
    assert [result.tokens for result in results] == [run_one(causal.scheduler(), each).tokens for each in (reply, long)]
