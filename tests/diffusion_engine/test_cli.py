"""The command, as a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch
from fastapi.testclient import TestClient

from diffusion_engine import cli
from diffusion_engine.runtime import Limits, RunnerKind, find_device
from diffusion_engine.server import serving
from diffusion_engine.server.app import create_app
from diffusion_engine.server.served_model import Dtype, load_served_model
from tests.diffusion_engine.tiny import write_checkpoint


@pytest.fixture(autouse=True)
def _threads_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within this process the threads are pinned already."""
    monkeypatch.setattr(cli, "_pin_threads", lambda threads: None)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The command's status and what it said on stderr."""
    status = cli.main(["serve", "--port", "0", *arguments])
    return status, capsys.readouterr().err


@contextmanager
def process(
    folder: Path, *arguments: str, drain_s: float = serving.DRAIN_S
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server as a process, and its URL from the line that it prints when it is ready."""
    program = f"""if True:
        import sys
        from diffusion_engine.cli import main
        from diffusion_engine.server import serving
        serving.DRAIN_S = {drain_s}
        sys.exit(main())
    """
    command = [sys.executable, "-c", program, "serve", "--model", str(folder), "--port", "0"]
    running = subprocess.Popen(
        [*command, "--threads", "1", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert " is ready at http://127.0.0.1:" in line, line + running.stdout.read()
        yield running, line.split()[-1]
    finally:
        running.kill()
        running.wait()


def test_it_serves_and_on_sigterm_lets_a_running_stream_end(checkpoint: Callable[[str], Path]) -> None:
    with process(checkpoint("llama_draft"), "--dtype", "int8") as (running, url):
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "temperature": 0}
        assert httpx.post(f"{url}/v1/chat/completions", json=body).json()["usage"]["completion_tokens"] == 9
        long = {**body, "max_tokens": 480, "stream": True, "temperature": 1}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=long, timeout=20) as answer:
            lines = answer.iter_lines()
            next(lines)
            running.send_signal(signal.SIGTERM)
            # Until the last one has ended, new requests hear why they aren't served.
            while (refused := httpx.post(f"{url}/v1/chat/completions", json=body)).status_code == 200:
                pass
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "shutting_down"
            assert int(refused.headers["retry-after"]) > 0
            assert httpx.get(f"{url}/health").json() == {"status": "shutting down"}
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] in ("length", "stop")
        assert running.wait(15) == 0
        assert running.stdout is not None
        assert running.stdout.read() == ""


def test_a_stream_that_runs_on_after_sigterm_is_ended_and_told_so(checkpoint: Callable[[str], Path]) -> None:
    message = {"role": "user", "content": "hi"}
    body = {"messages": [message], "max_tokens": 480, "temperature": 1, "stream": True}
    with process(checkpoint("llama_draft"), drain_s=0.0) as (running, url):
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=20) as answer:
            lines = answer.iter_lines()
            next(lines)
            running.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]  # and the connection isn't cut
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["error"]["code"] == "shutting_down"
        assert running.wait(15) == 0
        assert running.stdout is not None
        assert running.stdout.read() == ""


@pytest.mark.parametrize(
    ("dtype", "runner"),
    [
        *(("fp32", "auto"), ("bf16", "auto"), ("fp16", "auto"), ("int8", "auto")),
        *(("fp32", "static"), ("bf16", "static"), ("fp16", "static")),
    ],
)
def test_every_dtype_loads_and_answers(checkpoint: Callable[[str], Path], dtype: Dtype, runner: RunnerKind) -> None:
    model = load_served_model(checkpoint("llama_draft"), name=None, dtype=dtype, runner=runner, limits=Limits())
    assert model.name == "llama_draft"
    with TestClient(create_app(model)) as client:
        body = {"prompt": "hello", "max_tokens": 9, "temperature": 0}
        assert client.post("/v1/completions", json=body).json()["usage"]["completion_tokens"] == 9


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ("cuda", "no device cuda: torch"),
        ("cuda:1", "no device cuda:1: torch"),
        ("cuda:", "no device is called 'cuda:'"),
        ("cpu:0", "no device is called 'cpu:0'"),
        ("tpu", "no device is called 'tpu': choose cpu, cuda or cuda:N"),
    ],
)
def test_a_device_that_is_not_there_is_one_clear_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: Callable[[str], Path],
    device: str,
    why: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    status, said = run(capsys, "--model", str(checkpoint("sdar")), "--device", device)
    assert status == 1
    assert said.count("\n") == 1
    assert why in said


def test_a_gpu_beyond_the_last_is_told_which_the_last_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert [str(find_device(name)) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda:0", "cuda:1"]
    with pytest.raises(ValueError, match="no device cuda:2: the last of this machine is cuda:1"):
        find_device("cuda:2")


def test_no_checkpoint_is_one_clear_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, said = run(capsys, "--model", str(tmp_path / "nowhere"))
    assert status == 1
    assert said.count("\n") == 1
    assert "nowhere/config.json: no such file" in said


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json", "generation_config.json"])
def test_a_truncated_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, file: str) -> None:
    folder = write_checkpoint(tmp_path, "sdar")
    (folder / "generation_config.json").write_text('{"temperature": 0.5}')
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: len(whole) // 2])
    status, said = run(capsys, "--model", str(folder))
    assert status == 1
    assert said.count("\n") == 1
    assert file in said


def test_a_taken_port_is_one_clear_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = run(capsys, "--model", str(tmp_path), "--port", str(port))
    assert status == 1
    assert said.count("\n") == 1
    assert f"127.0.0.1:{port}" in said
    assert "--port" in said


def test_beyond_loopback_a_key_is_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(cli.API_KEY_VARIABLE, raising=False)
    status, said = run(capsys, "--model", str(tmp_path), "--host", "0.0.0.0")
    assert status == 1
    assert cli.API_KEY_VARIABLE in said
    monkeypatch.setenv(cli.API_KEY_VARIABLE, "secret")
    assert "config.json" in run(capsys, "--model", str(tmp_path), "--host", "0.0.0.0")[1]


def test_an_embedded_model_that_is_not_prepared_says_what_to_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("diffusion_engine.checkpoints.embedded_model_folder", lambda: tmp_path / "front-desk")
    status, said = run(capsys)
    assert status == 1
    assert "diffusion-engine prepare" in said


def test_help_names_the_commands() -> None:
    environment = {**os.environ, "COLUMNS": "100"}
    shown = subprocess.run(
        [sys.executable, "-m", "diffusion_engine.cli", "--help"], capture_output=True, text=True, env=environment
    )
    assert shown.returncode == 0
    assert "serve" in shown.stdout
    assert "prepare" in shown.stdout


def test_a_small_piece_of_a_reply_is_sent_at_once() -> None:
    with cli._listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
