"""The booking benchmark against a model behind real HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.voice_agent.agents.front_desk.rule_model import RuleModel
from voice_agent.bench import bookings


class Endpoint(BaseHTTPRequestHandler):
    """OpenAI's chat completions, answered by rules, with our engine's report."""

    requests: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(body)
        reply = RuleModel().ask(body["messages"], body["tools"])
        calls = [
            {"id": f"call_{i}", "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for i, c in enumerate(reply.calls)
        ]
        message = {"role": "assistant", "content": reply.text or None, "tool_calls": calls or None}
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "diffusion": {"forwards": 4, "accepted_per_verification": 2.5},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    requests: list[dict[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Recorded", (Endpoint,), {"requests": requests}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", requests
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_report_has_figures_and_transcripts_of_both_splits(
    endpoint: tuple[str, list[dict[str, Any]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    url, requests = endpoint
    path = tmp_path / "out" / "bookings.json"
    code = bookings.main(["--url", url, "--model", "rules", "--n", "3", "--strategy", "hybrid", "--json", str(path)])
    assert code == 0
    report = json.loads(path.read_text())
    for split in ("heldout_values", "heldout_wordings"):
        figures = report["splits"][split]
        assert (figures["n"], figures["passed"]) == (3, 3)
        assert figures["forwards_per_reply"] == 4
        assert figures["accepted_per_verification"] == 2.5
        assert figures["cases"][0]["transcript"][0].startswith("caller: ")
    assert requests[0]["diffusion"] == {"strategy": "hybrid"}
    assert requests[0]["temperature"] == 0
    assert "3 of 3 bookings completed" in capsys.readouterr().out


def test_an_endpoint_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]):
    assert bookings.main(["--url", "http://127.0.0.1:9/v1", "--model", "none", "--n", "1"]) == 1
    assert "http://127.0.0.1:9/v1: Connection error" in capsys.readouterr().err
