"""What can't be served: which status, OpenAI's shape, and that the next request is served."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai

from diffusion_engine.conformance.suite import Endpoint, Failed, Skipped, Suite, expect

suite = Suite("errors")
MESSAGES = [{"role": "user", "content": "hello"}]
WRONG: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": -1},
    "top_p": {"top_p": 2},
    "max_tokens": {"max_tokens": 0},
    "messages": {"messages": []},
    "response_format": {"response_format": {"type": "yaml"}},
    "tool_choice": {"tool_choice": "required"},
}


def _post(endpoint: Endpoint, **more: Any) -> httpx.Response:
    body = {"model": endpoint.model, "messages": MESSAGES, "max_tokens": 1, **more}
    return endpoint.http.post(f"{endpoint.url}/chat/completions", json=body)


def _shape(text: str) -> dict[str, Any]:
    """The error object.

    Raises:
        Failed: it hasn't OpenAI's shape.
    """
    try:
        error = json.loads(text)["error"]
        missing = {"message", "type", "param", "code"} - set(error)
    except (ValueError, KeyError, TypeError):
        raise Failed(f"not OpenAI's error shape: {text[:200]}") from None
    expect(not missing, f"the error has no {', '.join(sorted(missing))}")
    return dict(error)


def _wrong(endpoint: Endpoint, field: str) -> None:
    answer = _post(endpoint, **WRONG[field])
    expect(answer.status_code == 400, f"status {answer.status_code}")
    error = _shape(answer.text)
    expect(str(error["param"]).split(".")[0] == field, f"param is {error['param']!r}")
    expect(_post(endpoint).status_code == 200, "the next request is not served")


for _field in WRONG:
    suite.check(f"a wrong {_field} is a 400 that names it")(lambda endpoint, field=_field: _wrong(endpoint, field))  # type: ignore[misc]


@suite.check("a body that is not JSON is a 400")
def _not_json(endpoint: Endpoint) -> None:
    headers = {"content-type": "application/json"}
    answer = endpoint.http.post(f"{endpoint.url}/chat/completions", content=b"{", headers=headers)
    expect(answer.status_code == 400, f"status {answer.status_code}")
    _shape(answer.text)


@suite.check("a prompt beyond the context is a 400")
def _too_long(endpoint: Endpoint) -> None:
    answer = _post(endpoint, messages=[{"role": "user", "content": "word " * 300_000}])
    expect(answer.status_code in (400, 413), f"status {answer.status_code}")
    _shape(answer.text)


@suite.check("an unknown model is a 404")
def _unknown_model(endpoint: Endpoint) -> None:
    answer = _post(endpoint, model="no-such-model")
    expect(answer.status_code == 404, f"status {answer.status_code}")
    _shape(answer.text)


@suite.check("a wrong API key is a 401")
def _wrong_key(endpoint: Endpoint) -> None:
    if not endpoint.api_key:
        raise Skipped("no key was given (--api-key-env)")
    client = endpoint.client_with("wrong")
    try:
        client.models.list()
        client.chat.completions.create(model=endpoint.model, messages=MESSAGES, max_tokens=1)  # type: ignore[arg-type]
    except openai.AuthenticationError as refused:
        _shape(refused.response.text)
    else:
        raise Failed("a wrong key is accepted")


@suite.check("more requests than a key may send: 429 with Retry-After")
def _rate(endpoint: Endpoint) -> None:
    if not endpoint.limited_key:
        raise Skipped("no key whose limit may be used up was given (--limited-key-env)")
    client = endpoint.client_with(endpoint.limited_key)
    for _ in range(1000):
        try:
            client.chat.completions.create(model=endpoint.model, messages=MESSAGES, max_tokens=1)  # type: ignore[arg-type]
        except openai.RateLimitError as refused:
            _shape(refused.response.text)
            expect(int(refused.response.headers.get("retry-after", "0")) > 0, "no Retry-After")
            break
    else:
        raise Skipped("1,000 requests were served")
    endpoint.chat(max_tokens=1)  # another key's limit is its own


@suite.check("more requests than fit: 503 or 429 with Retry-After, and those inside are served")
def _overload(endpoint: Endpoint) -> None:
    if not endpoint.overload:
        raise Skipped("not asked for (--overload N)")

    def ask(number: int) -> httpx.Response:
        return _post(endpoint, messages=[{"role": "user", "content": f"story {number}"}], max_tokens=200, temperature=1)

    with ThreadPoolExecutor(endpoint.overload) as pool:
        answers = list(pool.map(ask, range(endpoint.overload)))
    expect(any(answer.status_code == 200 for answer in answers), "none was served")
    refused = [answer for answer in answers if answer.status_code != 200]
    for answer in refused:
        expect(answer.status_code in (429, 503), f"status {answer.status_code}")
        expect(int(answer.headers.get("retry-after", "0")) > 0, "no Retry-After")
        _shape(answer.text)
    expect(_post(endpoint).status_code == 200, "the next request is not served")
    if not refused:
        raise Skipped(f"{endpoint.overload} requests at the same time were all served")
