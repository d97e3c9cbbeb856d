"""Watched processes: readiness, restarts, and that none outlives its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.voice_agent.transports.peer import until
from voice_agent.server.process import ProcessSpec, StartError, WatchedProcess

pytestmark = pytest.mark.usefixtures("no_leaks")


def script(code: str, ready: Path | None = None, nice: int = 0) -> ProcessSpec:
    async def is_ready() -> None:
        if ready is None or not ready.exists():  # noqa: ASYNC240 - one system call in a test
            raise RuntimeError("not yet")

    return ProcessSpec("child", [sys.executable, "-c", code], is_ready, nice=nice, backoff_s=(0.01,))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


async def test_it_is_waited_for_and_its_output_passed_on(tmp_path: Path) -> None:
    lines: list[str] = []
    marker = tmp_path / "ready"
    code = f"print('loading', flush=True); open({str(marker)!r}, 'w'); import time; time.sleep(60)"
    process = WatchedProcess(script(code, marker), lines.append)
    await process.start()
    assert process.is_ready
    await until(lambda: lines == ["loading"])
    pid = process.pid
    assert pid is not None
    await process.stop()
    await process.stop()
    assert not alive(pid)


async def test_a_start_that_fails_says_why() -> None:
    process = WatchedProcess(script("import sys; sys.exit('error: the folder has no config.json')"), lambda line: None)
    with pytest.raises(StartError, match=r"child ended with exit status 1: error: the folder has no config\.json"):
        await process.start()
    assert process.pid is None


async def test_a_dead_process_is_restarted(tmp_path: Path) -> None:
    changes: list[bool] = []
    marker = tmp_path / "ready"
    code = f"open({str(marker)!r}, 'w'); import time; time.sleep(60)"
    process = WatchedProcess(script(code, marker), lambda line: None, changes.append)
    await process.start()
    for _ in range(2):
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda pid=pid: process.pid not in (None, pid) and process.is_ready)
    assert process.restarts == 2
    assert changes == [True, False, True, False, True]
    await process.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
async def test_a_child_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    parent_code = f"""
import asyncio, sys
from voice_agent.server.process import ProcessSpec, WatchedProcess
async def ready(): pass
async def main():
    spec = ProcessSpec("child", [sys.executable, "-c", "import time; time.sleep(120)"], ready)
    process = WatchedProcess(spec, print)
    await process.start()
    open({str(pid_file)!r}, "w").write(str(process.pid))
    await asyncio.sleep(120)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", parent_code)
    await until(lambda: pid_file.exists() and pid_file.read_text() != "", 30)
    child = int(pid_file.read_text())
    assert alive(child)
    parent.kill()
    await parent.wait()
    await until(lambda: not alive(child))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_priorities_are_applied(tmp_path: Path) -> None:
    marker = tmp_path / "nice"
    code = f"import os; open({str(marker)!r}, 'w').write(str(os.nice(0))); import time; time.sleep(60)"
    process = WatchedProcess(script(code, marker, nice=3), lambda line: None)
    await process.start()
    await until(lambda: marker.read_text() != "")
    assert int(marker.read_text()) == os.nice(0) + 3
    await process.stop()
