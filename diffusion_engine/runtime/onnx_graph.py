"""The quantized transformer as ONNX graphs, cut where keys and values go to the paged pool.

Stage i runs from the attention of layer i - 1 to the attention of layer i; the first and the last stage lack a half.
One attention graph serves all layers and requests. A linear layer is the arithmetic of `models.quantize.Int8Linear`:
one scale an activation row, so a row's result does not depend on the rows beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from diffusion_engine.models import ModelConfig, Transformer
from diffusion_engine.models.quantize import LARGEST, Int8Linear
from diffusion_engine.models.transformer import Layer, RMSNorm

ZERO_POINT = 128
KEY_MULTIPLE = 64
"""Attention weights are summed over a multiple of this many keys: the order of a sum, and with it the last bit, then
does not depend on how many rows a pass has."""

Shape = list[int | str | None]
Inputs = dict[str, tuple[int, Shape]]

_FLOAT, _INT64, _UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8
_CONTRIB = "com.microsoft"
_IR_VERSION = 10
_OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid(_CONTRIB, 1)]


class _Graph:
    """Collects nodes and weights; every value gets a name of its own."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._weights: list[TensorProto] = []
        self._count = 0

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output; its name."""
        return self.ops(kind, *inputs, outputs=1, domain=domain, **attributes)[0]

    def ops(self, kind: str, *inputs: str, outputs: int, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node; the names of its outputs."""
        self._count += 1
        names = [f"{kind}{self._count}.{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names

    def weight(self, value: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> str:
        """Add a constant; its name."""
        name = f"weight{len(self._weights)}"
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype)).reshape(np.shape(value))
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def model(self, inputs: Inputs, outputs: Mapping[str, tuple[str, Shape]]) -> bytes:
        """Close the graph.

        Args:
            inputs: name -> (element type, shape).
            outputs: name -> (the value it stands for, shape); float32.
        """
        for name, (value, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value], [name]))
        graph = helper.make_graph(
            self._nodes,
            "graph",
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(name, _FLOAT, shape) for name, (_, shape) in outputs.items()],
            self._weights,
        )
        model: ModelProto = helper.make_model(graph, opset_imports=_OPSETS, ir_version=_IR_VERSION)
        serialized: bytes = model.SerializeToString()
        return serialized


def _norm(graph: _Graph, x: str, norm: RMSNorm) -> str:
    weight = graph.weight(norm.weight.detach().float().numpy())
    return graph.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=norm.eps)


def _linear(graph: _Graph, x: str, layer: Int8Linear) -> str:
    peaks = graph.op("ReduceMax", graph.op("Abs", x), graph.weight([1], np.int64), keepdims=0)
    tiny = graph.weight(np.finfo(np.float32).tiny, np.float32)
    scale = graph.op("Max", graph.op("Mul", peaks, graph.weight(1 / LARGEST, np.float32)), tiny)
    rows = graph.op("QuantizeLinear", x, scale, "zero_points", axis=0)
    product = graph.op(
        "MatMulIntegerToFloat",
        rows,
        graph.weight(layer.weight.numpy()),
        graph.weight(1.0, np.float32),
        graph.weight(layer.scale.numpy()),
        graph.weight(ZERO_POINT, np.uint8),
        domain=_CONTRIB,
    )
    out = graph.op("Mul", product, graph.op("Unsqueeze", scale, graph.weight([1], np.int64)))
    return out if layer.bias is None else graph.op("Add", out, graph.weight(layer.bias.detach().numpy()))


def _cut(graph: _Graph, x: str, widths: Sequence[int]) -> list[str]:
    return graph.ops("Split", x, graph.weight(list(widths), np.int64), outputs=len(widths), axis=1)


def _heads_norm(graph: _Graph, x: str, norm: RMSNorm | None, heads: int, head_dim: int) -> str:
    if norm is None:
        return x
    apart = graph.op("Reshape", x, graph.weight([-1, heads, head_dim], np.int64))
    return graph.op("Reshape", _norm(graph, apart, norm), graph.weight([-1, heads * head_dim], np.int64))


def _rotate(graph: _Graph, x: str, heads: int) -> str:
    batch = graph.op("Unsqueeze", x, graph.weight([0], np.int64))
    turned = graph.op(
        "RotaryEmbedding", batch, "positions", "cos", "sin", domain=_CONTRIB, interleaved=0, num_heads=heads
    )
    return graph.op("Squeeze", turned, graph.weight([0], np.int64))


def _behind_attention(graph: _Graph, x: str, layer: Layer) -> str:
    """The rest of a layer, from what its attention saw; the residual stream."""
    x = graph.op("Add", x, _linear(graph, "seen", layer.out))  # type: ignore[arg-type]
    both = _linear(graph, _norm(graph, x, layer.mlp_norm), layer.gate_up)  # type: ignore[arg-type]
    gate, up = graph.ops("Split", both, outputs=2, axis=1, num_outputs=2)
    gated = graph.op("Mul", graph.op("QuickGelu", gate, domain=_CONTRIB, alpha=1.0), up)
    return graph.op("Add", x, _linear(graph, gated, layer.down))  # type: ignore[arg-type]


