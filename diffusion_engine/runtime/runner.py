"""Who computes a forward pass: the seam behind which torch can be exchanged for a faster runtime."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from diffusion_engine.models import ModelConfig, Transformer
from diffusion_engine.models.quantize import Int8Linear
from diffusion_engine.runtime.attention import KVStorage, PagedAttention, Segment, runs_of, wanted_rows


class Runner(Protocol):
    """Runs packed rows of many requests and keeps their keys and values in pages."""

    config: ModelConfig
    device: torch.device

    def prepare(self, requests: int, rows: int, wanted: int) -> None:
        """Do now what the first pass of each size would take longer for.

        Args:
            requests: in a step.
            rows: of one request.
            wanted: rows in a step whose logits are asked for.
        """
        ...

    def run(self, segments: list[Segment]) -> list[Tensor]:
        """One forward pass.

        Returns:
            For each segment the logits of its wanted rows, (len(wanted), vocab_size) float32, on `device`: the caller's
            to write on, until the next pass. A GPU may still be at work on them.
        """
        ...

    def copy(self, pages: list[int], target: list[int], tokens: int) -> None:
        """Copy the keys and values of the first `tokens` positions of some pages to others."""
        ...


class TorchRunner:
    """The transformer in eager PyTorch, on whatever device its weights are.

    Attributes:
        config, device: see `Runner`.
        storage: the KV pool.
    """

    def __init__(self, model: Transformer, pages: int) -> None:
        """Allocate the KV pool.

        Args:
            model: in evaluation mode; its weights may be quantized, its activations have the embedding's type.
            pages: in the pool.
        """
        self.config = model.config
        self._model = model
        dtype = model.embedding.weight.dtype
        self.device = model.embedding.weight.device
        self.storage = KVStorage(model.config, pages, dtype, self.device)
        # Rounding activations to int8 turns a difference in the last bit into a different reply. The quantized layers
        # are exact per row; attending in float64 makes all of the pass so: a draft verified among other rows, or behind
        # a cached prefix, gets the very logits of plain decoding. It costs about a tenth of a step.
        self._attention_dtype = torch.float64 if isinstance(model.head, Int8Linear) else dtype

    def prepare(self, requests: int, rows: int, wanted: int) -> None:
        """See `Runner`: nothing."""

    @torch.inference_mode()
    def run(self, segments: list[Segment]) -> list[Tensor]:
        """See `Runner`."""
        tokens = [token for segment in segments for token in segment.step.tokens]
        positions = [place for segment in segments for place in segment.step.positions]
        wanted = wanted_rows(segments)
        # Before the layers: behind them, a GPU's host would wait for them.
        chosen = torch.tensor(wanted, dtype=torch.long, device=self.device)
        hidden = self._model(
            torch.tensor(tokens, device=self.device),
            torch.tensor(positions, device=self.device),
            PagedAttention(self.storage, segments, self._attention_dtype),
        )
        if not wanted:
            return [torch.empty(0, self.config.vocab_size, device=self.device) for _ in segments]
        logits = self._model.logits(hidden[chosen])
        return list(torch.split(logits, [len(segment.step.wanted) for segment in segments]))

    @torch.inference_mode()
    def copy(self, pages: list[int], target: list[int], tokens: int) -> None:
        """See `Runner`."""
        for source, to in runs_of(pages, target, tokens):
            self.storage.copy(source, to)
