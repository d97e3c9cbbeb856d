"""Diffusion language models in plain PyTorch: one transformer, a table of families, checkpoint loading."""

from diffusion_engine.models.config import Attention, ModelConfig
from diffusion_engine.models.errors import CheckpointError
from diffusion_engine.models.loading import load_model, read_config
from diffusion_engine.models.transformer import AttentionFn, DenseAttention, Transformer

__all__ = [
    "Attention",
    "AttentionFn",
    "CheckpointError",
    "DenseAttention",
    "ModelConfig",
    "Transformer",
    "load_model",
    "read_config",
]
