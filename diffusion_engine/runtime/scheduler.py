"""Who runs when: continuous batching at the granularity of a step.

A step packs one pass of every running request into one forward. Requests join and leave between steps.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding import (
    ConstraintError,
    Decoder,
    DecodingParameters,
    NonFiniteLogitsError,
    Pass,
    PrefillDecoder,
    ProbingDecoder,
    Reading,
    make_decoder,
    strategies_of,
    suppressed_tokens,
)
from diffusion_engine.decoding.causal import LONGEST_LOOKUP
from diffusion_engine.decoding.logprobs import TokenLogprobs
from diffusion_engine.models import Attention
from diffusion_engine.runtime.attention import Segment
from diffusion_engine.runtime.kv_cache import KVCache, PageTable
from diffusion_engine.runtime.limits import Limits
from diffusion_engine.runtime.pages import PAGE_TOKENS, OutOfPagesError
from diffusion_engine.runtime.reader import make_reader
from diffusion_engine.runtime.reply import Reply
from diffusion_engine.runtime.request import EndEvent, Event, GenerationRequest, SnapshotEvent, TextEvent
from diffusion_engine.runtime.runner import Runner
from diffusion_engine.runtime.statistics import EndCause, EngineStatistics, RequestStatistics

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Sequence:
    """A request in the engine."""

    request: GenerationRequest
    decoder: Decoder
    reply: Reply
    table: PageTable
    statistics: RequestStatistics
    published: bool = False
    position: int = 0
    """Of the next token to be emitted."""
    untold: list[TokenLogprobs] = field(default_factory=list)


_PACE_WEIGHT = 0.3
"""Of the last step in the running mean that says how many steps fit before a deadline. Steps that run a prompt tell
nothing of those that follow, and don't count."""
YIELDED_STEPS = 8
"""While a request of higher priority runs, the others take part in one step of this many: they don't starve."""


