"""Between the host and a device: both ways through page-locked memory, which the device reads and writes by itself."""

from __future__ import annotations

import torch
from torch import Tensor


def send(host: Tensor, device: Tensor) -> None:
    """Copy to a device without waiting. What is copied is kept until it is there, whatever becomes of `host`."""
    device.copy_(host.pin_memory() if device.device.type == "cuda" else host, non_blocking=True)


def landing(of: Tensor) -> Tensor:
    """Memory on the host for what is in a tensor."""
    return torch.empty(of.shape, dtype=of.dtype, pin_memory=of.device.type == "cuda")


def receive(device: Tensor, host: Tensor) -> None:
    """Copy from a device, and wait until it has done all it was given to do.

    Args:
        device: the source.
        host: a `landing`, or a part of one.
    """
    host.copy_(device, non_blocking=True)
    if device.device.type == "cuda":
        torch.cuda.current_stream(device.device).synchronize()
