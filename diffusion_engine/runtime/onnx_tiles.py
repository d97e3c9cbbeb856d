"""Attention of a long prefill in ONNX Runtime, tile by tile."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime

from diffusion_engine.decoding import Pass
from diffusion_engine.runtime.attention import visible
from diffusion_engine.runtime.onnx_binding import bind_input, bind_output
from diffusion_engine.runtime.onnx_graph import KEY_MULTIPLE

Floats = npt.NDArray[np.float32]
TILE_ROWS = 64
"""Rows of a tile. Fewer fit more surely into a core's cache, but every tile's products rearrange all keys first."""
LEAST_ROWS = 32
"""A pass of fewer is not worth the calls: one a key and value head, where `onnx_graph.attention` needs one in all."""
LEAST_KEYS = 256
"""Over fewer, all heads' scores stay in the cache as well."""


class Tiles:
    """The leading rows of a request's pass, those whose keys are all there in whole multiples.

    Keys that a row doesn't see change nothing in its result, so a tile sees whatever lies between its last key and the
    next multiple; only behind the request's own last key there may be anything, even NaN.
    """

    def __init__(
        self, step: Pass, seen: int, session: onnxruntime.InferenceSession, query: Floats, out: Floats
    ) -> None:
        """Prepare one pass.

        Args:
            step: the request's pass.
            seen: see `Segment`.
            session: of `onnx_graph.tile`.
            query: of all rows of the pass, (rows, num_heads * head_dim).
            out: what they saw goes there, likewise.
        """
        self._session = session
        self._query, self._out = query, out
        self._parts: list[tuple[slice, int, Floats, onnxruntime.IOBinding]] = []
        self.rows = 0
        if len(step.tokens) < LEAST_ROWS or seen < LEAST_KEYS:
            return
        allowed = visible(step).numpy()
        ends = seen - allowed[:, ::-1].argmax(axis=1)
        while self.rows < len(step.tokens):
            rows = slice(self.rows, min(self.rows + TILE_ROWS, len(step.tokens)))
            keys = -(-int(ends[rows].max()) // KEY_MULTIPLE) * KEY_MULTIPLE
            if keys > seen:
                break
            mask = np.where(allowed[rows, None, :keys], np.float32(0), np.float32(-np.inf))
            binding = session.io_binding()
            bind_input(binding, "mask", mask)
            self._parts.append((rows, keys, mask, binding))
            self.rows = rows.stop

    def attend(self, keys: Floats, values: Floats) -> None:
        """Fill the leading `rows` of `out`.

        Args:
            keys, values: of the text up to `seen`, (num_kv_heads, tokens, head_dim); a head's must be contiguous.
        """
        if not self.rows:
            return
        heads = len(keys)
        apart = (self.rows, heads, self._query.shape[1] // heads)
        query = np.ascontiguousarray(self._query[: self.rows].reshape(apart).swapaxes(0, 1))
        seen = np.empty_like(query)
        for head in range(heads):
            for rows, count, _, binding in self._parts:
                bind_input(binding, "query", query[head, rows])
                bind_input(binding, "key", keys[head, :count])
                bind_input(binding, "value", values[head, :count])
                bind_output(binding, "seen", seen[head, rows])
                self._session.run_with_iobinding(binding)
        self._out[: self.rows].reshape(apart)[:] = seen.swapaxes(0, 1)
