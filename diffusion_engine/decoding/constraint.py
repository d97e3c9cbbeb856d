"""Holding a reply to a grammar, token by token, on its final prefix, and closing it before its budget ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from llguidance import LLMatcher
from torch import Tensor

from diffusion_engine.decoding.closing import Closer, Hints
from diffusion_engine.decoding.reading import Reading

Draw = Callable[[Tensor, int], int]
"""(logits of one token, (vocab_size,); the attempt, from 0) -> a token."""

_ATTEMPTS = 8
"""Draws that may be refused, because the reply could no longer be closed, before the known completion is followed."""
_LONGEST = 4096
_INITIAL_EFFORT = 40_000
_EFFORT = 60
"""Tokens tried when a completion isn't found at once: at the beginning, and then for each token."""


class ConstraintError(Exception):
    """The grammar engine gave up (limits exceeded) or was fed a token that it refuses."""


@dataclass
class Grammar:
    """What the requests of one grammar share.

    Attributes:
        matcher: at the grammar's beginning; copied, never moved.
        vocab_size: columns of the logits.
        closer: of the same vocabulary.
        end_tokens: that end a reply; they take nothing from a budget.
        hints: for closing it.
    """

    matcher: LLMatcher
    vocab_size: int
    closer: Closer
    end_tokens: tuple[int, ...] = ()
    hints: Hints = field(default_factory=Hints)

    @cached_property
    def shortest(self) -> list[int] | None:
        """The shortest reply that is found, by a search that may take a second; None when none is."""
        found = self.closer.shortest(self.matcher, _LONGEST, _INITIAL_EFFORT, self.hints)
        return found if found is not None else self.closer.closing(self.matcher, _LONGEST, self.hints)


