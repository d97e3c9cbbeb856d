"""Which runner computes a model, and on which device."""

from __future__ import annotations

import logging
from typing import Literal

import torch

from diffusion_engine.models import Transformer
from diffusion_engine.models.quantize import Int8Linear
from diffusion_engine.runtime.runner import Runner, TorchRunner
from diffusion_engine.runtime.static_runner import StaticRunner

logger = logging.getLogger(__name__)

RunnerKind = Literal["auto", "torch", "onnx", "static"]
ONNX_THREADS = 1
"""By default: a second thread gains little where reading the weights is the limit, takes a core from speech, and lets
the order of sums depend on the number of rows."""


def find_device(name: str) -> torch.device:
    """The device of that name.

    Args:
        name: "cpu", "cuda" for the first GPU, or "cuda:N".

    Raises:
        ValueError: there is no such device; the message says what there is.
    """
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()) or name.endswith(":") or name[:4] == "cpu:":
        raise ValueError(f"no device is called {name!r}: choose cpu, cuda or cuda:N")
    if kind == "cpu":
        return torch.device("cpu")
    if torch.version.cuda is None:
        raise ValueError(f"no device {name}: this build of torch ({torch.__version__}) is for the CPU only")
    if not torch.cuda.is_available():
        raise ValueError(f"no device {name}: torch {torch.__version__} finds no usable NVIDIA GPU and driver")
    if int(index or 0) >= torch.cuda.device_count():
        raise ValueError(f"no device {name}: the last of this machine is cuda:{torch.cuda.device_count() - 1}")
    return torch.device("cuda", int(index or 0))


def make_runner(kind: RunnerKind, model: Transformer, pages: int, threads: int | None = None) -> Runner:
    """Build the runner of a loaded model, on the device of its weights.

    Args:
        kind: "auto" is, on the CPU, ONNX Runtime for int8 models that its graphs cover, on a GPU the static runner for
            models that it covers, else torch.
        model: quantized or not.
        pages: of the KV pool.
        threads: of ONNX Runtime, `ONNX_THREADS` when None; torch's are the process's.

    Raises:
        ValueError: the runner that was asked for can't run this model; the message says why.
    """
    on_cpu = model.embedding.weight.device.type == "cpu"
    if kind == "auto":
        preferred: RunnerKind = "onnx" if on_cpu else "static"
        missing = _missing(preferred, model)
        if missing and not on_cpu:
            logger.warning("the static runner %s: eager torch computes, without CUDA graphs", missing)
        chosen: RunnerKind = "torch" if missing else preferred
    else:
        chosen = kind
    if missing := _missing(chosen, model):
        raise ValueError(f"the {'ONNX' if chosen == 'onnx' else chosen} runner {missing}; use the torch runner")
    if chosen == "torch":
        return TorchRunner(model, pages)
    if chosen == "static":
        return StaticRunner(model, pages)
    from diffusion_engine.runtime.onnx_runner import OnnxRunner

    return OnnxRunner(model, pages, threads=threads or ONNX_THREADS)


def _missing(kind: RunnerKind, model: Transformer) -> str | None:
    """What keeps a runner from running a model, or None."""
    config = model.config
    if kind == "torch":
        return None
    if kind == "static" and isinstance(model.head, Int8Linear):
        return "serves no int8 weights"
    if kind == "onnx" and model.embedding.weight.device.type != "cpu":
        return "computes on the CPU only"
    if kind == "onnx" and not isinstance(model.head, Int8Linear):
        return "serves int8 weights only"
    if kind == "onnx" and config.experts is not None:
        return "has no mixture of experts"
    if kind == "onnx" and (config.rotated != config.head_dim or config.query_scaling is not None):
        return f"does not know the positions of family {config.family}"
    return None
