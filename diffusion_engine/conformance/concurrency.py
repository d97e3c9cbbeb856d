"""Many at once, and clients that go."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from diffusion_engine.conformance.suite import PATIENCE_S, Endpoint, Skipped, Suite, expect

suite = Suite("concurrency")
LONG = "Write a very long story about the sea."


@suite.check("eight at once say what eight in a row say")
def _eight(endpoint: Endpoint) -> None:
    def ask(number: int) -> str:
        return str(endpoint.chat(f"{'again ' * (3 * number)}number {number}", max_tokens=24).choices[0].message.content)

    alone = [ask(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, range(8)))
    for number, (one, other) in enumerate(zip(alone, together, strict=True)):
        expect(one == other, f"request {number}: alone {one!r}, beside others {other!r}")


@suite.check("after a client left in the middle of a stream the next one is served")
def _leave(endpoint: Endpoint) -> None:
    for _ in range(4):
        stream = endpoint.chat(LONG, max_tokens=256, temperature=1, stream=True)
        next(iter(stream))
        stream.close()
    endpoint.chat(max_tokens=4)
    metrics = _metrics(endpoint)
    if metrics is None:
        raise Skipped("the next one is served; there is no /metrics to say whether the others run on")
    deadline = time.monotonic() + PATIENCE_S
    while metrics.get("diffusion_engine_requests_running", 0.0) > 0:
        expect(time.monotonic() < deadline, "a request runs on without its client")
        metrics = _metrics(endpoint) or {}
    late = metrics.get("diffusion_engine_cancel_late_steps_total", 0.0)
    expect(late == 0, f"{late:g} steps ran after a cancel")


@suite.check("a request is cancelled by its id, and told apart from one that ended")
def _cancel(endpoint: Endpoint) -> None:
    body = {"diffusion": {"request_id": "conformance"}}
    cancel = f"{endpoint.url}/requests/conformance/cancel"
    probe = endpoint.http.post(cancel)
    try:
        known = probe.status_code == 404 and probe.json()["error"]["code"] == "request_not_found"
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise Skipped("there is no cancelling by id")
    stream = endpoint.chat(LONG, max_tokens=400, temperature=1, stream=True, extra_body=body)
    chunks = iter(stream)
    last = next(chunks)
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(endpoint.http.post(cancel)))
    thread.start()
    for chunk in chunks:
        last = chunk
    thread.join()
    told = (last.model_extra or {}).get("diffusion", {})
    if answers[0].status_code == 404:
        raise Skipped("the reply had ended before it was cancelled")
    expect(told.get("end_cause") == "cancelled", f"the stream ended by {told.get('end_cause')!r}")
    endpoint.chat(max_tokens=1)


@suite.check("responses carry Server-Timing")
def _timing(endpoint: Endpoint) -> None:
    raw = endpoint.client.chat.completions.with_raw_response.create(
        model=endpoint.model, messages=[{"role": "user", "content": "hello"}], max_tokens=4
    )
    header = raw.headers.get("server-timing")
    if header is None:
        raise Skipped("there is no Server-Timing header")
    for part in header.split(","):
        name, _, duration = part.strip().partition(";dur=")
        expect(name and float(duration) >= 0, f"{part!r} is no metric of Server-Timing")


def _metrics(endpoint: Endpoint) -> dict[str, float] | None:
    """Our own engine's metrics; None elsewhere."""
    answer = endpoint.http.get(f"{endpoint.url.rsplit('/v1', 1)[0]}/metrics")
    if answer.status_code != 200 or "diffusion_engine_requests_running" not in answer.text:
        return None
    lines = [line for line in answer.text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(maxsplit=1) for line in lines)}
