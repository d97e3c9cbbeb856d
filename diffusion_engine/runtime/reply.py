"""From emitted tokens to text, and where a reply ends."""

from __future__ import annotations

from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.runtime.repetition import RepetitionWatch
from diffusion_engine.runtime.request import GenerationRequest
from diffusion_engine.runtime.statistics import EndCause


class Reply:
    """Detokenizes a reply as it grows, and finds its end: an end token, a stop string (also inside a block), a limit.

    Attributes:
        tokens: emitted so far, the end token not counted.
        end: why the reply ended, or None.
    """

    def __init__(self, request: GenerationRequest, tokenizer: Tokenizer, max_positions: int) -> None:
        self.tokens = 0
        self.end: EndCause | None = None
        self._request = request
        self._decode = tokenizer.stream()
        self._eos = frozenset(tokenizer.eos_token_ids)
        self._room = max_positions - len(request.prompt)
        self._held = ""
        limit = request.repetition_limit if request.constraint is None else None
        self._repetition = None if limit is None else RepetitionWatch(limit)

    def add(self, emitted: list[int]) -> str:
        """Take new tokens; what follows the end is dropped.

        Returns:
            The text that is certain now. What may be the beginning of a stop string is held back.
        """
        for token in emitted:
            if token in self._eos:
                self.end = EndCause.STOP
                break
            self.tokens += 1
            self._held += self._decode.step(token)
            if self._cut_at_stop():
                self.end = EndCause.STOP_STRING
                break
            if self._repetition is not None and self._repetition.exceeded_by(token):
                self.end = EndCause.REPETITION
                break
            if self.tokens >= self._request.max_tokens:
                self.end = EndCause.LENGTH
                break
            if self.tokens >= self._room:
                self.end = EndCause.CONTEXT
                break
        return self._certain()

    @property
    def held(self) -> str:
        """Text that is final but may be the beginning of a stop string."""
        return self._held

    def flush(self) -> str:
        """The text held back, when the reply ends otherwise."""
        text, self._held = self._held, ""
        return text

    def _cut_at_stop(self) -> bool:
        found = [at for stop in self._request.stop if (at := self._held.find(stop)) >= 0]
        if found:
            self._held = self._held[: min(found)]
        return bool(found)

    def _certain(self) -> str:
        if self.end is not None:
            return self.flush()
        keep = max((_overlap(self._held, stop) for stop in self._request.stop), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that `stop` begins with."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
