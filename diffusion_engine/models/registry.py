"""The families the engine knows, by the `model_type` of a checkpoint's `config.json`.

A new family is a file in `families`, a line here, and golden vectors in the tests.
"""

from __future__ import annotations

from diffusion_engine.models.families.a2d import A2D_QWEN3
from diffusion_engine.models.families.dream import DREAM
from diffusion_engine.models.families.fast_dllm_v2 import FAST_DLLM_V2
from diffusion_engine.models.families.llada import LLADA
from diffusion_engine.models.families.llada2 import LLADA2
from diffusion_engine.models.families.llama_draft import LLAMA_DRAFT
from diffusion_engine.models.families.nemotron import NEMOTRON
from diffusion_engine.models.families.sdar import SDAR
from diffusion_engine.models.family import Family

FAMILIES: dict[str, Family] = {
    "sdar": SDAR,
    "llada2_moe": LLADA2,
    "llada": LLADA,
    "Dream": DREAM,
    "Fast_dLLM_Qwen": FAST_DLLM_V2,
    "a2d-qwen3": A2D_QWEN3,
    "nemotron_labs_diffusion": NEMOTRON,
    "llama_draft": LLAMA_DRAFT,
}
