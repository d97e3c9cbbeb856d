"""Hybrid decoding in one pass a round: verify a draft, and draft behind every possible end of its acceptance.

Behind a draft of k tokens there are k + 1 such ends, so a pass has (k + 1) groups of masks beside its text: nearly free
where a forward is bound by reading weights, dear where it is bound by arithmetic unless k is small (TiDAR, arXiv
2511.08923). The text is that of the causal model, as in the form of two passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diffusion_engine.decoding.causal import CausalDecoder
from diffusion_engine.decoding.passes import Pass
from diffusion_engine.decoding.reading import Reading


class OnePassDecoder(CausalDecoder):
    """See the module. The first round is a draft pass, as is one behind a draft that left no room for branches."""

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`."""
        step = super().plan(cached, max_rows)
        if not self._draft or not len(step.wanted):
            return step
        branches = len(self._draft) + 1
        texts = len(step.tokens)
        masks = min(self._draft_length, self._max_length - len(self.text) - branches + self._unasked)
        room = self._config.max_positions - step.start - texts
        if masks <= self._unasked or branches * masks > room:
            return step
        groups = [texts + group * masks for group in range(branches)]
        asked = [row for first in groups for row in range(first + self._unasked, first + masks)]
        return replace(
            step,
            tokens=step.tokens + self._config.mask_block(masks) * branches,
            masks=branches * masks,
            branches=branches,
            wanted=[*step.wanted, *asked],
            query=self._drawing(len(step.wanted), len(asked)),
        )

    def _redraft(self, step: Pass, readings: Sequence[Reading], emitted: int, accepted: int) -> None:
        if step.branches == 1:
            self._look_up()
            return
        asked = step.masks // step.branches - self._unasked
        first = step.branches + accepted * asked
        draft = [reading.best for reading in readings[first : first + asked]]
        # The group continues the first token behind what was accepted; a grammar may have forced more.
        forced = max(0, emitted - accepted - 1)
        self._draft = self._fitting(draft[forced:])
        self._draft_is_looked_up = False
