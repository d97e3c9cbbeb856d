"""Arrays as inputs and outputs of an ONNX graph, without copies. They must live as long as their binding is used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime


def bind_input(binding: onnxruntime.IOBinding, name: str, array: npt.NDArray[np.generic]) -> None:
    """Let a graph read a contiguous array."""
    binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


def bind_output(binding: onnxruntime.IOBinding, name: str, array: npt.NDArray[np.generic]) -> None:
    """Let a graph write to a contiguous array."""
    binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
