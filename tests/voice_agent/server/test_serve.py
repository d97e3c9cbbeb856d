"""`voice-agent serve` as a process: it fails with a clear message, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.voice_agent.llm.scripted_endpoint import Reply, scripted_endpoint
from voice_agent.llm import Endpoint
from voice_agent.server.endpoint_check import check_model
from voice_agent.server.process import StartError

NO_SECRETS = {key: value for key, value in os.environ.items() if not key.startswith("VOICE_AGENT_")}


async def run(*arguments: str) -> tuple[int, str]:
    """Run the command; returns its exit status and all it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "voice_agent.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=NO_SECRETS,
    )
    async with asyncio.timeout(90):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def places(folder: Path) -> list[str]:
    return ["--database", str(folder / "bookings.sqlite"), "--record-dir", str(folder / "records"), "--port", "0"]


async def test_a_taken_port_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, output = await run("serve", *places(tmp_path), "--port", str(port))
    assert status == 1
    assert output.startswith(f"error: port {port} on 127.0.0.1 can't be used")
    assert "--port" in output


async def test_a_host_beyond_loopback_needs_a_token(tmp_path: Path) -> None:
    status, output = await run("serve", *places(tmp_path), "--host", "0.0.0.0")
    assert status == 2
    assert "VOICE_AGENT_TOKEN" in output


async def test_a_missing_checkpoint_is_told_at_once(tmp_path: Path) -> None:
    status, output = await run("serve", *places(tmp_path), "--model", str(tmp_path / "nowhere"))
    assert status == 2
    assert "nowhere is no model folder" in output


async def test_a_model_that_the_endpoint_does_not_have_is_told_with_those_it_has() -> None:
    async with scripted_endpoint(lambda body: Reply("hi")) as server:
        await check_model(Endpoint(server.url, "scripted"))
        with pytest.raises(StartError, match=r"has no model 'unknown'.*scripted"):
            await check_model(Endpoint(server.url, "unknown"))


async def test_an_endpoint_that_is_not_there_is_told() -> None:
    with pytest.raises(StartError, match="check --llm-url"):
        await check_model(Endpoint("http://127.0.0.1:9/v1", "m"))


@pytest.mark.parametrize("arguments", [["serve", "--today", "tomorrow"], ["serve", "--prot", "1"], ["nothing"], []])
async def test_a_wrong_argument_is_named(arguments: list[str]) -> None:
    status, output = await run(*arguments)
    assert status == 2
    assert "usage: voice-agent" in output


async def test_the_calls_process_is_free_of_torch() -> None:
    code = "import sys, voice_agent.server.serve; print(sorted({m.split('.')[0] for m in sys.modules}))"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    for heavy in ("'torch'", "'faster_whisper'", "'ctranslate2'", "'piper'", "'transformers'"):
        assert heavy not in output.decode()
