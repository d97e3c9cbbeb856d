"""Low-rank adapters (Hu et al., arXiv 2106.09685) on the linear layers of a frozen body."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffusion_engine.models.transformer import Transformer

ADAPTED = ("qkv", "out", "gate_up", "down")


class LoraLinear(nn.Module):
    """A frozen linear layer and a trained product of two thin matrices beside it."""

    def __init__(self, base: nn.Linear, rank: int, generator: torch.Generator) -> None:
        """Wrap a layer.

        Args:
            base: stays as it is.
            rank: inner dimension of the product.
            generator: makes the first matrix; the second begins at zero, so nothing changes at first.
        """
        super().__init__()
        self.base = base
        first = torch.empty(rank, base.in_features)
        nn.init.kaiming_uniform_(first, a=math.sqrt(5), generator=generator)
        self.first = nn.Parameter(first)
        self.second = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """(N, in) -> (N, out)."""
        low = functional.linear(x, self.first.to(x.dtype))
        out: Tensor = self.base(x) + functional.linear(low, self.second.to(x.dtype))
        return out


class DraftEmbedding(nn.Module):
    """A frozen vocabulary embedding and trained embeddings for the masks behind it."""

    def __init__(self, base: nn.Embedding, vocab_size: int, generator: torch.Generator) -> None:
        """Split the table at the vocabulary's end and start the masks near the mean token."""
        super().__init__()
        self.register_buffer("vocabulary", base.weight[:vocab_size].detach(), persistent=False)
        self.vocab_size = vocab_size
        count = base.num_embeddings - vocab_size
        mean, deviation = base.weight[:vocab_size].float().mean(0), base.weight[:vocab_size].float().std(0)
        noise = torch.randn(count, base.embedding_dim, generator=generator)
        self.masks = nn.Parameter(mean + 0.5 * deviation * noise)

    vocabulary: Tensor

    def forward(self, tokens: Tensor) -> Tensor:
        """(N,) ids -> (N, hidden_size)."""
        text = functional.embedding(tokens.clamp(max=self.vocab_size - 1), self.vocabulary)
        masks = functional.embedding((tokens - self.vocab_size).clamp(min=0), self.masks.to(text.dtype))
        return torch.where((tokens >= self.vocab_size)[:, None], masks, text)


def add_lora(model: Transformer, rank: int, seed: int) -> None:
    """Put an adapter on every linear layer of the body, and trained masks behind the vocabulary, in place."""
    generator = torch.Generator().manual_seed(seed)
    for layer in model.layers:
        for name in ADAPTED:
            setattr(layer, name, LoraLinear(getattr(layer, name), rank, generator))
    model.embedding = DraftEmbedding(model.embedding, model.config.vocab_size, generator)  # type: ignore[assignment]


def adapter_state(model: Transformer) -> dict[str, Tensor]:
    """The trained tensors: `layers.I.NAME.first|second` and `draft_masks`."""
    state = {
        f"layers.{index}.{name}.{half}": getattr(getattr(layer, name), half).detach()
        for index, layer in enumerate(model.layers)
        for name in ADAPTED
        for half in ("first", "second")
    }
    assert isinstance(model.embedding, DraftEmbedding)
    state["draft_masks"] = model.embedding.masks.detach()
    return state
