"""The cache, the batch and the pool change nothing in a result."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diffusion_engine.models import DenseAttention, load_model
from diffusion_engine.models.quantize import quantize
from diffusion_engine.runtime import GenerationRequest, Limits, Scheduler, TorchRunner
from diffusion_engine.runtime.attention import Segment, visible
from diffusion_engine.runtime.pages import PAGE_TOKENS
from tests.diffusion_engine.conftest import FAMILIES, Loaded, run_all, run_one


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
            dense = type(step)(
                tokens=whole,
                start=0,
                clean=step.start + step.clean,
                masks=step.masks,
                wanted=range(0),
                block_length=step.block_length,
            )
            attention = InDtype(DenseAttention(visible(dense)), self._attention_dtype)
            hidden = self.loaded.model(torch.tensor(whole), torch.arange(len(whole)), attention)
            full = self.loaded.model.logits(hidden[[step.start + row for row in step.wanted]])
            if len(full):
                self.worst = max(self.worst, float((full - cached).abs().max()))
        return logits


@pytest.fixture(scope="module")
def quantized(loaded: dict[str, Loaded]) -> dict[str, Loaded]:
    return {name: Loaded(model.folder, quantize(load_model(model.folder))) for name, model in loaded.items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-4), ("int8", 0.0)])
@given(
    prompts=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    rows=st.sampled_from([8, 24, 256]),
    data=st.data(),
)
@settings(deadline=None, max_examples=10)
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
    block_length = data.draw(st.sampled_from([1, 3, 4, 8] if family == "llama_draft" else [1, 4, 12, 32]))
    runner = CheckedRunner(model)
    scheduler = Scheduler(runner, 64, model.tokenizer, Limits(prefill_rows=rows))
    runner.scheduler = scheduler
    for i, length in enumerate(prompts):
        text = [7] * length
        text[-1] = i
        strategy = data.draw(st.sampled_from(model.strategies))
        scheduler.submit(model.request(text, strategy, id=str(i), max_tokens=12, block_length=block_length))
        for _ in range(data.draw(st.integers(0, 12))):
            scheduler.step()
    while not scheduler.idle:
        scheduler.step()
    assert runner.worst <= tolerance


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("length", range(1, 38))
def test_every_prompt_length_and_every_hit_length_give_the_uncached_tokens(
    loaded: dict[str, Loaded], family: str, length: int
) -> None:
    model = loaded[family]
    prompt = [(i * 37) % 250 for i in range(length)]
    expected = run_one(model.scheduler(prefix_cache=False), model.request(prompt, max_tokens=9)).tokens
    scheduler = model.scheduler()
    for hit in range(0, length, 3):
        run_one(scheduler, model.request([*prompt[:hit], 251], id="before", max_tokens=1))
        result = run_one(scheduler, model.request(prompt, max_tokens=9))
        assert result.tokens == expected
    again = run_one(scheduler, model.request(prompt, max_tokens=9))
    cacheable = length - 1 if family == "llama_draft" else length // 4 * 4
    assert again.end.statistics.cached_tokens == cacheable


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_sampled_text_of_one_seed_is_the_same_with_the_cache_off(
    loaded: dict[str, Loaded], family: str, temperature: float
) -> None:
    model = loaded[family]
    on, off = model.scheduler(), model.scheduler(prefix_cache=False)
    for seed in range(6):
        request = model.request([3] * 40 + [seed % 2], temperature=temperature, seed=seed)
        assert run_one(on, request).tokens == run_one(off, request).tokens


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), count=st.integers(2, 8))
@settings(deadline=None, max_examples=15)
def test_a_batch_equals_its_requests_alone(
    loaded: dict[str, Loaded], family: str, data: st.DataObject, count: int
) -> None:
    model = loaded[family]
    requests = [
        model.request(
            data.draw(st.lists(st.integers(0, 250), min_size=1, max_size=50)),
            data.draw(st.sampled_from(model.strategies)),
            id=str(i),
            max_tokens=data.draw(st.integers(1, 20)),
            block_length=data.draw(st.sampled_from([2, 4, 8])),
            temperature=data.draw(st.sampled_from([0.0, 0.5, 1.2])),
            seed=data.draw(st.integers(0, 99)),
        )
        for i in range(count)
    ]
    together = run_all(model.scheduler(pages=128), requests)
    for request, result in zip(requests, together, strict=True):
        assert run_one(model.scheduler(), request).tokens == result.tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_requests_that_give_up_their_pages_go_on_where_they_were(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    requests = [model.request([i] * 150, id=str(i), max_tokens=120) for i in range(5)]
    small = model.scheduler(pages=40)
    together = run_all(small, requests)
    assert small.statistics.preempted > 0
    for request, result in zip(requests, together, strict=True):
        assert run_one(model.scheduler(), request).tokens == result.tokens
    assert small.cache.pool.free + small.cache.prefix.pages == 40


@pytest.mark.parametrize("family", FAMILIES)
def test_five_hundred_aborts_at_random_steps_leave_the_pool_as_it_was(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    scheduler = model.scheduler(pages=48)
    expected = run_one(model.scheduler(), model.request([9] * 30)).tokens
    random = torch.Generator().manual_seed(0)

    def number(below: int) -> int:
        return int(torch.randint(below, (1,), generator=random))

    live: list[GenerationRequest] = []
    aborted = 0
    while aborted < 500:
        if len(live) < 6:
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


def test_a_conversation_runs_only_what_is_new(causal: Loaded) -> None:
    scheduler = causal.scheduler()
    text, known = [1, 2, 3] * 11, 0
    for turn in range(4):
        result = run_one(scheduler, causal.request(text, max_tokens=20))
        # All of the last turn but its last token, which was said and not run.
        assert result.end.statistics.cached_tokens >= known - 1
        text = text + result.tokens
        known = len(text)
        text = [*text, 60 + turn, 61, 62]


def test_prefill_only_caches_the_prompt_and_says_nothing(causal: Loaded, block_causal: Loaded) -> None:
    for model, cached in ((causal, 50), (block_causal, 48)):
        scheduler = model.scheduler()
        prompt = list(range(50))
        result = run_one(scheduler, model.request(prompt, prefill_only=True))
        assert (result.text, result.end.cause) == ("", "prefilled")
        again = run_one(scheduler, model.request(prompt, prefill_only=True))
        assert again.end.statistics.cached_tokens == cached
        assert again.end.statistics.forwards == 0
        assert run_one(scheduler, model.request([*prompt, 7, 8])).end.statistics.cached_tokens == cached


def test_a_block_longer_than_a_page_is_shared_whole_or_not_at_all(block_causal: Loaded) -> None:
    """Two texts with the same first page in different first blocks: that page's keys differ."""
    first, second = [7] * 31 + [1] * 9, [7] * 31 + [2] * 9
    scheduler = block_causal.scheduler()
    for prompt in (first, second, first):
        request = block_causal.request(prompt, block_length=32, max_tokens=40)
        assert run_one(scheduler, request).tokens == run_one(block_causal.scheduler(), request).tokens


def test_an_open_block_never_enters_the_prefix_cache(block_causal: Loaded) -> None:
    scheduler = block_causal.scheduler()
    scheduler.submit(block_causal.request([5] * 33, id="a", max_tokens=100, block_length=32))
    for _ in range(3):
        scheduler.step()
    scheduler.cancel("a")
    assert scheduler.cache.prefix.pages * PAGE_TOKENS == 32
