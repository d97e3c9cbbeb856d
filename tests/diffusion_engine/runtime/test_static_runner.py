"""Padded passes over fixed memory give what eager ones give; and could be captured, which needs a GPU to be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from diffusion_engine.decoding import Pass
from diffusion_engine.models import Attention, DenseAttention, ModelConfig, load_model
from diffusion_engine.models.experts import PackedExperts
from diffusion_engine.models.quantize import quantize
from diffusion_engine.runtime import Limits, Scheduler, TorchRunner, make_runner
from diffusion_engine.runtime.attention import Segment
from diffusion_engine.runtime.pages import PAGE_TOKENS
from diffusion_engine.runtime.static_runner import ROWS, Shape, StaticRunner
from tests.diffusion_engine.conftest import EVERY_FAMILY, Loaded, run_all
from tests.diffusion_engine.tiny import write_checkpoint

PAGES = 96
STEP = Pass(tokens=[1, 2, 3], start=0, clean=3, wanted=[0, 2])


def traced(function: Callable[[], None]) -> Callable[[], None]:
    """What capturing would keep of a function, found out on the CPU: its tensor operations and the memory they use.

    Whatever Python decided or computed in the first call is fixed, as in a CUDA graph.
    """
    return make_fx(lambda: function())()  # type: ignore[no-any-return]


class NothingDependsOnData(TorchDispatchMode):
    """Refuses operations that a graph can't have: numbers read back, shapes that depend on values, host constants."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        tags = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags)
        by_number = func is torch.ops.aten.index.Tensor and all(i is None or i.dtype == torch.int64 for i in args[1])
        assert by_number or not tags, f"{func} depends on data"
        assert func is not torch.ops.aten.lift_fresh.default, "makes a tensor of host numbers"
        return func(*args, **(kwargs or {}))


