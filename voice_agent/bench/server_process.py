"""A server as a child process: started, waited for, and always stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

READY_TIMEOUT_S = 300.0
"""Loading and warming three models takes 10 to 30 s; the first start may build caches on a slow disk."""
STOP_TIMEOUT_S = 15.0
PROGRESS_EVERY_S = 5.0


class ServerError(RuntimeError):
    """The server didn't come up; the message has the end of its log."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_server(
    command: Sequence[str], url: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a server while the block runs, from the moment that its /health says it is ready.

    Its output goes to the file `log`. It is asked to stop by SIGTERM, then killed with every child of its session.

    Args:
        command: program and arguments.
        url: its base URL.
        log: is overwritten.
        environment: added to this process's own.

    Raises:
        ServerError: it ended or wasn't ready in time.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            _wait_until_ready(process, url, log)
            yield
        finally:
            _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    began = time.monotonic()
    announced = 0.0
    while (waited := time.monotonic() - began) < READY_TIMEOUT_S:
        if process.poll() is not None:
            raise ServerError(f"the server ended with status {process.returncode}:\n{_tail(log)}")
        if _is_ready(url):
            print(f"ready after {waited:.0f} s", flush=True)
            return
        if waited - announced >= PROGRESS_EVERY_S:
            announced = waited
            last = _tail(log, lines=1).strip()
            print(f"  starting, {waited:.0f} s{': ' + last if last else ''}", flush=True)
        time.sleep(0.25)
    raise ServerError(f"the server was not ready within {READY_TIMEOUT_S:.0f} s:\n{_tail(log)}")


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2.0).is_success
    except httpx.HTTPError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            print(f"the server did not stop within {STOP_TIMEOUT_S:.0f} s and is killed", file=sys.stderr)
    # Its children share its session: none may outlive it, whatever became of itself.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(log: Path, lines: int = 15) -> str:
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
