"""The one transformer behind every family.

It works on packed rows: N tokens of any number of sequences, each with its position. Who sees whom, and where keys and
values live, is the business of the `AttentionFn` that a forward pass is given; the linear layers see only rows.
"""

from __future__ import annotations

import copy
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffusion_engine.models.config import ModelConfig
from diffusion_engine.models.experts import PackedExperts, RoutedExperts, gated
from diffusion_engine.models.positions import query_scale, rotary_table

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class AttentionFn(Protocol):
    """Attention over the rows of one forward pass and whatever is cached behind them."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend.

        Args:
            layer: index of the layer, for the cache.
            query: (N, num_heads, head_dim), rotated.
            key: (N, num_kv_heads, head_dim), rotated.
            value: (N, num_kv_heads, head_dim).

        Returns:
            (N, num_heads, head_dim).
        """
        ...


class DenseAttention:
    """Attention without a cache: all rows of the pass, under one mask."""

    def __init__(self, visible: Tensor) -> None:
        """Keep the mask.

        Args:
            visible: (N, N) bool, True where the row may see the column.
        """
        self.visible = visible

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """See `AttentionFn`."""
        return attend(query, key, value, self.visible)


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None) -> Tensor:
    """Scaled dot-product attention with grouped heads.

    Args:
        query: (N, num_heads, head_dim).
        key: (M, num_kv_heads, head_dim).
        value: (M, num_kv_heads, head_dim).
        visible: (N, M) bool, or None when every row sees every column.

    Returns:
        (N, num_heads, head_dim).
    """
    out: Tensor = functional.scaled_dot_product_attention(
        query.transpose(0, 1).unsqueeze(0),
        key.transpose(0, 1).unsqueeze(0),
        value.transpose(0, 1).unsqueeze(0),
        attn_mask=visible,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return out.squeeze(0).transpose(0, 1)


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in float32 (Zhang and Sennrich 2019)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return functional.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding in its two-halves layout; dimensions beyond the table's stay as they are.

    Args:
        x: (N, heads, head_dim).
        cos: (N, rotated).
        sin: (N, rotated).
    """
    rotated = cos.shape[-1]
    kept = x[..., rotated:]
    x = x[..., :rotated]
    first, second = x.chunk(2, dim=-1)
    out = x * cos.unsqueeze(1) + torch.cat([-second, first], dim=-1) * sin.unsqueeze(1)
    return torch.cat([out, kept], dim=-1) if kept.shape[-1] else out


class Layer(nn.Module):
    """One transformer layer: attention and a gated feed-forward, each behind a norm and a residual."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.heads = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
        self.head_dim = config.head_dim
        rows = sum(self.heads) * config.head_dim
        self.attention_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.qkv = nn.Linear(config.hidden_size, rows, bias=config.qkv_bias)
        self.query_norm = RMSNorm(config.head_dim, config.rms_norm_eps) if config.qk_norm else None
        self.key_norm = RMSNorm(config.head_dim, config.rms_norm_eps) if config.qk_norm else None
        self.out = nn.Linear(config.num_heads * config.head_dim, config.hidden_size, bias=False)
        self.mlp_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        inner = config.feed_forward_size(index)
        self.gate_up = nn.Linear(config.hidden_size, 2 * inner, bias=False)
        self.down = nn.Linear(inner, config.hidden_size, bias=False)
        experts = config.experts if config.has_experts(index) else None
        self.experts: nn.Module | None = None if experts is None else RoutedExperts(config.hidden_size, experts)

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        index: int,
        attention: AttentionFn,
        query_scale: Tensor | None = None,
    ) -> Tensor:
        """Run the layer on (N, hidden_size) rows; `query_scale`, (N, 1, 1), multiplies the rotated queries."""
        rows = x.shape[0]
        heads = self.qkv(self.attention_norm(x)).view(rows, sum(self.heads), self.head_dim)
        query, key, value = heads.split(self.heads, dim=1)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        query = rotate(query, cos, sin)
        if query_scale is not None:
            query = query * query_scale
        seen = attention(index, query, rotate(key, cos, sin), value)
        x = x + self.out(seen.reshape(rows, -1))
        inside = self.mlp_norm(x)
        out: Tensor = x + gated(inside, self.gate_up, self.down)
        return out if self.experts is None else out + self.experts(inside)


class Transformer(nn.Module):
    """Embedding, layers, final norm and output projection."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        # On the meta device nothing is initialised or computed: torch would load its compiler (3 s) to do so.
        meta = torch.get_default_device().type == "meta"
        unset = torch.empty(config.num_embeddings, config.hidden_size) if meta else None
        self.embedding = nn.Embedding(config.num_embeddings, config.hidden_size, _weight=unset)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.register_buffer("cos", torch.empty(0), persistent=False)
        self.register_buffer("sin", torch.empty(0), persistent=False)
        if not meta:
            self.cos, self.sin = rotary_table(config, torch.get_default_device())

    @property
    def precise_parameters(self) -> set[str]:
        """Parameters that stay in float32 whatever the type of the others."""
        return {name for name, _ in self.named_parameters() if name.endswith((".experts.router", ".experts.bias"))}

    def forward(self, tokens: Tensor, positions: Tensor, attention: AttentionFn) -> Tensor:
        """Run packed rows through the layers.

        Args:
            tokens: (N,) int64, ids of text and masks.
            positions: (N,) int64, each row's place in its own sequence.
            attention: who sees whom.

        Returns:
            (N, hidden_size), normalised, for `logits`.
        """
        x = self.embedding(tokens)
        cos, sin = self.cos[positions].to(x.dtype), self.sin[positions].to(x.dtype)
        scaling = self.config.query_scaling
        scale = None if scaling is None else query_scale(positions, scaling).to(x.dtype)
        for index, layer in enumerate(self.layers):
            x = layer(x, cos, sin, index, attention, scale)
        out: Tensor = self.norm(x)
        return out

    def with_packed_experts(self) -> Transformer:
        """The same transformer over the same weights, in which no shape depends on the routing; see `PackedExperts`."""
        if self.config.experts is None:
            return self
        twin = _shallow(self)
        twin.layers = nn.ModuleList()
        for layer in self.layers:
            other = _shallow(layer)
            if isinstance(layer.experts, RoutedExperts):
                other.experts = PackedExperts(layer.experts)
            twin.layers.append(other)
        return twin

    def logits(self, hidden: Tensor) -> Tensor:
        """Project chosen rows to the vocabulary.

        Args:
            hidden: (R, hidden_size), the rows whose logits are wanted and no others.

        Returns:
            (R, vocab_size) float32.
        """
        out: Tensor = self.head(hidden)
        return out.float()


def _shallow(module: ModuleT) -> ModuleT:
    """A copy that shares all parts, each of which can be exchanged in one without the other."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin
