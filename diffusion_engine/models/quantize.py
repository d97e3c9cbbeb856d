"""int8 linear layers for the CPU, exact per row.

Weights get one scale an output channel, activations one scale a *row*, at run time. The integer product is exact, so a
row's result depends on that row alone: a causal pass that verifies drafts gives the same logits whatever stands beside
it. (One scale for all rows, the usual dynamic quantization, let the neighbours change 20-25 % of the replies.)
"""

from __future__ import annotations

import platform
from pathlib import Path

import torch
from torch import Tensor, nn

from diffusion_engine.models.transformer import Transformer

LARGEST = 127.0
"""In steps; of activations always, of weights where that is multiplied without saturating."""
LARGEST_IN_PAIRS = 64.0
"""In steps, of weights: kernels that add pairs of products with unsigned 8-bit activations in 16 bits (`vpmaddubsw`)
hold 2 * 255 * 64, and saturate silently beyond 32,767."""


def largest_weight(machine: str, flags: str) -> float:
    """In steps, what a CPU's integer kernels multiply exactly: x86 without VNNI (or AMX) adds products in pairs.

    Args:
        machine: as `platform.machine` names it.
        flags: of /proc/cpuinfo; empty where unknown, which is safe.
    """
    if machine.lower() not in ("x86_64", "amd64", "i386", "i686"):
        return LARGEST
    sums_in_32_bits = any(flag in flags for flag in ("avx512_vnni", "avx_vnni", "amx_int8"))
    return LARGEST if sums_in_32_bits else LARGEST_IN_PAIRS


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and per-row int8 activations.

    Attributes:
        weight: (in, out) int8, a transposed view: the layout the kernel reads without copying.
        scale: (out,) float32.
        bias: (out,) float32, or None.
    """

    weight: Tensor
    scale: Tensor

    def __init__(self, linear: nn.Linear, largest: float = LARGEST) -> None:
        """Quantize.

        Args:
            linear: float.
            largest: weight of an output channel, in steps; see `largest_weight`.
        """
        super().__init__()
        weight = linear.weight.detach().float()
        scale = (weight.abs().amax(dim=1) / largest).clamp(min=torch.finfo(torch.float32).tiny)
        quantized = (weight / scale[:, None]).round().to(torch.int8)
        self.register_buffer("weight", quantized.t())
        self.register_buffer("scale", scale)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, in) float32 -> (N, out) float32."""
        row_scale = (x.abs().amax(dim=1, keepdim=True) / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
        rows = (x / row_scale).round_().to(torch.int8)
        out = torch._int_mm(rows, self.weight).to(torch.float32).mul_(row_scale).mul_(self.scale)
        return out if self.bias is None else out.add_(self.bias)


def quantize(model: Transformer, largest: float | None = None) -> Transformer:
    """Replace every linear layer of a float32 model on the CPU by its int8 form, in place; returns the model.

    Args:
        model: to change.
        largest: weight, in steps; None for what this CPU multiplies exactly.
    """
    if largest is None:
        cpuinfo = Path("/proc/cpuinfo")
        largest = largest_weight(platform.machine(), cpuinfo.read_text() if cpuinfo.exists() else "")
    for module in list(model.layers.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child, largest))
    model.head = Int8Linear(model.head, largest)  # type: ignore[assignment]
    return model
