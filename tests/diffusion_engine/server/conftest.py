"""A server on a socket of its own, in this process, and the official client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai
import pytest
import uvicorn

from diffusion_engine.runtime import Limits
from diffusion_engine.server.access import Access
from diffusion_engine.server.app import create_app
from diffusion_engine.server.bodies import BODY_S
from diffusion_engine.server.served_model import ServedModel, load_served_model

PATIENCE_S = 20


@dataclass
class Served:
    model: ServedModel
    url: str

    def client(self, key: str = "unused") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_S)

    def metric(self, name: str) -> float:
        """A value at /metrics; `name` as Prometheus writes it, labels included."""
        for line in httpx.get(f"{self.url}/metrics").text.splitlines():
            if line.startswith(f"diffusion_engine_{name} "):
                return float(line.rsplit(maxsplit=1)[1])
        raise KeyError(name)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"


@contextmanager
def serving(
    folder: Path, *, access: Access | None = None, body_s: float = BODY_S, **limits: object
) -> Iterator[Served]:
    model = load_served_model(folder, name="tiny", dtype="fp32", limits=Limits(**limits))  # type: ignore[arg-type]
    server = uvicorn.Server(uvicorn.Config(create_app(model, access, body_s=body_s), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < deadline, "the server did not start"
            thread.join(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(model, f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session", params=["llama_draft", "sdar"])
def served(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Iterator[Served]:
    """Both families behind the API."""
    with serving(checkpoint(request.param)) as running:
        yield running


@pytest.fixture(scope="session")
def small(checkpoint: Callable[[str], Path]) -> Iterator[Served]:
    """A guarded server that takes one request at a time and lets one wait."""
    with serving(checkpoint("llama_draft"), access=Access(["secret"]), max_requests=1, max_waiting=1) as running:
        yield running
