"""How a reply held to a grammar can still be closed: short completions of the grammar's state.

The grammar engine tells which token may come next, not how far the end is. So the end is looked for: first by always
taking what closes most (a few microseconds a token), then by a breadth-first search over what the vocabulary offers.
A completion that is found is a proof; one that is not found proves nothing, so callers keep the last one they had.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

_CLOSERS = re.compile(rb"[}\]]+")
_EMPTY_VALUES = (b"{}", b"[]", b'""')
_STRING_END = re.compile(rb'"[}\]]*')
_RUN = re.compile(rb" +|a+|0+")
_STRUCTURAL = b',0123456789ntf[{-:" '
_IN_STRING = b"xQ~ "
"""Bytes that JSON allows in strings only (a blank stands elsewhere as well, but only where the grammar forces it)."""


@dataclass(frozen=True)
class Hints:
    """Stretches of tokens that a grammar may ask for where every letter fits. What fits of them, the grammar decides.

    Attributes:
        names: of required properties, up to their values.
        strings: ends of strings that patterns ask for, the shortest first.
    """

    names: Sequence[list[int]] = ()
    strings: Sequence[list[int]] = ()


_LONGEST_RUN = 16
_WIDTH = 24


class Closer:
    """Finds completions over one vocabulary; holds no state of a request."""

    def __init__(self, tokenizer: LLTokenizer, vocab_size: int) -> None:
        """Sort the tokens that closing takes: single bytes, brackets, ends of strings, and runs of one character.

        Args:
            tokenizer: the grammar engine's view of the vocabulary.
            vocab_size: columns of the logits.
        """
        self._vocab_size = vocab_size
        single: dict[int, int] = {}
        closers, empties, ends, runs = [], [], [], []
        for token in range(min(vocab_size, tokenizer.vocab_size)):
            spelled = b"" if tokenizer.is_special_token(token) else tokenizer.decode_bytes([token])
            if len(spelled) == 1:
                single.setdefault(spelled[0], token)
            if _CLOSERS.fullmatch(spelled):
                closers.append((-len(spelled), token))
            elif spelled in _EMPTY_VALUES:
                empties.append((0, token))
            elif _STRING_END.fullmatch(spelled):
                ends.append((-len(spelled), token))
            elif 1 < len(spelled) <= _LONGEST_RUN and _RUN.fullmatch(spelled):
                runs.append((-len(spelled), token))
        structural = [single[byte] for byte in _STRUCTURAL if byte in single]
        rest = [token for _, token in sorted(single.items())]
        self._string_ends = {token for _, token in ends}
        self._outside = _order(sorted(closers), empties, sorted(ends), [(0, t) for t in structural + rest])
        self._inside = _order(sorted(ends), sorted(runs), [(0, t) for t in rest])
        self._probes = np.array([single[byte] for byte in _IN_STRING if byte in single], dtype=np.int64)

    def closing(self, state: LLMatcher, limit: int, hints: Hints) -> list[int] | None:
        """Tokens that complete the reply from here, at most `limit`, not always the fewest; None when none is found.

        Args:
            state: of the grammar; not changed.
            limit: tokens.
            hints: of the grammar.
        """
        path = self._greedy(state, limit, Hints((), hints.strings))
        return self._greedy(state, limit, hints) if path is None and hints.names else path

    def _greedy(self, state: LLMatcher, limit: int, hints: Hints) -> list[int] | None:
        state = state.deep_copy()
        path: list[int] = []
        while not state.is_accepting():
            tokens = state.compute_ff_tokens() or self._next(state, hints)
            path += tokens
            if not tokens or len(path) > limit or not state.consume_tokens(tokens):
                return None
        return path

    def shortest(self, state: LLMatcher, limit: int, effort: int, hints: Hints) -> list[int] | None:
        """As `closing`, the fewest tokens that a search of bounded width finds.

        States of the same length that allow the same tokens count as one; what closes most is kept.

        Args:
            state: of the grammar; not changed.
            limit: tokens.
            effort: tokens to try before giving up.
            hints: of the grammar.
        """
        seen: set[tuple[int, bytes]] = set()
        expanded: dict[int, int] = {}
        # Ordered by length, then by how far from the first choices the path has strayed.
        queue: list[tuple[int, int, int, list[int], LLMatcher]] = [(0, 0, 0, [], state.deep_copy())]
        tried = 0
        while queue:
            length, strayed, _, path, here = heapq.heappop(queue)
            if here.is_accepting():
                return path
            key = (length, here.compute_bitmask())
            if key in seen or expanded.get(length, 0) >= _WIDTH:
                continue
            seen.add(key)
            expanded[length] = expanded.get(length, 0) + 1
            for rank, tokens in enumerate(self._continuations(here, hints)):
                tried += 1
                after = here.deep_copy()
                if tried <= effort and length + len(tokens) <= limit and after.consume_tokens(tokens):
                    heapq.heappush(queue, (length + len(tokens), strayed + rank, tried, path + tokens, after))
        return None

    def _continuations(self, state: LLMatcher, hints: Hints) -> list[list[int]]:
        if forced := state.compute_ff_tokens():
            return [forced]
        hinted = [_first_fitting(state, hints.names), _first_fitting(state, hints.strings)]
        return [tokens for tokens in hinted if tokens] + [[token] for token in self._choices(state)]

    def _next(self, state: LLMatcher, hints: Hints) -> list[int]:
        choices = self._choices(state)[:1]
        if name := _first_fitting(state, hints.names):
            return name
        if choices and choices[0] not in self._string_ends and (end := _first_fitting(state, hints.strings)):
            return end
        return choices

    def open_ended(self, state: LLMatcher) -> bool:
        """Whether a reply that may end here could as well go on in plain words: prose, not a document."""
        return not state.is_stopped() and bool(self._allowed(state)[self._probes].any())

    def _allowed(self, state: LLMatcher) -> NDArray[np.uint8]:
        packed = np.frombuffer(state.compute_bitmask(), dtype=np.uint8)
        return np.unpackbits(packed, count=self._vocab_size, bitorder="little")

    def _choices(self, state: LLMatcher) -> list[int]:
        """Allowed tokens worth a try, those that close most first."""
        allowed = self._allowed(state)
        order = self._inside if allowed[self._probes].any() else self._outside
        chosen: list[int] = order[allowed[order] == 1].tolist()
        return chosen or np.flatnonzero(allowed)[:1].tolist()


def _first_fitting(state: LLMatcher, stretches: Sequence[list[int]]) -> list[int]:
    return next((tokens for tokens in stretches if state.validate_tokens(tokens) == len(tokens)), [])


def _order(*groups: list[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(list(dict.fromkeys(token for group in groups for _, token in group)), dtype=np.int64)
