"""`diffusion-engine conformance`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from diffusion_engine.conformance import basics, concurrency, errors, sampling, streaming, structured, tools
from diffusion_engine.conformance.suite import Check, Endpoint, Outcome, Verdict, run_checks

CHECKS: list[Check] = [
    check
    for area in (basics, streaming, sampling, tools, structured, concurrency, errors)
    for check in area.suite.checks
]


def base_url(url: str) -> str:
    """The URL as clients take it: ending in `/v1`."""
    trimmed = url.rstrip("/")
    return trimmed if trimmed.endswith("/v1") else f"{trimmed}/v1"


def run(endpoint: Endpoint, report: Path | None, checks: Sequence[Check] = CHECKS) -> int:
    """Run the suite, print its table as it grows, and write the report.

    Args:
        endpoint: to test.
        report: JSON file to write, or None.
        checks: to run.

    Returns:
        The exit status: 0 when nothing failed, 1 otherwise.
    """
    outcomes: list[Outcome] = []
    print(f"{endpoint.model} at {endpoint.url}", flush=True)
    for outcome in run_checks(endpoint, checks):
        if not outcomes or outcomes[-1].area != outcome.area:
            print(f"\n{outcome.area}")
        print(f"  {outcome.verdict:<5}{outcome.seconds:7.2f} s  {outcome.name}", flush=True)
        if outcome.reason:
            print(f"{'':17}{outcome.reason[:500]}", flush=True)
        outcomes.append(outcome)
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(f"\n{counts[Verdict.PASS]} passed, {counts[Verdict.FAIL]} failed, {counts[Verdict.SKIP]} skipped")
    if report is not None:
        report.write_text(json.dumps(_report(endpoint, outcomes), indent=2, ensure_ascii=False) + "\n")
    return 1 if counts[Verdict.FAIL] else 0


def first_model(url: str, api_key: str) -> str:
    """The name of the first model that the endpoint lists.

    Raises:
        ConnectionError: it lists none; says what to do.
    """
    endpoint = Endpoint(url, "", api_key)
    try:
        names = [model.id for model in endpoint.client.models.list()]
    except Exception as unreachable:  # whatever the client raises: the user hears of it
        raise ConnectionError(f"{url} does not list its models ({unreachable}); name one with --model") from unreachable
    finally:
        endpoint.close()
    if not names:
        raise ConnectionError(f"{url} lists no model; name one with --model")
    return names[0]


def _report(endpoint: Endpoint, outcomes: list[Outcome]) -> dict[str, object]:
    return {
        "url": endpoint.url,
        "model": endpoint.model,
        "python": sys.version.split()[0],
        "summary": {verdict.value: sum(o.verdict is verdict for o in outcomes) for verdict in Verdict},
        "checks": [
            {"area": o.area, "name": o.name, "verdict": o.verdict.value, "reason": o.reason, "seconds": o.seconds}
            for o in outcomes
        ],
    }
