"""Servers that come up, fail, and leave children behind; each is a real process."""

import subprocess
import sys

import httpx
import pytest

from voice_agent.bench.server_process import ServerError, free_port, running_server

SERVER = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def is_running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_the_server_and_its_children_end_with_the_block(tmp_path):
    port, log = free_port(), tmp_path / "server.log"
    url = f"http://127.0.0.1:{port}"
    with running_server([sys.executable, "-c", SERVER, str(port)], url, log):
        assert httpx.get(f"{url}/health").is_success
        child = int(log.read_text().split()[1])
        assert is_running(child)
    assert not is_running(child)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health")


def test_a_server_that_fails_to_start_is_reported_with_its_last_words(tmp_path):
    command = [sys.executable, "-c", "import sys; sys.exit('the port is taken')"]
    with (
        pytest.raises(ServerError, match=r"(?s)status 1.*the port is taken"),
        running_server(command, f"http://127.0.0.1:{free_port()}", tmp_path / "server.log"),
    ):
        pytest.fail("the block must not run")