class Constraint:
    """A grammar's state after the tokens so far.

    Wraps `llguidance.LLMatcher`. Every change is a `take`; looking ahead never changes the state.

    With a budget (`limit`), a completion that fits into the rest of it is known at all times: a token is picked only
    when one is found for the state behind it, and the last one found is followed where nothing else fits. So the reply
    is complete when the budget ends, whatever the model would rather say.
    """

    def __init__(self, grammar: Grammar) -> None:
        """Start at the grammar's beginning, without a budget."""
        self._grammar = grammar
        self._matcher = grammar.matcher.deep_copy()
        self._closer = grammar.closer
        self._end_tokens = grammar.end_tokens
        self._left: int | None = None
        self._closing: list[int] = []
        self._closing_after: dict[int, list[int]] = {}

    def limit(self, budget: int) -> int | None:
        """Hold the reply to a number of tokens; to be called first.

        Returns:
            The tokens of the shortest reply that was found, None when none was. If it is not within the budget, the
            reply is not steered, and the budget may cut it anywhere.
        """
        closing = self._closer.closing(self._matcher, budget, self._grammar.hints)
        if closing is None:
            closing = self._grammar.shortest
        if closing is None:
            return None
        if len(closing) <= budget:
            self._left, self._closing = budget, closing
        return len(closing)

    def mask(self, logits: Tensor) -> Tensor:
        """Set the next token's logits, (vocab_size,), to minus infinity where the grammar refuses it, in place.

        Raises:
            ConstraintError: no token is left, or the grammar engine failed.
        """
        packed = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if self._matcher.is_error():
            raise ConstraintError(self._matcher.get_error())
        if not packed.any():
            raise ConstraintError("the grammar allows no further token")
        allowed = torch.from_numpy(np.unpackbits(packed, count=self._grammar.vocab_size, bitorder="little"))
        return logits.masked_fill_(allowed == 0, -torch.inf)

    def pick(self, reading: Reading, draw: Draw, *, greedy: bool = False) -> int:
        """Draw the next token among those that the grammar allows and after which the reply can still be closed.

        A draw that is refused is struck out and drawn again: rejection sampling, so what is left keeps its proportions.

        Args:
            reading: of the next token.
            draw: must not repeat its randomness from one attempt to the next.
            greedy: it takes the largest logit, and so needs no mask, and no logits, where the grammar takes that token.

        Raises:
            ConstraintError: as `mask`.
        """
        if greedy and self.fitting([reading.best]) == 1:
            return reading.best
        masked = self.mask(reading.logits())
        if self._left is None:
            return draw(masked, 0)
        for attempt in range(_ATTEMPTS):
            token = draw(masked, attempt)
            if masked[token] == -torch.inf:
                break
            if token in self._end_tokens or self._closes_after(token):
                return token
            masked[token] = -torch.inf
        followed = self._closing or self._end_tokens
        if not followed:
            raise ConstraintError("the grammar allows no further token")
        return followed[0]

    def take(self, token: int) -> list[int]:
        """Accept a token as final.

        Returns:
            The tokens that must follow and were taken as well (empty where there is a choice).

        Raises:
            ConstraintError: the grammar refuses the token.
        """
        if self._left is not None:
            if not self._closes_after(token):
                raise ConstraintError(f"after token {token} the reply could not be closed within its budget")
            self._closing = self._closing_after[token]
            self._left -= 1
        self._closing_after = {}
        if not self._matcher.consume_token(token):
            raise ConstraintError(self._matcher.get_error() or f"token {token} is refused")
        return self.begin()

    def begin(self) -> list[int]:
        """The tokens that must follow (at the beginning: that the reply must begin with), taken at once."""
        forced = self._matcher.compute_ff_tokens()
        if not forced:
            return []
        if self._left is not None:
            # They may be other tokens than those of the known completion, though they spell the same.
            closing = self._closing_behind(forced, self._left - len(forced))
            if closing is None:
                return []
            self._left, self._closing = self._left - len(forced), closing
        if not self._matcher.consume_tokens(forced):
            raise ConstraintError(self._matcher.get_error())
        self._closing_after = {}
        return forced

    def fitting(self, tokens: list[int]) -> int:
        """How many of the tokens, from the first, the grammar would take and could still close the reply after."""
        count = self._matcher.validate_tokens(tokens)
        while count and self._left is not None and not self._closes_behind(tokens[:count]):
            count -= 1
        return count

    @property
    def complete(self) -> bool:
        """Nothing but the end may follow; or the budget is spent, and what there is is a whole document."""
        if self._matcher.is_stopped():
            return True
        return self._left == 0 and self._matcher.is_accepting() and not self._closer.open_ended(self._matcher)

    def _closes_after(self, token: int) -> bool:
        """Whether the reply can be closed after the token; what was found is kept for `take`."""
        assert self._left is not None
        if token not in self._closing_after:
            closing = self._closing_behind([token], self._left - 1)
            if closing is None:
                return False
            self._closing_after[token] = closing
        return True

    def _closes_behind(self, tokens: list[int]) -> bool:
        assert self._left is not None
        if tokens[-1] in self._end_tokens:
            return True
        if len(tokens) == 1:
            return self._closes_after(tokens[0])
        return self._closing_behind(tokens, self._left - len(tokens)) is not None

    def _closing_behind(self, tokens: list[int], left: int) -> list[int] | None:
        """A completion of at most `left` tokens for the state behind the tokens."""
        if left < 0:
            return None
        if self._closing[: len(tokens)] == tokens:
            return self._closing[len(tokens) :]
        state = self._matcher.deep_copy()
        if not state.consume_tokens(tokens):
            return None
        if len(self._closing) <= left and self._still_closes(state):
            return self._closing
        closing = self._closer.closing(state, left, self._grammar.hints)
        return closing if closing is not None else self._closer.shortest(state, left, _EFFORT, self._grammar.hints)

    def _still_closes(self, state: LLMatcher) -> bool:
        """The known completion fits as it is: within a string or a number the end stays the same."""
        behind = state.deep_copy()
        return behind.try_consume_tokens(self._closing) == len(self._closing) and behind.is_accepting()
