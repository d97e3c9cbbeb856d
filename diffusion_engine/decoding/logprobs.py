"""Log-probabilities of the tokens of a reply, each noted in the step that decides it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenLogprobs:
    """One token of a reply.

    Attributes:
        token: its id.
        logprob: its natural log-probability, of the model's own distribution over what may be emitted (temperature 1,
            before any grammar); 0 for a token that the grammar left no choice for.
        top: the most probable tokens at its place, with theirs.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class LogprobRecorder:
    """Keeps what the steps say of positions until their tokens are final."""

    def __init__(self, top: int) -> None:
        """Start.

        Args:
            top: how many alternatives to note.
        """
        self._top = top
        self._noted: dict[int, TokenLogprobs] = {}

    def note(self, position: int, token: int, logits: Tensor) -> None:
        """Note the token that a step writes; a later step may write another one over it.

        Args:
            position: in the sequence.
            token: id.
            logits: (vocab_size,) of the position, not masked by a grammar, minus infinity for what is never emitted.
        """
        logprobs = torch.log_softmax(logits.double(), dim=-1)
        logprob = float(logprobs[token])
        top: tuple[tuple[int, float], ...] = ()
        if self._top:
            values, tokens = logprobs.topk(self._top)
            top = tuple(zip(tokens.tolist(), values.tolist(), strict=True))
        self._noted[position] = TokenLogprobs(token, logprob, top)

    def take(self, position: int, token: int) -> TokenLogprobs:
        """What was noted of a token that is final now."""
        noted = self._noted.pop(position, None)
        return noted if noted is not None and noted.token == token else TokenLogprobs(token, 0.0)
