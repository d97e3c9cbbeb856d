"""The cache, the batch and the pool change nothing in a result: checks that hold for every family."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diffusion_engine.decoding import CAUSAL_STRATEGIES, CanvasCache
from diffusion_engine.models import Attention, DenseAttention, load_model
from diffusion_engine.models.quantize import quantize
from diffusion_engine.runtime import GenerationRequest, Limits, Scheduler, TorchRunner
from diffusion_engine.runtime.attention import Segment, slots_of, visible
from tests.diffusion_engine.conftest import EVERY_FAMILY, FAMILIES, Lazy, Loaded, run_all, run_one

EXACT = tuple(family for family in EVERY_FAMILY if family not in ("llada", "Dream"))
"""Families whose clean text is cached; the bidirectional ones share nothing."""


@dataclass
class InDtype:
    """Dense attention in another precision."""

    dense: DenseAttention
    dtype: torch.dtype

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.dense(layer, query.to(self.dtype), key.to(self.dtype), value.to(self.dtype)).to(query.dtype)


class CheckedRunner(TorchRunner):
    """Compares every pass with a recompute of the whole text without any cache.

    Attributes:
        worst: largest difference of a logit so far.
    """

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded.model, 64)
        self.loaded = loaded
        self.worst = 0.0
        self.scheduler: Scheduler | None = None

    def run(self, segments: list[Segment]) -> list[Tensor]:
        logits = super().run(segments)
        assert self.scheduler is not None
        for segment, cached in zip(segments, logits, strict=True):
            sequence = next(s for s in self.scheduler._running if s.table.pages is segment.pages)
            step = segment.step
            whole = sequence.decoder.text[: step.start] + step.tokens
            dense = replace(step, tokens=whole, start=0, clean=step.start + step.clean)
            attention = InDtype(DenseAttention(visible(dense)), self._attention_dtype)
            hidden = self.loaded.model(torch.tensor(whole), torch.tensor(dense.positions), attention)
            full = self.loaded.model.logits(hidden[[step.start + row for row in step.wanted]])
            if len(full):
                self.worst = max(self.worst, float((full - cached).abs().max()))
        return logits


@pytest.fixture(scope="module")
def quantized(loaded: dict[str, Loaded]) -> dict[str, Loaded]:
    return Lazy(lambda family: Loaded(loaded[family].folder, quantize(load_model(loaded[family].folder))))


def any_request(data: st.DataObject, model: Loaded, **more: object) -> GenerationRequest:
    """Whatever a client may ask of a model.

    But for masks in the prompt: behind nothing but masks, every masked row is the same, and the last bit decides which
    one the model is surest of.
    """
    tokens = st.integers(0, 250).filter(lambda token: token not in model.config.mask_token_ids)
    request = model.request(
        data.draw(st.lists(tokens, min_size=1, max_size=50)),
        data.draw(st.sampled_from(model.strategies)),
        max_tokens=data.draw(st.integers(1, 20)),
        block_length=data.draw(st.sampled_from([2, 4, 8])),
        temperature=data.draw(st.sampled_from([0.0, 0.5, 1.2])),
        seed=data.draw(st.integers(0, 99)),
        threshold=data.draw(st.sampled_from([0.02, 0.9])),
        **more,
    )
    caches = list(CanvasCache) if model.config.attention is Attention.BIDIRECTIONAL else [CanvasCache.NONE]
    parameters = replace(
        request.parameters,
        edit_threshold=0.02,
        sub_block_length=data.draw(st.sampled_from([None, 2])),
        canvas_cache=data.draw(st.sampled_from(caches)),
        fold_commit=data.draw(st.booleans()),
    )
    return replace(request, parameters=parameters)


@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-4), ("int8", 0.0)])
@given(
    prompts=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    rows=st.sampled_from([8, 24, 256]),
    data=st.data(),
)
@settings(deadline=None, max_examples=6)
def test_every_cached_logit_equals_a_full_recompute(
    loaded: dict[str, Loaded],
    quantized: dict[str, Loaded],
    family: str,
    dtype: str,
    tolerance: float,
    prompts: list[int],
    rows: int,
    data: st.DataObject,
) -> None:
    """Requests that share prefixes of every length come and go, in one batch. In int8 they are equal bit for bit."""
    model = quantized[family] if dtype == "int8" else loaded[family]
    # One block longer than a page as well: its keys depend on the pages behind.
    lengths = [1, 4, 12, 32] if model.config.attention is Attention.BLOCK_CAUSAL else [1, 3, 4, 8]
    block_length = data.draw(st.sampled_from(lengths))
    runner = CheckedRunner(model)
    scheduler = Scheduler(runner, 64, model.tokenizer, Limits(prefill_rows=rows))
    runner.scheduler = scheduler
    for i, length in enumerate(prompts):
        text = [7] * length
        text[-1] = i
        strategy = data.draw(st.sampled_from(model.strategies))
        request = model.request(text, strategy, id=str(i), max_tokens=12, block_length=block_length)
        fold = data.draw(st.booleans())
        scheduler.submit(replace(request, parameters=replace(request.parameters, fold_commit=fold)))
        for _ in range(data.draw(st.integers(0, 12))):
            scheduler.step()
    while not scheduler.idle:
        scheduler.step()
    assert runner.worst <= tolerance


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_prompt_length_and_every_hit_length_give_the_uncached_tokens(
    loaded: dict[str, Loaded], family: str
) -> None:
    """Modulo the block (4) and the page (16); three pages for two families, around one border for the others."""
    model = loaded[family]
    for length in range(1, 38) if family in FAMILIES else (1, 3, 4, 5, 15, 16, 17, 20):
        prompt = [(i * 37) % 250 for i in range(length)]
        expected = run_one(model.scheduler(prefix_cache=False), model.request(prompt, max_tokens=9)).tokens
        scheduler = model.scheduler()
        for hit in range(0, length, 3):
            run_one(scheduler, model.request([*prompt[:hit], 251], id="before", max_tokens=1))
            result = run_one(scheduler, model.request(prompt, max_tokens=9))
            assert result.tokens == expected
        again = run_one(scheduler, model.request(prompt, max_tokens=9))
        assert again.end.statistics.cached_tokens == most_cached(model, length)


def most_cached(model: Loaded, prompt: int) -> int:
    """Of a prompt that ran before: whole blocks, or all but the row that predicts the first token of the reply."""
    config = model.config
    if config.attention is Attention.BIDIRECTIONAL:
        return 0
    if config.attention is Attention.CAUSAL:
        return prompt - 1
    return (prompt - config.shift_logits) // 4 * 4


@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_sampled_text_of_one_seed_is_the_same_with_the_cache_off(
    loaded: dict[str, Loaded], family: str, temperature: float
) -> None:
    model = loaded[family]
    on, off = model.scheduler(), model.scheduler(prefix_cache=False)
    for seed in range(4):
        request = model.request([3] * 40 + [seed % 2], temperature=temperature, seed=seed)
        assert run_one(on, request).tokens == run_one(off, request).tokens


@pytest.mark.parametrize("family", EVERY_FAMILY)
@given(data=st.data(), count=st.integers(2, 8))
@settings(deadline=None, max_examples=10)
def test_a_batch_equals_its_requests_alone(
    loaded: dict[str, Loaded], family: str, data: st.DataObject, count: int
) -> None:
    """Whatever the mates ask for; with some of them pre-empted, as the pool is too small for eight."""
    model = loaded[family]
    requests = [any_request(data, model, id=str(i)) for i in range(count)]
    together = run_all(model.scheduler(pages=34), requests)
    for request, result in zip(requests, together, strict=True):
        assert run_one(model.scheduler(), request).tokens == result.tokens


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_eight_prompts_at_once_give_what_they_give_in_a_row(loaded: dict[str, Loaded], family: str) -> None:
    """The approximate caches of bidirectional models included."""
    model = loaded[family]
    requests = [model.request([i, *range(3 * i), 7], id=str(i), max_tokens=16) for i in range(8)]
    if model.config.attention is Attention.BIDIRECTIONAL:
        caches = list(CanvasCache)
        requests = [
            replace(request, parameters=replace(request.parameters, canvas_cache=caches[i % len(caches)]))
            for i, request in enumerate(requests)
        ]
    one_by_one = model.scheduler()
    expected = [run_one(one_by_one, request).tokens for request in requests]
    assert [result.tokens for result in run_all(model.scheduler(pages=128), requests)] == expected


@pytest.mark.parametrize("family", EXACT)
@given(data=st.data())
@settings(deadline=None, max_examples=8)
def test_a_folded_commit_pass_changes_no_text_and_saves_a_forward_a_block(
    loaded: dict[str, Loaded], family: str, data: st.DataObject
) -> None:
    model = loaded[family]
    request = any_request(data, model)
    folded, apart = (
        run_one(model.scheduler(), replace(request, parameters=replace(request.parameters, fold_commit=fold)))
        for fold in (True, False)
    )
    assert folded.tokens == apart.tokens
    if request.parameters.strategy not in CAUSAL_STRATEGIES:
        assert folded.end.statistics.denoising == apart.end.statistics.denoising
        assert apart.end.statistics.forwards >= folded.end.statistics.forwards
        if not model.config.text_gives_next:  # else the commit pass opens the next block
            assert folded.end.statistics.forwards == folded.end.statistics.denoising


@pytest.mark.parametrize("family", EXACT)
@pytest.mark.parametrize("draft", [(), tuple(range(60, 85))])
def test_cached_keys_and_values_are_those_of_the_clean_text(
    loaded: dict[str, Loaded], family: str, draft: tuple[int, ...]
) -> None:
    """Of every strategy's reply: they equal those that a prompt with the same text leaves.

    A draft is kept whole where denoising judges it (threshold 0), though half of it was masked in each judging pass.
    """
    model = loaded[family]
    unit = 4 if model.config.attention is Attention.BLOCK_CAUSAL else None
    for strategy in model.strategies:
        scheduler, fresh = model.scheduler(), model.scheduler()
        request = model.request(
            list(range(30, 45)), strategy, max_tokens=25, draft=draft, threshold=0.0 if draft else 0.05
        )
        text = request.prompt + run_one(scheduler, request).tokens
        run_one(fresh, model.request(text, strategy, prefill_only=True))
        seen = []
        for engine in (scheduler, fresh):
            table = engine.cache.acquire(text, len(text) // 4 * 4 - 4, 64, unit)
            slots = slots_of(table.pages, 0, table.cached)
            storage = engine._runner.storage  # type: ignore[attr-defined]
            seen.append(torch.stack([part[slots] for part in (*storage.keys, *storage.values)]))
            engine.cache.release(table, [])
        assert seen[0].shape == seen[1].shape
        assert seen[0].shape[1] >= 32
        assert torch.allclose(seen[0], seen[1], atol=1e-4)


@pytest.mark.parametrize("family", EXACT)
@given(data=st.data(), steps=st.integers(1, 30))
@settings(deadline=None, max_examples=8)
def test_what_is_in_the_prefix_cache_is_final_text_in_whole_blocks(
    loaded: dict[str, Loaded], family: str, data: st.DataObject, steps: int
) -> None:
    """At any step, and after an abort."""
    model = loaded[family]
    scheduler = model.scheduler()
    request = replace(any_request(data, model), max_tokens=60)
    final = request.prompt + run_one(model.scheduler(), request).tokens
    scheduler.submit(request)
    for _ in range(steps):
        scheduler.step()
    scheduler.cancel(request.id)
    for node in scheduler.cache.prefix._nodes():
        above, text = node, list(node.tokens)
        while above.parent is not None:
            above = above.parent
            text = [*above.tokens, *text]
        assert text == final[: len(text)]
        if model.config.attention is Attention.BLOCK_CAUSAL:
            assert len(text) % request.parameters.block_length == 0


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_requests_that_give_up_their_pages_go_on_where_they_were(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    requests = [model.request([i] * 150, id=str(i), max_tokens=120 if family in FAMILIES else 12) for i in range(5)]
    small = model.scheduler(pages=40)
    together = run_all(small, requests)
    if family in FAMILIES:
        assert small.statistics.preempted > 0
    for request, result in zip(requests, together, strict=True):
        assert run_one(model.scheduler(), request).tokens == result.tokens
    assert small.cache.pool.free + small.cache.prefix.pages == 40


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_thousand_aborts_at_random_steps_leave_the_pool_as_it_was(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    scheduler = model.scheduler(pages=48)
    expected = run_one(model.scheduler(), model.request([9] * 30)).tokens
    random = torch.Generator().manual_seed(0)

    def number(below: int) -> int:
        return int(torch.randint(below, (1,), generator=random))

    live: list[GenerationRequest] = []
    aborted = 0
    while aborted < 1000:
        if len(live) < 4:
            id = f"r{aborted}-{number(1 << 30)}"
            live.append(model.request([number(3)] * (1 + number(60)), id=id, max_tokens=200, temperature=1.0))
            scheduler.submit(live[-1])
        for _ in range(number(3)):
            scheduler.step()
        aborted += scheduler.cancel(live.pop(number(len(live))).id)
    for request in live:
        scheduler.cancel(request.id)
    assert scheduler.idle
    assert scheduler.cache.pool.free + scheduler.cache.prefix.pages == 48
    assert run_one(scheduler, model.request([9] * 30)).tokens == expected
    scheduler.cache.prefix.clear()
    assert scheduler.cache.pool.free == 48
