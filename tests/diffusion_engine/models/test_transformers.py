"""Bodies against `transformers` on random weights: golden vectors that need no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Ministral3Config,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from diffusion_engine.models import DenseAttention, load_model
from tests.diffusion_engine.tiny import tiny_config, write_checkpoint

SAME_BODY: dict[str, type[PretrainedConfig]] = {
    "nemotron_labs_diffusion": Ministral3Config,
    "a2d-qwen3": Qwen3Config,
    "sdar": Qwen3Config,
    "Fast_dLLM_Qwen": Qwen2Config,
    "Dream": Qwen2Config,
    "llama_draft": LlamaConfig,
}
RENAMED = {"encoder.": "model.", "diffusion_head.": "lm_head."}
"""Nemotron-Labs-Diffusion's names -> Ministral 3's."""


def reference(family: str, folder: Path) -> Any:
    """The same weights in the body that `transformers` has."""
    fields = tiny_config(family)
    for own in ("model_type", "mask_token_id", "block_size", "bd_size", "block_length", "draft_masks"):
        fields.pop(own, None)
    model = AutoModelForCausalLM.from_config(SAME_BODY[family](**fields), attn_implementation="eager")
    state = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        for theirs, usual in RENAMED.items():
            name = name.replace(theirs, usual, 1) if name.startswith(theirs) else name
        state[name] = tensor
    state.pop("model.draft_masks.weight", None)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}  # tied
    return model.eval()


@pytest.mark.parametrize("family", SAME_BODY)
@torch.inference_mode()
def test_the_causal_pass_equals_transformers(family: str, tmp_path: Path) -> None:
    """Over several original contexts of Nemotron's YaRN and query scaling (64 positions)."""
    folder = write_checkpoint(tmp_path, family)
    rows = 300
    tokens = torch.randint(0, 256, (rows,), generator=torch.Generator().manual_seed(1))
    expected = reference(family, folder)(tokens.unsqueeze(0)).logits[0]
    model = load_model(folder)
    causal = torch.ones(rows, rows, dtype=torch.bool).tril()
    logits = model.logits(model(tokens, torch.arange(rows), DenseAttention(causal)))
    assert torch.allclose(logits, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("rope", [{"truncate": False}, {"mscale": 0.0}, {"attention_factor": 1.3}, {"factor": 1.0}])
@torch.inference_mode()
def test_every_spelling_of_yarn_equals_transformers(rope: dict[str, Any], tmp_path: Path) -> None:
    family = "nemotron_labs_diffusion"
    parameters = tiny_config(family)["rope_parameters"] | rope
    folder = write_checkpoint(tmp_path, family, rope_parameters=parameters)
    fields = {**tiny_config(family), "rope_parameters": parameters}
    rotary = AutoModelForCausalLM.from_config(
        Ministral3Config(**{key: value for key, value in fields.items() if key != "model_type"})
    ).model.rotary_emb
    positions = torch.arange(300)
    cos, sin = rotary(torch.zeros(1, 1), positions.unsqueeze(0))
    model = load_model(folder)
    assert torch.allclose(model.cos[positions], cos[0], atol=1e-5)
    assert torch.allclose(model.sin[positions], sin[0], atol=1e-5)
