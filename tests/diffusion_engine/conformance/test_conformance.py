"""Our own server passes the suite; and the suite fails those that break the contract."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from diffusion_engine import cli
from diffusion_engine.conformance.command import CHECKS, base_url, run
from diffusion_engine.conformance.suite import Check, Endpoint, Failed, Skipped, Verdict, run_checks
from diffusion_engine.server.access import Access
from tests.diffusion_engine.conftest import FAMILIES
from tests.diffusion_engine.server.conftest import serving

LIMIT = 400
"""Requests a minute and key: more than the suite sends with its own, fewer than it sends with the other."""


@pytest.mark.parametrize("family", FAMILIES)
def test_our_server_passes_all_of_it(
    checkpoint: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    family: str,
) -> None:
    """In process, over HTTP, with random weights: nothing fails, and nothing is skipped that can be tested."""
    access = Access(["secret", "other"], requests_per_minute=LIMIT, clock=lambda: 0.0)
    monkeypatch.setenv("KEY", "secret")
    monkeypatch.setenv("OTHER_KEY", "other")
    report = tmp_path / "report.json"
    with serving(checkpoint(family), access=access, max_requests=8, max_waiting=4) as served:
        arguments = ["--url", served.url, "--api-key-env", "KEY", "--limited-key-env", "OTHER_KEY"]
        status = cli.main(["conformance", *arguments, "--overload", "24", "--json", str(report)])
    printed = capsys.readouterr().out
    outcomes = json.loads(report.read_text())
    assert status == 0, printed
    assert outcomes["summary"] == {"pass": len(CHECKS), "fail": 0, "skip": 0}, printed
    assert outcomes["model"] == "tiny"
    for check in outcomes["checks"]:
        assert check["name"] in printed


class _Babbling(BaseHTTPRequestHandler):
    """An endpoint that answers everything with the same wrong reply."""

    def do_POST(self) -> None:
        self._answer({"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": []})

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [{"id": "m", "object": "model", "created": 0, "owned_by": "o"}]})

    def _answer(self, body: dict[str, Any]) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def babbling() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Babbling) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_endpoint_that_ignores_the_request_fails_every_claim_about_replies(babbling: str) -> None:
    endpoint = Endpoint(base_url(babbling), "m", "key")
    outcomes = list(run_checks(endpoint, CHECKS))
    endpoint.close()
    assert [outcome.name for outcome in outcomes if outcome.verdict is Verdict.PASS] == ["the model is listed"]
    assert all(outcome.reason for outcome in outcomes if outcome.verdict is not Verdict.PASS)


def test_verdicts_reasons_and_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(endpoint: Endpoint) -> None:
        raise Failed("it said no")

    def skip(endpoint: Endpoint) -> None:
        raise Skipped("nothing to ask")

    def breaks(endpoint: Endpoint) -> None:
        raise KeyError("choices")

    good = Check("area", "this holds", lambda endpoint: None)
    checks = [good, Check("area", "this does not", fail), Check("area", "this can't be asked", skip)]
    checks.append(Check("area", "this breaks", breaks))
    endpoint = Endpoint("http://127.0.0.1:9/v1", "m")
    assert run(endpoint, None, checks) == 1
    printed = capsys.readouterr().out
    for said in ("it said no", "nothing to ask", "KeyError", "1 passed, 2 failed, 1 skipped"):
        assert said in printed
    assert run(endpoint, None, [good]) == 0
    endpoint.close()


@pytest.mark.parametrize("url", ["http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/"])
def test_a_url_with_or_without_its_version(url: str) -> None:
    assert base_url(url) == "http://a:1/v1"


def test_an_endpoint_that_is_not_there_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conformance", "--url", "http://127.0.0.1:9"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--model" in said


def test_a_key_that_is_not_set_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    assert cli.main(["conformance", "--url", "http://127.0.0.1:9", "--api-key-env", "NO_SUCH_KEY"]) == 1
    assert "NO_SUCH_KEY" in capsys.readouterr().err
