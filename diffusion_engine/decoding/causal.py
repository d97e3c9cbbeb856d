"""Decoding for families that are causal over clean text: autoregressive, and hybrid (drafted by diffusion, verified).

A hybrid round is two passes over one body. The draft pass runs the pending text, causal, and a block of masks behind
it: the last text row gives the next token as the autoregressive model would. Where the masks' logits are shifted by one
like every row's, the mask at offset j gives the token j + 1 places after it; else it gives that of its own place, and
the first mask, whose token is known, is not asked. The verification pass runs that token and the
draft, causal, and keeps the longest prefix that the causal model would have picked itself, and one more pick. It is the
commit pass as well: keys and values of what it keeps are those of clean text.

A draft can also be read off a text that the reply may repeat, without a pass: an earlier draft of it that the request
brings along (warm), or the prompt (prompt lookup). It is verified in the same way, and where it no longer fits,
drafting goes on as without it until two tokens agree again.

A pick is a function of the causal logits, the seed and the position. So the text is the autoregressive one at every
temperature, token for token; and since the draft is a point mass, accepting it exactly when the pick falls on it is
speculative sampling with the highest acceptance there is (Leviathan et al. 2023: min(1, p/q) = p of the drafted token).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from diffusion_engine.decoding.constraint import Constraint
from diffusion_engine.decoding.logprobs import LogprobRecorder
from diffusion_engine.decoding.lookup import GRAMS, continuation, sayable
from diffusion_engine.decoding.parameters import Sampling
from diffusion_engine.decoding.passes import Pass, Progress, prefill_chunk
from diffusion_engine.decoding.reading import BEST, Query, Reading
from diffusion_engine.decoding.sampling import pick, uniform
from diffusion_engine.models import ModelConfig

LONGEST_LOOKUP = 32
"""Tokens of a draft that costs no pass: a short reply in one verification."""


class CausalDecoder:
    """See the module; autoregressive is the case without masks.

    Attributes:
        logprobs: see `Decoder`.
        text: the prompt and the tokens emitted so far. Its last token is always pending: final, but not run yet.
    """

    def __init__(
        self,
        config: ModelConfig,
        prompt: list[int],
        *,
        max_length: int,
        draft_length: int,
        sampling: Sampling,
        suppressed: Tensor,
        constraint: Constraint | None = None,
        top_logprobs: int | None = None,
        warm_draft: Sequence[int] = (),
        prompt_lookup: bool = False,
    ) -> None:
        """Start a reply.

        Args:
            config: of the model; its family must be causal.
            prompt: at least one token.
            max_length: tokens of prompt and reply together; nothing is drafted beyond.
            draft_length: masks of a draft pass; 0 decodes autoregressively.
            sampling: how tokens are drawn.
            suppressed: int64 ids that are never emitted.
            constraint: a grammar at its beginning.
            top_logprobs: see `DecodingParameters`.
            warm_draft: an earlier draft of the reply, token ids.
            prompt_lookup: draft what followed the last tokens earlier in the text.
        """
        self.text = list(prompt)
        self._config = config
        self._max_length = max_length
        self._draft_length = draft_length
        self._unasked = 0 if config.shift_logits else 1
        """Leading masks of a draft whose tokens are known otherwise."""
        self._sampling = sampling
        self._suppressed = suppressed
        self._constraint = constraint
        self.logprobs = None if top_logprobs is None else LogprobRecorder(top_logprobs)
        self._opening = constraint.begin() if constraint else []
        self.text += self._opening
        # The end of the prompt before the draft: so the place where both begin is found like any other.
        self._source = [*prompt[-max(GRAMS) :], *warm_draft] if warm_draft else None
        self._prompt_lookup = prompt_lookup
        self._draft = self._looked_up()
        self._draft_is_looked_up = bool(self._draft)
        self._last_pass = False

    @property
    def provisional(self) -> list[int | None]:
        """See `Decoder`."""
        return [*self._draft]

    @property
    def complete(self) -> bool:
        """See `Decoder`."""
        return self._constraint is not None and self._constraint.complete

    @property
    def cacheable(self) -> int:
        """See `Decoder`."""
        return len(self.text) - 1

    def hurry(self, passes: int, tokens: int) -> None:
        """See `Decoder`: what the last pass drafts is taken as it is, since nothing will verify it."""
        self._last_pass = passes <= 1

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`."""
        end = len(self.text)
        chunk = prefill_chunk(self.text, cached, end, max_rows, None)
        if chunk is not None:
            return chunk
        pending = self.text[cached:]
        if self._draft:
            rows = pending + self._draft
            wanted = range(len(pending) - 1, len(rows))
            query = self._drawing(len(wanted))
            return Pass(tokens=rows, start=cached, clean=len(pending), wanted=wanted, query=query)
        masks = min(self._draft_length, self._max_length - end - 1 + self._unasked)
        if masks <= self._unasked:
            masks = 0
        drafted = range(len(pending) + self._unasked, len(pending) + masks)
        return Pass(
            tokens=pending + self._config.mask_block(masks),
            start=cached,
            clean=len(pending),
            masks=masks,
            wanted=[len(pending) - 1, *drafted],
            query=self._drawing(1, len(drafted)),
        )

    def observe(self, step: Pass, readings: Sequence[Reading]) -> Progress:
        """See `Decoder`."""
        if not len(step.wanted):
            return Progress(kept=step.clean, emitted=self._take_opening())
        emitted = self._take_opening()
        if self._draft:
            tokens, accepted = self._verify(readings)
            looked_up = self._draft_is_looked_up
            self._redraft(step, readings, len(tokens), accepted)
            return Progress(
                kept=step.clean + accepted,
                emitted=emitted + tokens,
                accepted=None if looked_up else accepted,
                reused=accepted if looked_up else None,
            )
        tokens = self._next(readings[0])
        if len(step.wanted) > 1:
            # The forced tokens stand where the first drafted ones would.
            self._draft = self._fitting([reading.best for reading in readings[1:]][len(tokens) - 1 :])
            checked = self._constraint is not None or self.logprobs is not None
            if self._last_pass and self._draft and not checked and not self._ended(tokens):
                return Progress(kept=step.clean, emitted=emitted + tokens + self._unverified(), hurried=True)
        else:
            self._look_up()
        return Progress(kept=step.clean, emitted=emitted + tokens)

    def _redraft(self, step: Pass, readings: Sequence[Reading], emitted: int, accepted: int) -> None:
        """Find the next draft behind a verification, if one is to be had without a pass of its own."""
        self._look_up()

    def _unverified(self) -> list[int]:
        draft, self._draft = self._draft, []
        taken = sayable(draft, self._suppressed.tolist(), self._config.eos_token_ids)
        self.text += taken
        return taken

    def _look_up(self) -> None:
        self._draft = self._looked_up()
        self._draft_is_looked_up = bool(self._draft)

    def _looked_up(self) -> list[int]:
        longest = min(LONGEST_LOOKUP, self._max_length - len(self.text) - 1)
        if longest < 1 or not (self._source or self._prompt_lookup):
            return []
        found = continuation(self.text, self._source, longest) if self._source else []
        if not found and self._prompt_lookup:
            found = continuation(self.text, self.text, longest)
        return self._fitting(found)

    def _drawing(self, rows: int, drafting: int = 0) -> Query:
        """For the next so many tokens, and rows of a draft behind; a grammar draws itself, among all that it allows."""
        if self._sampling.temperature == 0.0 or self._constraint is not None:
            return BEST
        first = len(self.text)
        drawn = [uniform(self._sampling.seed, first + row) for row in range(rows)]
        return Query(sampling=self._sampling, drawn=[*drawn, *[None] * drafting])

    def _take_opening(self) -> list[int]:
        opening, self._opening = self._opening, []
        return opening

    def _verify(self, readings: Sequence[Reading]) -> tuple[list[int], int]:
        """Tokens that the causal rows give, and how many of the drafted ones are among them."""
        emitted: list[int] = []
        accepted = 0
        while True:
            tokens = self._next(readings[accepted])
            emitted += tokens
            for token in tokens:
                if accepted == len(self._draft) or self._draft[accepted] != token:
                    return emitted, accepted
                accepted += 1
            if self.complete or self._ended(tokens):
                # The end was drafted: nothing may follow it.
                return emitted, accepted

    def _next(self, reading: Reading) -> list[int]:
        """Pick the next token; with a grammar, also those that must follow it."""
        position = len(self.text)
        if self._constraint is None:
            tokens = [reading.token]
        else:
            token = self._constraint.pick(
                reading,
                lambda row, attempt: pick(row, self._sampling, position, attempt),
                greedy=self._sampling.temperature == 0.0,
            )
            tokens = [token]
            if token not in self._config.eos_token_ids:
                tokens += self._constraint.take(token)
        if self.logprobs is not None:
            self.logprobs.note(position, tokens[0], reading.logits())
        self.text += tokens
        return tokens

    def _fitting(self, draft: list[int]) -> list[int]:
        if self._constraint is None or not draft:
            return draft
        return draft[: self._constraint.fitting(draft)]

    def _ended(self, tokens: list[int]) -> bool:
        return tokens[-1] in self._config.eos_token_ids
