"""The two processes beside the calls: what they run, with which threads, at which priority."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

from voice_agent.server.process import ProcessSpec
from voice_agent.speech.client import SpeechClient

SPEECH_NICE = 2
ENGINE_NICE = 6
"""Calls come first (a late packet is heard), then speech, then the engine: each is waited for by the one before."""

_NO_SPINNING = {
    # A thread that spins while it waits takes the core that the other process needs: steps got 5-25 times slower.
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class EngineAddress:
    """Where our engine listens."""

    host: str
    port: int

    @property
    def base_url(self) -> str:
        """Up to and including /v1."""
        return f"http://{self.host}:{self.port}/v1"


def speech_spec(client: SpeechClient) -> ProcessSpec:
    """The recogniser and the synthesizer."""

    async def ready() -> None:
        await client.health()

    return ProcessSpec(
        name="speech",
        command=[sys.executable, "-m", "voice_agent.speech", "--socket", str(client.path)],
        ready=ready,
        environment=_NO_SPINNING,
        nice=SPEECH_NICE,
    )


def engine_spec(address: EngineAddress, model: Path | None, dtype: str | None) -> ProcessSpec:
    """The language model. ``model`` None is the embedded one, for which int8 is the default."""
    arguments = ["serve", "--host", address.host, "--port", str(address.port)]
    if model is not None:
        arguments += ["--model", str(model)]
    if dtype is not None or model is None:
        arguments += ["--dtype", dtype or "int8"]

    async def ready() -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=2.0) as http:
            response = await http.get(f"http://{address.host}:{address.port}/health")
            response.raise_for_status()

    return ProcessSpec(
        name="engine",
        command=[*_program("diffusion-engine", "diffusion_engine.cli"), *arguments],
        ready=ready,
        environment={
            **_NO_SPINNING,
            "OMP_NUM_THREADS": str(max(1, min(8, len(os.sched_getaffinity(0))))),
            "DIFFUSION_ENGINE_API_KEY": "",  # for engines that others can reach; this one is ours alone
        },
        nice=ENGINE_NICE,
        start_timeout_s=600.0,
    )


def _program(name: str, module: str) -> list[str]:
    """The installed script beside our interpreter, or the module it runs."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    return [found] if found else [sys.executable, "-m", module]


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
