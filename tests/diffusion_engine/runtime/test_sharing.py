"""What requests find of each other's text in the cache, and what they must not."""

from __future__ import annotations

from diffusion_engine.runtime.pages import PAGE_TOKENS
from tests.diffusion_engine.conftest import Loaded, run_one


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


def test_a_probed_prompt_is_shared_whole_while_its_reply_runs(causal: Loaded) -> None:
    """The probe's row is in one of its first chunks; the prompt isn't run before the last."""
    scheduler = causal.scheduler(prefill_rows=64)
    prompt = [(7 * i) % 200 for i in range(180)]
    scheduler.submit(causal.request(prompt, id="probed", max_tokens=40, probe=70))
    while scheduler.statistics.forwards < 4:
        scheduler.step()
    scheduler.submit(causal.request(prompt, id="mate", max_tokens=4))
    scheduler.step()
    (mate,) = [sequence for sequence in scheduler._running if sequence.request.id == "mate"]
    assert mate.statistics.cached_tokens >= 180 - PAGE_TOKENS


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
