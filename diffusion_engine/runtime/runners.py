"""Which runner computes a model."""

from __future__ import annotations

from typing import Literal

from diffusion_engine.models import Transformer
from diffusion_engine.models.quantize import Int8Linear
from diffusion_engine.runtime.runner import Runner, TorchRunner

RunnerKind = Literal["auto", "torch", "onnx"]
ONNX_THREADS = 1
"""By default: a second thread gains little where reading the weights is the limit, takes a core from speech, and lets
the order of sums depend on the number of rows."""


def make_runner(kind: RunnerKind, model: Transformer, pages: int, threads: int | None = None) -> Runner:
    """Build the runner of a loaded model.

    Args:
        kind: "auto" is ONNX Runtime for int8 models that its graphs cover, else torch.
        model: quantized or not.
        pages: of the KV pool.
        threads: of ONNX Runtime, `ONNX_THREADS` when None; torch's are the process's.

    Raises:
        ValueError: ONNX Runtime was asked for and can't run this model; the message says why.
    """
    missing = None if kind == "torch" else _not_in_onnx(model)
    if kind == "onnx" and missing:
        raise ValueError(f"the ONNX runner {missing}; use the torch runner")
    if kind == "torch" or missing:
        return TorchRunner(model, pages)
    from diffusion_engine.runtime.onnx_runner import OnnxRunner

    return OnnxRunner(model, pages, threads=threads or ONNX_THREADS)


def _not_in_onnx(model: Transformer) -> str | None:
    config = model.config
    if not isinstance(model.head, Int8Linear):
        return "serves int8 weights only"
    if config.experts is not None:
        return "has no mixture of experts"
    if config.rotated != config.head_dim or config.query_scaling is not None:
        return f"does not know the positions of family {config.family}"
    return None
