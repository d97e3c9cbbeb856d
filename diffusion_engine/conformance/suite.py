"""What a check is, and how a suite of them runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import httpx
import openai

PATIENCE_S = 60.0


class Skipped(Exception):  # noqa: N818  not an error
    """The endpoint can't be asked this; says why."""


class Failed(Exception):  # noqa: N818  the verdict on the endpoint, not an error of ours
    """The endpoint broke the contract; says how."""


class Verdict(StrEnum):
    """Of one check."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class Outcome:
    """Of one check.

    Attributes:
        area: such as `streaming`.
        name: what is claimed of the endpoint, in a sentence.
        verdict: see `Verdict`.
        reason: why it failed or was skipped; empty when it passed.
        seconds: that it took.
    """

    area: str
    name: str
    verdict: Verdict
    reason: str
    seconds: float


@dataclass
class Endpoint:
    """What is tested.

    Attributes:
        url: base URL, as clients take it: it ends in `/v1`.
        model: as requests name it.
        api_key: empty for none.
        overload: requests that the suite may send at the same time to fill the endpoint; 0 for none.
        limited_key: another key, whose rate limit may be used up; empty for none.
        client: the official client.
        http: for what the client can't send.
    """

    url: str
    model: str
    api_key: str = ""
    overload: int = 0
    limited_key: str = ""
    client: openai.OpenAI = field(init=False)
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        """Open the clients."""
        self.client = self.client_with(self.api_key)
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        self.http = httpx.Client(headers=headers, timeout=PATIENCE_S)

    def client_with(self, api_key: str) -> openai.OpenAI:
        """The official client with another key."""
        return openai.OpenAI(base_url=self.url, api_key=api_key or "none", max_retries=0, timeout=PATIENCE_S)

    def chat(self, prompt: str = "Say hello to the reader.", **more: Any) -> Any:
        """One chat completion, at temperature 0 and of at most 32 tokens unless told otherwise."""
        arguments: dict[str, Any] = {"temperature": 0, "max_tokens": 32, **more}
        if arguments["max_tokens"] is None:
            del arguments["max_tokens"]
        arguments.setdefault("messages", [{"role": "user", "content": prompt}])
        return self.client.chat.completions.create(model=self.model, **arguments)

    def close(self) -> None:
        """Close the clients."""
        self.client.close()
        self.http.close()


@dataclass(frozen=True)
class Check:
    """One claim and the way to test it."""

    area: str
    name: str
    run: Callable[[Endpoint], None]


class Suite:
    """Collects the checks of an area by decorator."""

    def __init__(self, area: str) -> None:
        self.area = area
        self.checks: list[Check] = []

    def check(self, name: str) -> Callable[[Callable[[Endpoint], None]], Callable[[Endpoint], None]]:
        """Add a check; `name` claims something of the endpoint."""

        def add(run: Callable[[Endpoint], None]) -> Callable[[Endpoint], None]:
            self.checks.append(Check(self.area, name, run))
            return run

        return add


def expect(condition: object, otherwise: str) -> None:
    """Raise `Failed` unless the condition holds."""
    if not condition:
        raise Failed(otherwise)


def run_checks(endpoint: Endpoint, checks: Iterable[Check]) -> Iterator[Outcome]:
    """Run one after the other; a check that breaks in any way has failed, and the next one runs."""
    for check in checks:
        started = time.perf_counter()
        verdict, reason = Verdict.PASS, ""
        try:
            check.run(endpoint)
        except Skipped as skipped:
            verdict, reason = Verdict.SKIP, str(skipped)
        except Failed as failed:
            verdict, reason = Verdict.FAIL, str(failed)
        except Exception as broken:  # whatever the endpoint sent: it is reported, and the others still run
            verdict, reason = Verdict.FAIL, f"{type(broken).__name__}: {broken}"
        yield Outcome(check.area, check.name, verdict, reason, round(time.perf_counter() - started, 3))
