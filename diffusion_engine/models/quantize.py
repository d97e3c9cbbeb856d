"""int8 linear layers for the CPU, exact per row.

Weights get one scale an output channel, activations one scale a *row*, at run time. The integer product is exact, so a
row's result depends on that row alone: a causal pass that verifies drafts gives the same logits whatever stands beside
it. (One scale for all rows, the usual dynamic quantization, let the neighbours change 20-25 % of the replies.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffusion_engine.models.transformer import Transformer

LARGEST = 127.0


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and per-row int8 activations.

    Attributes:
        weight: (in, out) int8, a transposed view: the layout the kernel reads without copying.
        scale: (out,) float32.
        bias: (out,) float32, or None.
    """

    weight: Tensor
    scale: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scale = (weight.abs().amax(dim=1) / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
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


def quantize(model: Transformer) -> Transformer:
    """Replace every linear layer of a float32 model on the CPU by its int8 form, in place; returns the model."""
    for module in list(model.layers.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
    model.head = Int8Linear(model.head)  # type: ignore[assignment]
    return model
