"""The real speech process, started once for the tests that need it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from voice_agent.speech.client import SpeechClient


def start(socket: Path, *options: str) -> subprocess.Popen[str]:
    """Start a speech process and wait until it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "voice_agent.speech", "--socket", str(socket), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, errors = process.communicate()
        pytest.fail(f"the speech process didn't start: {errors}")
    assert json.loads(line)["ready"] is True
    return process


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=20)


@pytest.fixture(scope="session")
def speech_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    socket = tmp_path_factory.mktemp("speech") / "speech.sock"
    process = start(socket)
    yield socket
    stop(process)


@pytest.fixture
async def speech_client(speech_socket: Path) -> AsyncIterator[SpeechClient]:
    async with SpeechClient(speech_socket) as client:
        yield client
