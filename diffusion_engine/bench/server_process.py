"""`diffusion-engine serve` in a process of its own, for measurements over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diffusion_engine.runtime import RunnerKind
from diffusion_engine.server.served_model import Dtype

STOP_S = 15.0


class ServerFailedError(ValueError):
    """The server ended before it was ready; what it said is in the message."""


@contextmanager
def serving(
    folder: Path, *, dtype: Dtype, device: str = "cpu", runner: RunnerKind = "auto", threads: int | None = None
) -> Iterator[str]:
    """Serve a checkpoint on a free port; yields the URL, and stops the server.

    Raises:
        ServerFailedError: it didn't start.
    """
    command = [sys.executable, "-m", "diffusion_engine.cli", "serve", "--model", str(folder), "--port", "0"]
    command += ["--dtype", dtype, "--device", device, "--runner", runner]
    command += ["--threads", str(threads)] if threads else []
    environment = {name: value for name, value in os.environ.items() if name != "DIFFUSION_ENGINE_API_KEY"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            if " is ready at " not in ready:
                process.wait(STOP_S)
                errors.seek(0)
                raise ServerFailedError(f"the server did not start: {errors.read().strip() or ready.strip()}")
            yield ready.rsplit(maxsplit=1)[1]
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