def stage(model: Transformer, index: int) -> bytes:
    """Stage `index` of `num_layers` + 1.

    Inputs, for N rows: `x` (N, hidden_size), `zero_points` (N,) uint8; not in the first: `seen` (N, num_heads *
    head_dim); not in the last: `positions` (1, N) int64, `cos` and `sin` (P, head_dim / 2), P at least N
    and the context.
    Outputs: `residual` (N, hidden_size), in the last stage normalised; in the others `query` (N, num_heads * head_dim),
    `key` and `value` (N, num_kv_heads * head_dim), rotated.
    """
    config = model.config
    graph = _Graph()
    inputs: Inputs = {
        "x": (_FLOAT, ["N", config.hidden_size]),
        "zero_points": (_UINT8, ["N"]),
    }
    x = "x"
    if index > 0:
        inputs["seen"] = (_FLOAT, ["N", config.num_heads * config.head_dim])
        x = _behind_attention(graph, x, model.layers[index - 1])  # type: ignore[arg-type]
    if index == config.num_layers:
        return graph.model(inputs, {"residual": (_norm(graph, x, model.norm), ["N", config.hidden_size])})
    inputs["positions"] = (_INT64, [1, "N"])
    inputs["cos"] = inputs["sin"] = (_FLOAT, ["P", config.head_dim // 2])
    layer: Layer = model.layers[index]  # type: ignore[assignment]
    qkv = _linear(graph, _norm(graph, x, layer.attention_norm), layer.qkv)  # type: ignore[arg-type]
    widths = [heads * config.head_dim for heads in layer.heads]
    query, key, value = _cut(graph, qkv, widths)
    query = _heads_norm(graph, query, layer.query_norm, config.num_heads, config.head_dim)
    key = _heads_norm(graph, key, layer.key_norm, config.num_kv_heads, config.head_dim)
    return graph.model(
        inputs,
        {
            "residual": (x, ["N", config.hidden_size]),
            "query": (_rotate(graph, query, config.num_heads), ["N", widths[0]]),
            "key": (_rotate(graph, key, config.num_kv_heads), ["N", widths[1]]),
            "value": (value, ["N", widths[2]]),
        },
    )


def head(model: Transformer) -> bytes:
    """The projection: `x` (R, hidden_size), normalised, and `zero_points` (R,) -> `logits` (R, vocab_size)."""
    config = model.config
    graph = _Graph()
    logits = _linear(graph, "x", model.head)  # type: ignore[arg-type]
    return graph.model(
        {"x": (_FLOAT, ["N", config.hidden_size]), "zero_points": (_UINT8, ["N"])},
        {"logits": (logits, ["N", config.vocab_size])},
    )


def attention(config: ModelConfig) -> bytes:
    """Attention of one request's rows in one layer.

    Inputs, for N rows and S keys, P being the next multiple of `KEY_MULTIPLE` above S: `query` (N, num_heads *
    head_dim); for each key and value head h `key{h}`, `value{h}` (S, head_dim); `mask` (N, 1, P), added to the scores,
    and `fill` (N, num_heads, P - S), finite.
    Output: `seen` (N, num_heads * head_dim).
    """
    graph = _Graph()
    groups, dim = config.num_kv_heads, config.head_dim
    group = config.num_heads // groups
    kv_shape: Shape = ["S", dim]
    inputs: Inputs = {
        "query": (_FLOAT, ["N", config.num_heads * dim]),
        "mask": (_FLOAT, ["N", 1, "P"]),
        "fill": (_FLOAT, ["N", config.num_heads, "F"]),
    }
    scores = []
    for h, query in enumerate(_cut(graph, "query", [group * dim] * groups)):
        inputs[f"key{h}"] = inputs[f"value{h}"] = (_FLOAT, kv_shape)
        heads = graph.op("Reshape", query, graph.weight([-1, group, dim], np.int64))
        scale = 1 / math.sqrt(dim)
        scores.append(graph.op("FusedMatMul", heads, f"key{h}", domain=_CONTRIB, transB=1, alpha=scale))
    padded = graph.op("Concat", graph.op("Concat", *scores, axis=1), "fill", axis=2)
    weights = graph.op("Softmax", graph.op("Add", padded, "mask"), axis=-1)
    keys = graph.op("Shape", "key0", start=0, end=1)
    last = graph.weight([2], np.int64)
    weights = graph.op("Slice", weights, graph.weight([0], np.int64), keys, last)
    parts = graph.ops("Split", weights, graph.weight([group] * groups, np.int64), outputs=groups, axis=1)
    seen = graph.op("Concat", *(graph.op("MatMul", part, f"value{h}") for h, part in enumerate(parts)), axis=1)
    width = config.num_heads * dim
    flat = graph.op("Reshape", seen, graph.weight([-1, width], np.int64))
    return graph.model(inputs, {"seen": (flat, ["N", width])})


def tile(config: ModelConfig) -> bytes:
    """Attention of a tile of one request's rows to one key and value head: bit for bit what `attention` gives them.

    Over long texts, `attention` writes and reads all heads' scores of all rows in every operation, far more than a
    core's cache holds; a tile's stay in it.

    Inputs, for N rows and P keys, a multiple of `KEY_MULTIPLE`: `query` (N, group * head_dim), group being the query
    heads of a key and value head; `key`, `value` (P, head_dim); `mask` (N, 1, P), added to the scores.
    Output: `seen` (N, group * head_dim).
    """
    graph = _Graph()
    group, dim = config.num_heads // config.num_kv_heads, config.head_dim
    inputs: Inputs = {
        "query": (_FLOAT, ["N", group * dim]),
        "key": (_FLOAT, ["P", dim]),
        "value": (_FLOAT, ["P", dim]),
        "mask": (_FLOAT, ["N", 1, "P"]),
    }
    heads = graph.op("Reshape", "query", graph.weight([-1, group, dim], np.int64))
    scores = graph.op("FusedMatMul", heads, "key", domain=_CONTRIB, transB=1, alpha=1 / math.sqrt(dim))
    weights = graph.op("Softmax", graph.op("Add", scores, "mask"), axis=-1)
    flat = graph.op("Reshape", graph.op("MatMul", weights, "value"), graph.weight([-1, group * dim], np.int64))
    return graph.model(inputs, {"seen": (flat, ["N", group * dim])})
