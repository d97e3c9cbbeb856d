"""The quantized transformer in ONNX Runtime: the fast runner for the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from torch import Tensor

from diffusion_engine.models import ModelConfig, Transformer
from diffusion_engine.models.quantize import Int8Linear
from diffusion_engine.runtime import onnx_graph
from diffusion_engine.runtime.attention import Segment, contiguous, runs_of, slots_of, visible, wanted_rows
from diffusion_engine.runtime.onnx_binding import bind_input, bind_output
from diffusion_engine.runtime.onnx_graph import KEY_MULTIPLE, ZERO_POINT
from diffusion_engine.runtime.onnx_tiles import Tiles
from diffusion_engine.runtime.pages import PAGE_TOKENS

Floats = npt.NDArray[np.float32]
_KEPT_ROWS = 64
"""Buffers and their bindings are kept for passes of up to this many rows."""


@dataclass(frozen=True)
class _Buffers:
    """What the stages hand on for one number of rows, and each stage's bindings to it.

    Attributes:
        x: two, (rows, hidden_size): a stage reads one and writes the other.
        positions: (1, rows) int64.
        rotations: cosines and sines, (positions, head_dim / 2) each.
        query: (rows, num_heads * head_dim); `key` and `value`: (rows, num_kv_heads * head_dim).
        seen: like `query`.
        zero_points: (rows,).
        stages: bound to the addresses of the above, which must therefore live as long.
    """

    x: tuple[Floats, Floats]
    positions: npt.NDArray[np.int64]
    rotations: tuple[Floats, Floats]
    query: Floats
    key: Floats
    value: Floats
    seen: Floats
    zero_points: npt.NDArray[np.uint8]
    stages: list[onnxruntime.IOBinding]


class OnnxRunner:
    """See `Runner`. Serves int8 models; their text equals that of `TorchRunner` but for roundings of the last bit."""

    def __init__(self, model: Transformer, pages: int, *, threads: int) -> None:
        """Build the graphs and allocate the KV pool.

        Args:
            model: quantized; not needed afterwards.
            pages: in the pool.
            threads: that compute, shared by all graphs of the process; those that wait sleep.

        Raises:
            ValueError: the model is not quantized.
        """
        if not isinstance(model.head, Int8Linear):
            raise ValueError("the ONNX runner serves int8 models: quantize it first")
        config = model.config
        self.config: ModelConfig = config
        self.device = torch.device("cpu")
        options = _session_options(threads)

        def session(graph: bytes) -> onnxruntime.InferenceSession:
            return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

        self._stages = [session(onnx_graph.stage(model, i)) for i in range(config.num_layers + 1)]
        self._head = session(onnx_graph.head(model))
        self._attention = session(onnx_graph.attention(config))
        self._tile = session(onnx_graph.tile(config))
        self._embedding: Floats = model.embedding.weight.detach().float().numpy()
        half = config.head_dim // 2
        self._cos: Floats = np.ascontiguousarray(model.cos[:, :half].numpy())
        self._sin: Floats = np.ascontiguousarray(model.sin[:, :half].numpy())
        # Head by head, so that the keys of adjacent pages are one piece of memory that a graph can read in place.
        shape = (config.num_layers, 2, config.num_kv_heads, pages * PAGE_TOKENS, config.head_dim)
        self._pool: Floats = np.zeros(shape, dtype=np.float32)
        self._buffers: dict[int, _Buffers] = {}

    def prepare(self, requests: int, rows: int, wanted: int) -> None:
        """See `Runner`: nothing."""

    def run(self, segments: list[Segment]) -> list[Tensor]:
        """See `Runner`."""
        tokens = [token for segment in segments for token in segment.step.tokens]
        buffers = self._buffers_for(len(tokens))
        np.take(self._embedding, tokens, axis=0, out=buffers.x[0])
        buffers.positions[0] = [place for segment in segments for place in segment.step.positions]
        requests, at = [], 0
        for segment in segments:
            rows = slice(at, at + len(segment.step.tokens))
            tiles = Tiles(segment.step, segment.seen, self._tile, buffers.query[rows], buffers.seen[rows])
            requests.append(_Rows(segment, rows, self._pool, self._attention, tiles, buffers))
            at = rows.stop
        last = self.config.num_layers - 1
        for layer in range(last + 1):
            self._stages[layer].run_with_iobinding(buffers.stages[layer])
            for request, segment in zip(requests, segments, strict=True):
                request.write(layer)
                if layer < last or len(segment.step.wanted):  # a chunk of a prompt only leaves keys and values
                    request.attend(layer)
        if any(len(segment.step.wanted) for segment in segments):
            self._stages[-1].run_with_iobinding(buffers.stages[-1])
        return self._logits(segments, buffers.x[(self.config.num_layers + 1) % 2])

    def copy(self, pages: list[int], target: list[int], tokens: int) -> None:
        """See `Runner`."""
        for source, to in runs_of(pages, target, tokens):
            self._pool[:, :, :, to] = self._pool[:, :, :, source]

    def _logits(self, segments: list[Segment], hidden: Floats) -> list[Tensor]:
        wanted = wanted_rows(segments)
        if not wanted:
            return [torch.empty(0, self.config.vocab_size) for _ in segments]
        inputs = {"x": hidden[wanted], "zero_points": np.full(len(wanted), ZERO_POINT, np.uint8)}
        (logits,) = self._head.run(None, inputs)
        return list(torch.split(torch.from_numpy(logits), [len(segment.step.wanted) for segment in segments]))

    def _buffers_for(self, rows: int) -> _Buffers:
        kept = self._buffers.get(rows)
        if kept is None:
            kept = self._allocate(rows)
            if rows <= _KEPT_ROWS:
                self._buffers[rows] = kept
        return kept

    def _allocate(self, rows: int) -> _Buffers:
        config = self.config

        def floats(width: int) -> Floats:
            return np.empty((rows, width), dtype=np.float32)

        heads, kv_heads = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        # The operator refuses tables that are shorter than the pass; what is added is never read.
        missing = rows - len(self._cos)
        rotations = (self._cos, self._sin)
        if missing > 0:
            rotations = (np.pad(self._cos, ((0, missing), (0, 0))), np.pad(self._sin, ((0, missing), (0, 0))))
        buffers = _Buffers(
            x=(floats(config.hidden_size), floats(config.hidden_size)),
            positions=np.empty((1, rows), dtype=np.int64),
            rotations=rotations,
            query=floats(heads),
            key=floats(kv_heads),
            value=floats(kv_heads),
            seen=floats(heads),
            zero_points=np.full(rows, ZERO_POINT, dtype=np.uint8),
            stages=[],
        )
        for index, stage in enumerate(self._stages):
            binding = stage.io_binding()
            bind_input(binding, "x", buffers.x[index % 2])
            bind_input(binding, "zero_points", buffers.zero_points)
            bind_output(binding, "residual", buffers.x[(index + 1) % 2])
            if index > 0:
                bind_input(binding, "seen", buffers.seen)
            if index < config.num_layers:
                bind_input(binding, "positions", buffers.positions)
                bind_input(binding, "cos", buffers.rotations[0])
                bind_input(binding, "sin", buffers.rotations[1])
                for name in ("query", "key", "value"):
                    bind_output(binding, name, getattr(buffers, name))
            buffers.stages.append(binding)
        return buffers


class _Rows:
    """One request's rows in a pass: writes their keys and values to the pool and attends."""

    def __init__(
        self,
        segment: Segment,
        rows: slice,
        pool: Floats,
        attention: onnxruntime.InferenceSession,
        tiles: Tiles,
        buffers: _Buffers,
    ) -> None:
        """Bind what is the same in every layer.

        Args:
            segment: the request.
            rows: where its rows stand in the buffers.
            pool: (layers, 2, num_kv_heads, slots, head_dim).
            attention: see `onnx_graph.attention`; attends for the rows behind those of the tiles.
            tiles: of the leading rows.
            buffers: of the pass.
        """
        self._pool = pool
        self._session = attention
        self._binding: onnxruntime.IOBinding | None = None
        _, _, kv_heads, _, head_dim = pool.shape
        count, seen = rows.stop - rows.start, segment.seen
        self._apart = (count, kv_heads, head_dim)
        self._seen_shape = (seen, head_dim)
        self._new = (buffers.key[rows], buffers.value[rows])
        self._names = [[f"{kind}{h}" for h in range(kv_heads)] for kind in ("key", "value")]
        first = contiguous(segment.pages)
        self._seen: slice | npt.NDArray[np.int64]
        self._written: slice | npt.NDArray[np.int64]
        if first is None:
            self._seen = slots_of(segment.pages, 0, seen).numpy()
            self._written = self._seen[segment.step.start : segment.length]
        else:
            start = first * PAGE_TOKENS
            self._seen = slice(start, start + seen)
            self._written = slice(start + segment.step.start, start + segment.length)
        self._tiles = tiles
        if tiles.rows == count:
            return
        padded = (seen // KEY_MULTIPLE + 1) * KEY_MULTIPLE
        rest = slice(rows.start + tiles.rows, rows.stop)
        query = buffers.query[rest]
        mask = np.full((len(query), 1, padded), -np.inf, dtype=np.float32)
        mask[:, 0, :seen][visible(segment.step).numpy()[tiles.rows :]] = 0.0
        fill = np.zeros((len(query), query.shape[1] // head_dim, padded - seen), dtype=np.float32)
        self._bound = (mask, fill)
        self._binding = attention.io_binding()
        bind_input(self._binding, "query", query)
        bind_input(self._binding, "mask", mask)
        bind_input(self._binding, "fill", fill)
        bind_output(self._binding, "seen", buffers.seen[rest])

    def write(self, layer: int) -> None:
        """Put `key` and `value` into the pool."""
        for kind, new in enumerate(self._new):
            self._pool[layer, kind][:, self._written] = new.reshape(self._apart).transpose(1, 0, 2)

    def attend(self, layer: int) -> None:
        """Fill the rows of `seen` from `query` and the pool."""
        gathered = [
            heads[:, self._seen] if isinstance(self._seen, slice) else heads.take(self._seen, axis=1)
            for heads in self._pool[layer]
        ]
        self._tiles.attend(*gathered)
        if self._binding is None:
            return
        for seen, names in zip(gathered, self._names, strict=True):
            address, stride = seen.ctypes.data, seen.strides[0]
            for h, name in enumerate(names):
                self._binding.bind_input(name, "cpu", 0, np.float32, self._seen_shape, address + h * stride)
        self._session.run_with_iobinding(self._binding)


def _session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False
    return options
