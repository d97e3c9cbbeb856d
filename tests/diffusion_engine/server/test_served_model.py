"""Every family is served in every type of weights, by the runner that can."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from diffusion_engine.decoding import DecodingParameters
from diffusion_engine.runtime import GenerationRequest, Limits
from diffusion_engine.server.served_model import Dtype, load_served_model
from tests.diffusion_engine.conftest import EVERY_FAMILY, run_one
from tests.diffusion_engine.tiny import write_checkpoint


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_family_answers_by_its_default_in_every_type_of_weights(family: str, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / family, family)
    for dtype in get_args(Dtype):
        model = load_served_model(folder, name=None, dtype=dtype, limits=Limits())
        assert model.name == family
        length = min(8, model.config.block_length)
        request = GenerationRequest(
            id="r",
            prompt=[1, 2, 3],
            parameters=DecodingParameters(strategy=model.strategy, block_length=length),
            max_tokens=5,
        )
        end = run_one(model.engine._scheduler, request).end
        assert end.cause in ("length", "stop")
        assert end.statistics.completion_tokens == 5 or end.cause == "stop"
