"""What runs on a GPU, with tensors that have a device, a type and a shape, but no numbers: no operation mixes devices.

Such tensors need no GPU. They show neither speed nor numbers, nor that a kernel is there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from diffusion_engine.decoding import Pass, Query, Reads, Sampling
from diffusion_engine.models import read_config
from diffusion_engine.models.loading import load_state
from diffusion_engine.models.tensors import TensorFiles
from diffusion_engine.runtime import TorchRunner, reader, static_runner
from diffusion_engine.runtime.attention import Segment
from diffusion_engine.runtime.reader import StepReader
from diffusion_engine.runtime.static_runner import StaticRunner
from tests.diffusion_engine.conftest import EVERY_FAMILY

SEGMENTS = [
    Segment(Pass(tokens=[1] * 7, start=0, clean=3, masks=4, branches=2, wanted=[2, 3]), [0]),
    Segment(Pass(tokens=[1] * 4, start=12, clean=4, wanted=[0], block_length=4), [3]),
    Segment(Pass(tokens=[1] * 4, start=14, clean=4, wanted=[1, 2], block_length=64, behind=3), [6, 1]),
    Segment(Pass(tokens=[1] * 70, start=0, clean=70, wanted=[]), [9, 2, 4, 5, 8]),
]


@pytest.fixture(autouse=True)
def _without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Page-locked memory and streams need one."""
    monkeypatch.setattr(static_runner, "send", lambda host, device: device.copy_(host))
    monkeypatch.setattr(reader, "send", lambda host, device: device.copy_(host))
    monkeypatch.setattr(reader, "landing", lambda of: torch.empty(of.shape, dtype=of.dtype))
    monkeypatch.setattr(reader, "receive", lambda device, host: host.copy_(device))
    monkeypatch.setattr(reader, "readings", lambda rows, *others: [rows.shape] * len(rows))
    monkeypatch.setattr(StaticRunner, "_context", lambda self: nullcontext())


def run(folder: Path, make: Callable[..., TorchRunner | StaticRunner], segments: list[Segment] = SEGMENTS) -> None:
    config, family = read_config(folder)
    tensors = dict(TensorFiles(folder))
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = make(load_state(config, family, tensors, dtype=torch.bfloat16, device="cuda:0"))
        logits = made.run(segments)
        made.copy([0, 3], [1, 7], 20)
    assert [own.shape for own in logits] == [(len(segment.step.wanted), config.vocab_size) for segment in segments]
    assert {own.dtype for own in logits} == {torch.float32}
    assert {str(own.device) for own in logits} == {"cuda:0"}


@pytest.mark.parametrize("family", [family for family in EVERY_FAMILY if family != "llada2_moe"])
def test_both_runners_keep_every_operation_on_the_gpu(checkpoint: Callable[[str], Path], family: str) -> None:
    run(checkpoint(family), lambda model: TorchRunner(model, 10))
    run(checkpoint(family), lambda model: StaticRunner(model, 10, lambda function: function))


def test_experts_run_one_by_one_wait_for_their_choice_and_packed_ones_do_not(checkpoint: Callable[[str], Path]) -> None:
    folder = checkpoint("llada2_moe")
    with pytest.raises(DataDependentOutputException):
        run(folder, lambda model: TorchRunner(model, 10))
    run(folder, lambda model: StaticRunner(model, 10, lambda function: function), SEGMENTS[:3])


@pytest.mark.parametrize("top_p", [1.0, 0.5])
def test_reading_keeps_every_operation_on_the_gpu_but_the_last(top_p: float) -> None:
    query = Query(
        reads=Reads.PROBABILITIES | Reads.ENTROPY | Reads.MARGIN,
        sampling=Sampling(temperature=0.7, top_p=top_p),
        drawn=[0.1, None, 0.5],
        asked=[3, 4, None],
    )
    step = Pass(tokens=[1] * 3, start=0, clean=3, wanted=range(3), query=query)
    device, suppressed = torch.device("cuda:0"), torch.tensor([3, 4])
    with FakeTensorMode(allow_non_fake_inputs=True):
        all_at_once = StepReader(device, suppressed, lambda function: function)
        (found,) = all_at_once.read([step], [torch.zeros(3, 50, device=device)])
    assert len(found) == 3
