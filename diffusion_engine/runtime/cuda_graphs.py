"""Functions of fixed buffers, recorded once and replayed: CUDA graphs on a GPU, plain calls elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import torch

Recorder = Callable[[Callable[[], None]], Callable[[], None]]
"""Makes of a function one that does the same work on the same memory, whatever the memory then holds.

The function takes and returns nothing: it reads buffers and writes buffers, asks for no number back from the device,
and has the same shapes at every call.
"""


def recorder(device: torch.device) -> Recorder:
    """How functions are recorded on a device."""
    return _Capture(device) if device.type == "cuda" else _plain


def _plain(function: Callable[[], None]) -> Callable[[], None]:
    return function


class _Capture:
    """Captures functions as CUDA graphs of one memory pool.

    They share it, since whatever outlives a replay is in buffers of their owners' own.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, function: Callable[[], None]) -> Callable[[], None]:
        # A stream of this device: the one that torch would capture on belongs to whichever came first.
        with torch.cuda.device(self._device):
            aside = self._stream
            # Libraries set themselves up in a first call, which can't be captured; it works on the buffers as they are.
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                function()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=aside):
                function()
        return graph.replay
