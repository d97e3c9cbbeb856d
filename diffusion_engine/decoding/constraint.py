"""Holding a reply to a grammar, token by token, on its final prefix."""

from __future__ import annotations

import numpy as np
import torch
from llguidance import LLMatcher
from torch import Tensor


class ConstraintError(Exception):
    """The grammar engine gave up (limits exceeded) or was fed a token that it refuses."""


class Constraint:
    """A grammar's state after the tokens so far.

    Wraps `llguidance.LLMatcher`. Every change is a `take`; looking ahead never changes the state.
    """

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        """Start at the grammar's beginning.

        Args:
            matcher: a fresh matcher, this request's own.
            vocab_size: columns of the logits.
        """
        self._matcher = matcher
        self._vocab_size = vocab_size

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
        allowed = torch.from_numpy(np.unpackbits(packed, count=self._vocab_size, bitorder="little"))
        return logits.masked_fill_(allowed == 0, -torch.inf)

    def take(self, token: int) -> list[int]:
        """Accept a token as final.

        Returns:
            The tokens that must follow and were taken as well (empty where there is a choice).

        Raises:
            ConstraintError: the grammar refuses the token.
        """
        if not self._matcher.consume_token(token):
            raise ConstraintError(self._matcher.get_error() or f"token {token} is refused")
        forced = self._matcher.compute_ff_tokens()
        if forced and not self._matcher.consume_tokens(forced):
            raise ConstraintError(self._matcher.get_error())
        return forced

    def begin(self) -> list[int]:
        """The tokens that the reply must begin with, taken at once."""
        forced = self._matcher.compute_ff_tokens()
        if forced and not self._matcher.consume_tokens(forced):
            raise ConstraintError(self._matcher.get_error())
        return forced

    def fitting(self, tokens: list[int]) -> int:
        """How many of the tokens, from the first, the grammar would take."""
        return self._matcher.validate_tokens(tokens)

    @property
    def complete(self) -> bool:
        """Nothing but the end may follow."""
        return self._matcher.is_stopped()
