"""A loaded model on the bench: a scheduler that is stepped by hand and watched."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from diffusion_engine.decoding import Decoder, Pass, Progress, Reading
from diffusion_engine.runtime import EndCause, EndEvent, GenerationRequest, Limits, Runner, RunnerKind, Scheduler
from diffusion_engine.server.served_model import Dtype, ServedModel, load_served_model

CLAUSE_TOKENS = 12
"""About one clause of English: what a voice can begin with."""
WHOLE_TEXT = 1 << 30


@dataclass(frozen=True)
class Step:
    """One step's wall time, in seconds, apart: the runner's forward, and everything else that the engine did."""

    forward_s: float
    overhead_s: float


@dataclass(frozen=True)
class Run:
    """One request, from its submission.

    Attributes:
        tokens: of the reply, the end token not among them.
        cause: of its end.
        first_token_s: until the first token; None when there was none.
        clause_s: until `CLAUSE_TOKENS` tokens; None for shorter replies.
        reply_s: until the end.
        forwards: passes that it took part in.
        cached_tokens: of the prompt, found in the prefix cache.
        accepted_per_verification: see `RequestStatistics`.
        steps: of the scheduler meanwhile.
    """

    tokens: tuple[int, ...]
    cause: EndCause
    first_token_s: float | None
    clause_s: float | None
    reply_s: float
    forwards: int
    cached_tokens: int
    accepted_per_verification: float | None
    steps: tuple[Step, ...]


class Forgetful:
    """A decoder whose every pass runs the whole text: what an engine without a KV cache does.

    Attributes:
        text, logprobs: see `Decoder`.
    """

    cacheable = 0

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.text = decoder.text
        self.logprobs = decoder.logprobs

    @property
    def provisional(self) -> list[int | None]:
        """See `Decoder`."""
        return self._decoder.provisional

    @property
    def complete(self) -> bool:
        """See `Decoder`."""
        return self._decoder.complete

    def hurry(self, passes: int, tokens: int) -> None:
        """See `Decoder`."""
        self._decoder.hurry(passes, tokens)

    def plan(self, cached: int, max_rows: int) -> Pass:
        """See `Decoder`; in one pass, however long."""
        return self._decoder.plan(0, WHOLE_TEXT)

    def observe(self, step: Pass, readings: Sequence[Reading]) -> Progress:
        """See `Decoder`."""
        return replace(self._decoder.observe(step, readings), kept=0)


class BenchScheduler(Scheduler):
    """A scheduler whose parts can be watched.

    Attributes:
        recompute: ids of requests that run without a cache.
        decoders: of all requests submitted since they were last forgotten, by id.
    """

    def __init__(self, runner: Runner, pages: int, tokenizer: object, limits: Limits) -> None:
        super().__init__(runner, pages, tokenizer, limits)  # type: ignore[arg-type]
        self.recompute: set[str] = set()
        self.decoders: dict[str, Decoder] = {}

    @property
    def runner(self) -> Runner:
        """That computes."""
        return self._runner

    def _decoder(self, request: GenerationRequest) -> Decoder:
        decoder = super()._decoder(request)
        self.decoders[request.id] = decoder
        return Forgetful(decoder) if request.id in self.recompute else decoder


@dataclass(frozen=True)
class Bed:
    """A loaded model.

    Attributes:
        model: as the server has it; its engine is not started.
        scheduler: the engine's.
        name: such as "onnx int8".
    """

    model: ServedModel
    scheduler: BenchScheduler
    name: str


def load_bed(
    folder: Path,
    *,
    dtype: Dtype,
    device: str = "cpu",
    runner: RunnerKind = "auto",
    threads: int | None = None,
    max_requests: int = 8,
) -> Bed:
    """Load a checkpoint.

    Raises:
        CheckpointError, ValueError: see `load_served_model`.
    """
    made: list[BenchScheduler] = []

    def make_scheduler(runner: Runner, pages: int, tokenizer: object, limits: Limits) -> Scheduler:
        made.append(BenchScheduler(runner, pages, tokenizer, limits))
        return made[0]

    limits = Limits(max_requests=max_requests, timeout_s=600.0)
    model = load_served_model(
        folder,
        name=None,
        dtype=dtype,
        device=device,
        limits=limits,
        runner=runner,
        threads=threads,
        make_scheduler=make_scheduler,
    )
    computes = type(made[0].runner).__name__.removesuffix("Runner").lower()
    return Bed(model, made[0], f"{computes} {dtype}")


def run(bed: Bed, request: GenerationRequest, *, recompute: bool = False) -> Run:
    """Run one request alone."""
    return run_together(bed, [request], recompute=recompute)[0]


def run_together(bed: Bed, requests: list[GenerationRequest], *, recompute: bool = False) -> list[Run]:
    """Submit requests at once and step until all have ended; at most as many as the limits let run.

    Args:
        bed: idle.
        requests: with ids of their own.
        recompute: keep nothing in a cache, in between requests nor within one.
    """
    scheduler = bed.scheduler
    scheduler.decoders.clear()
    scheduler.recompute = {request.id for request in requests} if recompute else set()
    began = time.perf_counter()
    for request in requests:
        scheduler.submit(request)
    steps: list[Step] = []
    clauses: dict[str, float] = {}
    ends: dict[str, tuple[float, EndEvent]] = {}
    while not scheduler.idle:
        forward_s, step_s = scheduler.statistics.forward_s, scheduler.statistics.step_s
        events = scheduler.step()
        now = time.perf_counter()
        forward_s, step_s = scheduler.statistics.forward_s - forward_s, scheduler.statistics.step_s - step_s
        steps.append(Step(forward_s, step_s - forward_s))
        for id, event in events:
            if event.statistics.completion_tokens >= CLAUSE_TOKENS:
                clauses.setdefault(id, now - began)
            if isinstance(event, EndEvent):
                ends[id] = (now - began, event)
    return [_run(scheduler, request, began, steps, clauses.get(request.id), *ends[request.id]) for request in requests]


def prefill(bed: Bed, request: GenerationRequest, tokens: int | None = None) -> None:
    """Put a request's prompt into the prefix cache, as a client does while its user still speaks.

    Args:
        bed: idle.
        request: not run itself.
        tokens: only so many of the prompt; None for all.
    """
    prompt = request.prompt[:tokens]
    run(bed, replace(request, id=f"prefill/{request.id}", prompt=prompt, prefill_only=True, constraint=None, draft=()))


def _run(
    scheduler: BenchScheduler,
    request: GenerationRequest,
    began: float,
    steps: list[Step],
    clause_s: float | None,
    reply_s: float,
    end: EndEvent,
) -> Run:
    statistics = end.statistics
    text = scheduler.decoders[request.id].text[len(request.prompt) :]
    return Run(
        tokens=tuple(text[: statistics.completion_tokens]),
        cause=end.cause,
        first_token_s=None if statistics.first_token is None else statistics.first_token - began,
        clause_s=clause_s,
        reply_s=reply_s,
        forwards=statistics.forwards,
        cached_tokens=statistics.cached_tokens,
        accepted_per_verification=statistics.accepted_per_verification,
        steps=tuple(steps),
    )