@st.composite
def segments(draw: st.DrawFn, config: ModelConfig, most: int = 4) -> list[Segment]:
    """Passes of several requests, as the family's decoders ask for them, on pages in any order."""
    numbers = list(range(PAGES))
    draw(st.randoms(use_true_random=False)).shuffle(numbers)
    found, at = [], 0
    for _ in range(draw(st.integers(1, most))):
        start, clean = draw(st.integers(0, 90)), draw(st.integers(1, 12))
        masks, branches, behind, block_length = 0, 1, 0, None
        if config.attention is Attention.BIDIRECTIONAL:
            block_length, behind = config.max_positions, draw(st.integers(0, 30))
        elif config.attention is Attention.BLOCK_CAUSAL:
            block_length, start = 4, start // 4 * 4
        elif draw(st.booleans()):
            branches = draw(st.integers(1, clean))
            masks = branches * draw(st.integers(1, 4))
        rows = clean + masks
        tokens = [(draw(st.integers(0, 250)) + 11 * i) % 250 for i in range(clean)]
        wanted = sorted(draw(st.sets(st.integers(0, rows - 1), max_size=6)))
        step = Pass(
            tokens=tokens + [config.mask_token_ids[0]] * masks,
            start=start,
            clean=clean,
            masks=masks,
            wanted=wanted,
            block_length=block_length,
            branches=branches,
            behind=behind,
        )
        count = -(-(start + rows + behind) // PAGE_TOKENS)
        found.append(Segment(step, numbers[at : at + count]))
        at += count
    return found


def before(segment: Segment, salt: int = 0) -> Segment:
    """A pass that fills all that a segment sees of the cache."""
    seen = segment.seen
    tokens = [(7 * i + salt) % 250 for i in range(seen)]
    unit = segment.step.block_length
    return Segment(Pass(tokens=tokens, start=0, clean=seen, wanted=range(0), block_length=unit), segment.pages)


def assert_close(got: list[Tensor], wanted: list[Tensor]) -> None:
    assert [own.shape for own in got] == [own.shape for own in wanted]
    for ours, theirs in zip(got, wanted, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("family", EVERY_FAMILY)
@given(data=st.data())
@settings(deadline=None, max_examples=20)
def test_it_computes_what_eager_torch_computes(loaded: dict[str, Loaded], family: str, data: st.DataObject) -> None:
    """Any number of requests with any rows, masks, groups and canvases, on scattered pages; twice on one memory."""
    model = loaded[family]
    eager, static = TorchRunner(model.model, PAGES), StaticRunner(model.model, PAGES)
    for _ in range(2):
        batch = data.draw(segments(model.config))
        prefixes = [before(segment) for segment in batch]
        eager.run(prefixes)
        static.run(prefixes)
        assert_close(static.run(batch), eager.run(batch))


@pytest.fixture(scope="module")
def recorded(causal: Loaded) -> StaticRunner:
    """Keeps the shapes that it has recorded over all examples."""
    return StaticRunner(causal.model, PAGES, traced)


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_replays_compute_it_too(causal: Loaded, recorded: StaticRunner, data: st.DataObject) -> None:
    batch = data.draw(segments(causal.config, most=2))
    prefixes = [before(segment) for segment in batch]
    eager = TorchRunner(causal.model, PAGES)
    eager.run(prefixes)
    recorded.run(prefixes)
    assert_close(recorded.run(batch), eager.run(batch))


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_recorded_shape_serves_others_with_nothing_of_those_before(loaded: dict[str, Loaded], family: str) -> None:
    """Other tokens, positions, pages, masks and fewer requests, through what was kept of the first call."""
    model = loaded[family]
    recorded = []

    def record(function: Callable[[], None]) -> Callable[[], None]:
        recorded.append(function)
        return traced(function)

    static = StaticRunner(model.model, PAGES, record)
    unit = {Attention.CAUSAL: None, Attention.BLOCK_CAUSAL: 4}.get(model.config.attention, model.config.max_positions)
    first = [
        Segment(Pass(tokens=[5, 6, 7, 8], start=4 * i, clean=4, wanted=[1, 3], block_length=unit), [9 * i, 9 * i + 1])
        for i in range(4)
    ]
    static.run([before(segment) for segment in first])
    static.run(first)
    shapes = len(recorded)
    second = [
        Segment(Pass(tokens=[1, 2, 3], start=16, clean=3, wanted=[0, 1, 2], block_length=unit), [33, 1]),
        Segment(Pass(tokens=[9, 9, 9, 9], start=28, clean=4, wanted=[0], block_length=unit), [50, 60]),
        Segment(Pass(tokens=[4], start=0, clean=1, wanted=[0], block_length=unit), [80]),
    ]
    fill = [before(segment, salt=3) for segment in second]
    static.run(fill)
    after_fill = len(recorded)
    got = static.run(second)
    assert len(recorded) == after_fill <= shapes + 1, "the second batch has the shapes of the first"
    eager = TorchRunner(model.model, PAGES)
    eager.run(fill)
    assert_close(got, eager.run(second))


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_nothing_in_a_recorded_function_depends_on_data(loaded: dict[str, Loaded], family: str) -> None:
    def record(function: Callable[[], None]) -> Callable[[], None]:
        def checked() -> None:
            with NothingDependsOnData():
                function()

        return checked

    model = loaded[family]
    step = Pass(tokens=[5, 6, 7, 8], start=0, clean=4, wanted=[3], block_length=4)
    StaticRunner(model.model, 4, record).run([Segment(step, [0])])


def test_that_check_refuses_experts_that_are_run_one_by_one(loaded: dict[str, Loaded]) -> None:
    model = loaded["llada2_moe"].model
    tokens, attention = torch.tensor([5]), DenseAttention(torch.ones(1, 1, dtype=torch.bool))
    positions = torch.tensor([0])
    with NothingDependsOnData(), pytest.raises(AssertionError, match="depends on data"):
        model(tokens, positions, attention)


def test_packed_experts_are_in_memory_once_and_serve_both_ways(tmp_path: Path) -> None:
    model = load_model(write_checkpoint(tmp_path / "llada2_moe", "llada2_moe"))
    tokens, positions, attention = torch.arange(9), torch.arange(9), DenseAttention(torch.ones(9, 9, dtype=torch.bool))
    before = model(tokens, positions, attention)
    twin = model.with_packed_experts()
    packed = [module for module in twin.modules() if isinstance(module, PackedExperts)]
    assert packed
    for experts in packed:
        memory = experts.gate_up.untyped_storage().data_ptr()
        assert all(part.weight.untyped_storage().data_ptr() == memory for part in experts.routed.gate_up)
    assert not any(isinstance(module, PackedExperts) for module in model.modules())
    assert torch.equal(model(tokens, positions, attention), before)
    assert torch.allclose(twin(tokens, positions, attention), before, atol=1e-4)


def pool(runner: TorchRunner | StaticRunner) -> Tensor:
    """(layers, 2, slots, num_kv_heads, head_dim), a copy."""
    storage = runner.storage if isinstance(runner, TorchRunner) else runner._storage
    return torch.stack([torch.stack(parts) for parts in zip(storage.keys, storage.values, strict=True)])


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_padding_writes_to_no_page_of_anyone(causal: Loaded, rows: int) -> None:
    """Three requests padded to four, rows to the next size: only the slots of real rows change, and no zero slot."""
    static = StaticRunner(causal.model, PAGES)
    for layer in (*static._storage.keys, *static._storage.values):
        layer[: PAGES * PAGE_TOKENS] = 0.5
    untouched = pool(static)
    step = Pass(tokens=[7] * rows, start=5, clean=rows, wanted=[0])
    static.run([Segment(step, list(range(10 * i, 10 * i + 6))) for i in range(3)])
    mine = [160 * i + 5 + row for i in range(3) for row in range(rows)]
    others = [slot for slot in range(PAGES * PAGE_TOKENS + 1) if slot not in set(mine)]
    now = pool(static)
    assert torch.equal(now[:, :, others], untouched[:, :, others])
    assert (now[:, :, mine] != 0.5).any(dim=(0, 1, 3, 4)).all()
    assert not now[:, :, PAGES * PAGE_TOKENS].any()


def test_what_others_left_in_a_page_is_not_read_be_it_nan(causal: Loaded) -> None:
    runners = TorchRunner(causal.model, PAGES), StaticRunner(causal.model, PAGES)
    wanted, got = (runner.run([Segment(STEP, [3])])[0].clone() for runner in runners)
    assert torch.allclose(got, wanted, atol=1e-4)
    static = runners[1]
    for layer in (*static._storage.keys, *static._storage.values):
        layer[: PAGES * PAGE_TOKENS] = torch.nan
    assert torch.equal(static.run([Segment(STEP, [3])])[0], got)


def test_a_request_that_turns_to_nan_leaves_its_mates_alone(causal: Loaded) -> None:
    """Mates in the same pass, and padding in every later one."""
    static = StaticRunner(causal.model, PAGES)
    alone = static.run([Segment(STEP, [3])])[0].clone()
    ill = Segment(replace(STEP, start=4), [5])
    for layer in static._storage.keys:
        layer[5 * PAGE_TOKENS : 6 * PAGE_TOKENS] = torch.nan
    lost, well, mate = static.run([ill, Segment(STEP, [6]), Segment(STEP, [7])])
    assert lost.isnan().all()
    assert_close([well, mate], [alone, alone])
    assert torch.equal(static.run([Segment(STEP, [3])])[0], alone)


@torch.inference_mode()
def test_logits_are_the_callers_to_write_on(causal: Loaded) -> None:
    static = StaticRunner(causal.model, 8)
    (first,) = static.run([Segment(STEP, [0])])
    kept = first.clone()
    first.fill_(torch.nan)
    (again,) = static.run([Segment(STEP, [0])])
    assert torch.equal(again, kept)


def test_long_prompts_run_by_themselves_in_the_order_asked(causal: Loaded) -> None:
    eager, static = TorchRunner(causal.model, PAGES), StaticRunner(causal.model, PAGES)
    rows = ROWS[-1] + 1

    def long(salt: int, page: int) -> Segment:
        tokens = [(i + salt) % 200 for i in range(rows)]
        step = Pass(tokens=tokens, start=0, clean=rows, wanted=[rows - 1])
        return Segment(step, list(range(page, page + 5)))

    batch = [Segment(STEP, [0]), long(0, 10), Segment(replace(STEP, wanted=[1]), [1]), long(50, 20)]
    assert_close(static.run(batch), eager.run(batch))
    assert_close(static.run(batch[1:2]), eager.run(batch[1:2]))
    assert {shape.rows for shape in static._passes} == {4, 128}
    assert {shape.requests for shape in static._passes if shape.rows == 128} == {1}


@pytest.mark.parametrize("family", ["llama_draft", "sdar", "Dream"])
def test_after_preparing_no_step_meets_a_new_shape(loaded: dict[str, Loaded], family: str) -> None:
    """Replies of every strategy, up to as many at once as are let in, with prompts that are run in chunks and not."""
    model, recorded = loaded[family], 0

    def record(function: Callable[[], None]) -> Callable[[], None]:
        nonlocal recorded
        recorded += 1
        return function

    limits = Limits(max_requests=4, prefill_rows=128)
    static = StaticRunner(model.model, PAGES, record)
    scheduler = Scheduler(static, PAGES, model.tokenizer, limits)
    scheduler.warm_up()
    prepared = recorded
    assert prepared > 40
    for strategy in model.strategies:
        prompts = ([1, 2, 3] * 30, [4] * 5, [5, 6] * 50, [7])
        requests = [model.request(p, strategy, id=f"{len(p)}", max_tokens=12) for p in prompts]
        run_all(scheduler, requests)
    assert recorded == prepared
    assert len(static._passes) + len(static._heads) == prepared


def test_copied_pages_hold_what_the_others_held(causal: Loaded) -> None:
    static = StaticRunner(causal.model, PAGES)
    tokens = list(range(40))
    static.run([Segment(Pass(tokens=tokens, start=0, clean=40, wanted=range(0)), [5, 2, 9])])
    step = Pass(tokens=[1, 2], start=40, clean=2, wanted=[0, 1])
    wanted = static.run([Segment(step, [5, 2, 9])])[0].clone()
    static.copy([5, 2, 9], [20, 30, 25], 40)
    (got,) = static.run([Segment(step, [20, 30, 25])])
    assert torch.equal(got, wanted)


@given(st.lists(st.tuples(st.integers(1, 256), st.integers(0, 3000)), min_size=1, max_size=40))
def test_shapes_hold_the_pass_and_are_few(passes: list[tuple[int, int]]) -> None:
    batch = [Segment(Pass(tokens=[0] * rows, start=start, clean=rows, wanted=range(0)), []) for rows, start in passes]
    shape = Shape.of(batch)
    assert shape.requests >= len(batch) > shape.requests // 2
    assert shape.rows in (*ROWS, 128, 256)
    assert shape.rows < 2 * max(rows for rows, _ in passes) or shape.rows in ROWS
    assert shape.rows >= max(rows for rows, _ in passes)
    assert shape.keys % PAGE_TOKENS == 0
    assert max(segment.seen for segment in batch) <= shape.keys
    assert shape.keys in (256, 512, 1024, 2048, 4096)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_replies_are_those_of_the_eager_runner(loaded: dict[str, Loaded], family: str) -> None:
    """Every strategy, three requests at once, prompts that share a prefix."""
    model = loaded[family]
    for strategy in model.strategies:
        requests = [
            model.request([1, 2, 3, 4] * (3 * i + 1), strategy, id=str(i), max_tokens=12, seed=i) for i in range(3)
        ]
        static = Scheduler(StaticRunner(model.model, 64), 64, model.tokenizer, Limits())
        assert [r.text for r in run_all(static, requests)] == [r.text for r in run_all(model.scheduler(), requests)]


def test_int8_weights_stay_with_the_runners_of_the_cpu(causal: Loaded) -> None:
    model = quantize(load_model(causal.folder))
    with pytest.raises(ValueError, match="the static runner serves no int8 weights"):
        make_runner("static", model, 4)


def test_auto_takes_it_on_no_cpu(causal: Loaded) -> None:
    assert isinstance(make_runner("auto", causal.model, 4), TorchRunner)
    assert isinstance(make_runner("static", causal.model, 4), StaticRunner)
