"""What the engine's own thread does under load: concurrent requests, and requests that are given up."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from diffusion_engine.bench.bed import Bed
from diffusion_engine.bench.figures import figure, milliseconds
from diffusion_engine.bench.modes import Mode
from diffusion_engine.bench.prompts import ChatPrompt, engine_request
from diffusion_engine.runtime import EndCause, EndEvent, Engine, Event, GenerationRequest, Limits, TextEvent

CONCURRENT = 8
PATIENCE_S = 600.0


@dataclass
class Heard:
    """A request's events as its listener gets them. Times in seconds since it was submitted."""

    began: float = field(default_factory=time.perf_counter)
    text: str = ""
    first_token_s: float | None = None
    batches: int = 0
    end: EndEvent | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def listen(self, events: list[Event]) -> None:
        """Take a step's events."""
        now = time.perf_counter() - self.began
        with self.changed:
            self.batches += 1
            for event in events:
                if isinstance(event, TextEvent):
                    self.text += event.text
                    self.first_token_s = now if self.first_token_s is None else self.first_token_s
                elif isinstance(event, EndEvent):
                    self.end = event
            self.changed.notify_all()

    def wait(self, batches: int | None = None) -> EndEvent | None:
        """Wait for the end, or for so many steps with events.

        Raises:
            TimeoutError: neither came.
        """
        with self.changed:
            done = self.changed.wait_for(
                lambda: self.end is not None or (batches is not None and self.batches >= batches), PATIENCE_S
            )
        if not done:
            raise TimeoutError("the engine has stopped answering")
        return self.end


@contextmanager
def running(bed: Bed, max_requests: int = CONCURRENT) -> Iterator[Engine]:
    """An engine with a thread around the bed's scheduler, which is idle again afterwards."""
    engine = Engine(bed.scheduler, Limits(max_requests=max_requests))
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def ask(engine: Engine, request: GenerationRequest) -> Heard:
    """Submit a request and listen."""
    heard = Heard()
    engine.submit(request, heard.listen)
    return heard


def measure_concurrency(
    bed: Bed, mode: Mode, prompts: Sequence[ChatPrompt], *, rounds: int, max_tokens: int
) -> dict[str, Any]:
    """Eight requests at once beside the same ones alone, prompts cached: first tokens, and whether texts are the same.

    Args:
        bed: idle.
        mode: of decoding.
        prompts: eight are taken, in turn.
        rounds: of eight.
        max_tokens: of a reply.
    """
    alone: list[Heard] = []
    together: list[Heard] = []
    with running(bed) as engine:
        for number in range(rounds):
            chosen = [prompts[(number * CONCURRENT + i) % len(prompts)] for i in range(CONCURRENT)]

            def request(i: int, chosen: list[ChatPrompt] = chosen) -> GenerationRequest:
                return engine_request(bed.model, chosen[i], f"c{i}", max_tokens=max_tokens, **mode.options)

            for i in range(CONCURRENT):
                ask(engine, request(i)).wait()  # its prompt is cached from now on
                single = ask(engine, request(i))
                single.wait()
                alone.append(single)
            requests = [request(i) for i in range(CONCURRENT)]
            eight = [ask(engine, each) for each in requests]
            for heard in eight:
                heard.wait()
            together += eight
    single_figure = milliseconds(heard.first_token_s for heard in alone)
    figures = milliseconds(heard.first_token_s for heard in together)
    same = [a.text == b.text for a, b in zip(alone, together, strict=True)]
    return {
        "requests": CONCURRENT,
        "first_token_ms": figures,
        "single_first_token_ms": single_figure,
        "p95_to_single": round(figures["p95"] / single_figure["p50"], 2) if single_figure["p50"] else None,
        "identical": round(sum(same) / len(same), 4),
    }


def measure_cancel(
    bed: Bed, mode: Mode, prompts: Sequence[ChatPrompt], *, count: int, max_tokens: int
) -> dict[str, Any]:
    """Steps that the engine ran from a cancel to idle: requests given up before, in, and after their first steps."""
    rng = random.Random(0)
    steps: list[float] = []
    seconds: list[float] = []
    intact = True
    with running(bed) as engine:
        for number in range(count * 3):
            request = engine_request(
                bed.model, prompts[number % len(prompts)], f"x{number}", max_tokens=max_tokens, **mode.options
            )
            heard = ask(engine, request)
            heard.wait(batches=rng.randint(0, 2))
            time.sleep(rng.random() * 0.02)  # anywhere in a step
            before, asked = engine.statistics.forwards, time.perf_counter()
            engine.cancel(request.id)
            end = heard.wait()
            if end is None or end.cause is not EndCause.CANCELLED:
                continue  # it had ended by itself
            while not engine.idle:
                time.sleep(0)
            seconds.append(time.perf_counter() - asked)
            steps.append(engine.statistics.forwards - before)
            load = engine.load
            intact &= load.pages_free + load.pages_prefix_cache == load.pages_total
            if len(steps) == count:
                break
    return {"steps": figure(steps), "to_idle_ms": milliseconds(seconds), "pages_returned": intact}