class Scheduler:
    """Runs requests, single-threaded; `Engine` gives it a thread.

    Priority decides who is admitted first, who gives up its place or its pages to whom, and who runs in a step: mates
    make a step longer, so those of lower priority sit most steps out. Among equals the elder goes first.
    """

    def __init__(
        self,
        runner: Runner,
        pages: int,
        tokenizer: Tokenizer,
        limits: Limits,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Start idle.

        Args:
            runner: computes; its pool has `pages`.
            pages: at least enough for one request of the whole context.
            tokenizer: of the checkpoint.
            limits: see `Limits`.
            clock: in seconds.

        Raises:
            ValueError: the pool is smaller than the context.
        """
        self.config = runner.config
        needed = math.ceil(self.config.max_positions / PAGE_TOKENS)
        if pages < needed:
            raise ValueError(f"the KV pool has {pages} pages; one request of the whole context needs {needed}")
        self.cache = KVCache(runner, pages, share=limits.prefix_cache and self.config.attention.exact)
        self.statistics = EngineStatistics()
        self._runner = runner
        self._tokenizer = tokenizer
        self._limits = limits
        self._clock = clock
        self._suppressed = suppressed_tokens(self.config, tokenizer.control_token_ids)
        self._reader = make_reader(runner.device, self._suppressed)
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._events: list[tuple[str, Event]] = []
        self._pace_s = 0.0

    @property
    def running(self) -> int:
        """Requests that take part in steps."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests not admitted yet."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Nothing to do."""
        return not self._running and not self._waiting

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request.

        Raises:
            ConstraintError: the grammar can't begin.
        """
        statistics = RequestStatistics(prompt_tokens=len(request.prompt), submitted=self._clock())
        self._waiting.append(
            Sequence(
                request,
                self._decoder(request),
                Reply(request, self._tokenizer, self.config.max_positions),
                PageTable(self._tree(request)),
                statistics,
            )
        )

    def warm_up(self) -> None:
        """Run passes of the sizes to come, so that the first request doesn't wait for kernels and memory.

        Leaves nothing behind, in the cache or in the totals.

        Raises:
            NonFiniteLogitsError: the model returns NaN or infinity; it can't be served.
        """
        most, block_length = (
            self._limits.max_requests,
            min(self.config.block_length, self.config.max_positions // 4 or 1, 64),
        )
        # A draft that is looked up is as long as a block or longer; either stands behind the last chunk of a prompt.
        drafted = max(block_length, LONGEST_LOOKUP + 1)
        rows = self._limits.prefill_rows + drafted if self.config.attention.exact else self.config.max_positions
        self._runner.prepare(most, rows, most * drafted)
        self._reader.prepare(most * drafted, self.config.vocab_size)
        parameters = DecodingParameters(
            strategy=strategies_of(self.config)[0], block_length=block_length, denoising_steps=min(4, block_length)
        )
        prompt = [0] * min(2 * PAGE_TOKENS, self.config.max_positions - 1)
        self.submit(GenerationRequest(id="warm-up", prompt=prompt, parameters=parameters, max_tokens=2 * block_length))
        while not self.idle:
            for _, event in self.step():
                if isinstance(event, EndEvent) and event.cause is EndCause.ERROR:
                    raise NonFiniteLogitsError(event.message or "the first passes failed")
        self.cache.prefix.clear()
        self.statistics = EngineStatistics()

    def cancel(self, request_id: str, cause: EndCause = EndCause.CANCELLED) -> bool:
        """End a request before the next step. False when it is not in the engine (any more)."""
        for sequence in [*self._running, *self._waiting]:
            if sequence.request.id == request_id:
                self._end(sequence, cause)
                return True
        return False

    def cancel_all(self, cause: EndCause) -> None:
        """End every request."""
        for sequence in [*self._running, *self._waiting]:
            self._end(sequence, cause)

    @torch.inference_mode()
    def step(self) -> list[tuple[str, Event]]:
        """Run one forward pass for all running requests.

        Returns:
            What happened since the last step: (request id, event).
        """
        started = self._clock()
        self._expire(started)
        self._admit()
        batch = self._plan()
        if batch:
            before = self._clock()
            decoding = all(sequence.statistics.prefilled is not None for sequence, _ in batch)
            logits = self._runner.run([Segment(step, sequence.table.pages) for sequence, step in batch])
            after = self._clock()
            readings = self._reader.read([step for _, step in batch], logits)
            if self._runner.device.type != "cpu":
                after = self._clock()  # what a GPU was given to do is done when its first answer is here
            self.statistics.forwards += 1
            self.statistics.forward_s += after - before
            self.statistics.rows += sum(len(step.tokens) for _, step in batch)
            for (sequence, step), own in zip(batch, readings, strict=True):
                self._observe(sequence, step, own)
        took = self._clock() - started
        self.statistics.step_s += took
        if batch and decoding:
            self._pace_s += (took - self._pace_s) * (_PACE_WEIGHT if self._pace_s else 1.0)
        return self.take_events()

    def take_events(self) -> list[tuple[str, Event]]:
        """What happened since the last call."""
        events, self._events = self._events, []
        return events

    def _decoder(self, request: GenerationRequest) -> Decoder:
        decoder = self._plain_decoder(request)
        return decoder if request.probe is None else ProbingDecoder(decoder, request.probe)

    def _plain_decoder(self, request: GenerationRequest) -> Decoder:
        if request.prefill_only:
            return PrefillDecoder(request.prompt if self.config.attention.exact else [], self._tree(request))
        return make_decoder(
            self.config,
            request.parameters,
            request.prompt,
            max_length=min(self.config.max_positions, len(request.prompt) + request.max_tokens),
            suppressed=self._suppressed,
            constraint=request.constraint,
            draft=request.draft,
        )

    def _tree(self, request: GenerationRequest) -> int | None:
        return request.parameters.block_length if self.config.attention is Attention.BLOCK_CAUSAL else None

    def _expire(self, now: float) -> None:
        for sequence in [*self._running, *self._waiting]:
            if now - sequence.statistics.submitted > self._limits.timeout_s:
                self._end(sequence, EndCause.TIMEOUT, f"the request took longer than {self._limits.timeout_s:g} s")
            elif (deadline := sequence.request.deadline_s) is not None:
                left = sequence.statistics.submitted + deadline - now
                passes = int(left / self._pace_s) if self._pace_s else 1 << 20
                # The pace is a guess: one that has had no pass gets one, and what refuses a pass counts for less.
                if left <= 0 or (passes < 1 and sequence.statistics.forwards):
                    self._pace_s *= 1.0 if left <= 0 else 1.0 - _PACE_WEIGHT
                    self._end(sequence, EndCause.DEADLINE)
                else:
                    sequence.decoder.hurry(max(1, passes), sequence.request.max_tokens - sequence.reply.tokens)

    def _admit(self) -> None:
        while self._waiting:
            sequence = max(self._waiting, key=_priority)
            if len(self._running) >= self._limits.max_requests:
                last = self._last_running()
                if _priority(last) >= _priority(sequence):
                    return
                self._preempt(last)
            decoder, request = sequence.decoder, sequence.request
            expected = min(len(decoder.text) + min(request.max_tokens, 256) + 32, self.config.max_positions)
            try:
                sequence.table = self.cache.acquire(decoder.text, decoder.cacheable, expected, self._tree(request))
            except OutOfPagesError:
                return
            self._waiting.remove(sequence)
            self._running.append(sequence)
            if sequence.statistics.admitted is None:
                sequence.statistics.admitted = self._clock()
                sequence.statistics.cached_tokens = sequence.table.cached
            if request.prefill_only and sequence.table.cached == len(decoder.text):
                self._end(sequence, EndCause.PREFILLED)

    def _plan(self) -> list[tuple[Sequence, Pass]]:
        batch: list[tuple[Sequence, Pass]] = []
        first = max(map(_priority, self._running), default=0)
        all_run = self.statistics.forwards % YIELDED_STEPS == 0
        for sequence in sorted(self._running, key=_priority, reverse=True):
            if sequence not in self._running:
                continue  # pre-empted by one before it
            if _priority(sequence) < first and not all_run:
                continue
            rows = self._limits.chunk_rows(sequence.table.cached, len(self._running))
            step = sequence.decoder.plan(sequence.table.cached, rows)
            if self._make_room(sequence, step.start + len(step.tokens)):
                batch.append((sequence, step))
        return [(sequence, step) for sequence, step in batch if sequence in self._running]

    def _make_room(self, sequence: Sequence, length: int) -> bool:
        """Extend a request's pages; the last in line make room when there is none."""
        while True:
            try:
                self.cache.extend(sequence.table, length)
            except OutOfPagesError:
                last = self._last_running()
                self._preempt(last)
                if last is sequence:
                    return False
            else:
                return True

    def _last_running(self) -> Sequence:
        """The youngest of those of lowest priority."""
        return min(reversed(self._running), key=_priority)

    def _preempt(self, sequence: Sequence) -> None:
        self.cache.release(sequence.table, sequence.decoder.text)
        sequence.published = False
        self._running.remove(sequence)
        self._waiting.appendleft(sequence)
        self.statistics.preempted += 1

    def _observe(self, sequence: Sequence, step: Pass, readings: list[Reading]) -> None:
        statistics = sequence.statistics
        statistics.forwards += 1
        try:
            if not all(reading.finite for reading in readings):
                raise NonFiniteLogitsError("the model returned NaN or infinite logits for this request")
            progress = sequence.decoder.observe(step, readings)
        except (NonFiniteLogitsError, ConstraintError) as fault:
            logger.error("request %s: %s", sequence.request.id, fault)
            # What this pass wrote may be NaN as well: nothing of the request enters the prefix cache.
            sequence.table.cached = 0
            self._end(sequence, EndCause.ERROR, str(fault))
            return
        sequence.table.cached = step.start + progress.kept
        statistics.denoising += progress.denoising
        if progress.accepted is not None:
            statistics.verifications += 1
            statistics.accepted += progress.accepted
        if progress.reused is not None:
            statistics.reused += progress.reused
        statistics.hurried += progress.hurried
        if progress.probability is not None:
            statistics.probability = progress.probability
        run = step.start + len(step.tokens)
        if len(step.wanted) and run >= len(sequence.request.prompt) and not sequence.published:
            # The prompt has just been run: from now on others may share its pages.
            self.cache.publish(sequence.table, sequence.decoder.text)
            sequence.published = True
            statistics.prefilled = statistics.prefilled or self._clock()
        self._say(sequence, progress.emitted)

    def _say(self, sequence: Sequence, emitted: list[int]) -> None:
        before = sequence.reply.tokens
        text = sequence.reply.add(emitted)
        self._note_logprobs(sequence, emitted, sequence.reply.tokens - before)
        sequence.statistics.completion_tokens = sequence.reply.tokens
        if emitted and sequence.statistics.first_token is None:
            sequence.statistics.first_token = self._clock()
        if text:
            self._tell(sequence, text)
        # A document whose last token is the budget's last one is complete, not cut.
        cut = sequence.reply.end in (EndCause.LENGTH, EndCause.CONTEXT) and sequence.decoder.complete
        whole = cut and self._said(sequence) == sequence.reply.tokens
        if sequence.reply.end is not None and not whole:
            self._end(sequence, sequence.reply.end)
        elif sequence.decoder.complete:
            self._end(sequence, EndCause.PREFILLED if sequence.request.prefill_only else EndCause.COMPLETE)
        elif sequence.request.snapshots:
            self._snapshot(sequence)

    def _tell(self, sequence: Sequence, text: str) -> None:
        told, sequence.untold = tuple(sequence.untold), []
        self._events.append((sequence.request.id, TextEvent(text, sequence.statistics, told)))

    def _note_logprobs(self, sequence: Sequence, emitted: list[int], counted: int) -> None:
        if (recorder := sequence.decoder.logprobs) is not None:
            first = len(sequence.request.prompt) + sequence.position
            taken = [recorder.take(first + i, token) for i, token in enumerate(emitted)]
            sequence.untold += taken[:counted]
        sequence.position += len(emitted)

    def _snapshot(self, sequence: Sequence) -> None:
        """Tell what the open block looks like, up to the end that it draws."""
        provisional = sequence.decoder.provisional
        tokens = [token for token in provisional if token is not None]
        end = next((i for i, token in enumerate(tokens) if token in self.config.eos_token_ids), len(tokens))
        text = sequence.reply.held + self._tokenizer.decode(tokens[:end])
        progress = len(tokens) / len(provisional) if provisional else 1.0
        self._events.append((sequence.request.id, SnapshotEvent(text, progress, sequence.statistics)))

    def _said(self, sequence: Sequence) -> int:
        """Tokens of the decoder's reply, the end token not counted."""
        text = sequence.decoder.text
        return len(text) - len(sequence.request.prompt) - (text[-1] in self.config.eos_token_ids)

    def _end(self, sequence: Sequence, cause: EndCause, message: str | None = None) -> None:
        if sequence in self._running:
            self._running.remove(sequence)
        else:
            self._waiting.remove(sequence)
        self.cache.release(sequence.table, sequence.decoder.text)
        statistics, totals = sequence.statistics, self.statistics
        statistics.finished = self._clock()
        if (deadline := sequence.request.deadline_s) is not None:
            in_time = statistics.finished - statistics.submitted <= deadline
            statistics.deadline_met = in_time and cause is not EndCause.DEADLINE
        totals.ended[cause] += 1
        totals.prompt_tokens += statistics.prompt_tokens
        totals.cached_tokens += statistics.cached_tokens
        totals.completion_tokens += statistics.completion_tokens
        totals.accepted += statistics.accepted
        totals.verifications += statistics.verifications
        logger.info(
            "request %s ended by %s: %d prompt tokens, %d of them cached, %d emitted in %d forwards",
            sequence.request.id, cause, statistics.prompt_tokens, statistics.cached_tokens,
            statistics.completion_tokens, statistics.forwards,
        )  # fmt: skip
        rest = sequence.reply.flush()
        said = rest if cause in (EndCause.COMPLETE, EndCause.DEADLINE) else ""
        if said or sequence.untold:
            self._tell(sequence, said)
        self._events.append((sequence.request.id, EndEvent(cause, statistics, message)))


def _priority(sequence: Sequence) -> int:
    return sequence.request.priority
