"""The engine's totals for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from diffusion_engine.runtime import Engine


class EngineCollector(Collector):
    """Reads the engine's statistics when it is scraped; nothing is counted twice."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        totals, load = self._engine.statistics, self._engine.load
        ended = CounterMetricFamily("diffusion_engine_requests", "Requests that ended, by cause.", labels=["cause"])
        for cause, count in totals.ended.items():
            ended.add_metric([cause.value], count)
        yield ended
        for name, value, text in (
            ("forwards", totals.forwards, "Forward passes."),
            ("forward_seconds", totals.forward_s, "Wall time in forward passes."),
            ("step_seconds", totals.step_s, "Wall time in steps; less forward_seconds, the engine's own overhead."),
            ("rows", totals.rows, "Rows packed in forward passes."),
            ("prompt_tokens", totals.prompt_tokens, "Prompt tokens of ended requests."),
            ("cached_tokens", totals.cached_tokens, "Of them, found in the prefix cache."),
            ("completion_tokens", totals.completion_tokens, "Tokens emitted by ended requests."),
            ("drafts_accepted", totals.accepted, "Drafted tokens that verification kept."),
            ("verifications", totals.verifications, "Passes that verified a draft."),
            ("cancel_late_steps", totals.late_steps, "Steps that ran a request though begun after its cancel."),
            ("preemptions", totals.preempted, "Requests that gave up their pages and started over."),
        ):
            yield CounterMetricFamily(f"diffusion_engine_{name}", text, value=value)
        for name, value, text in (
            ("requests_running", load.running, "Requests that take part in steps."),
            ("requests_waiting", load.waiting, "Requests not admitted yet."),
            ("pages", load.pages_total, "Pages in the KV pool."),
            ("pages_free", load.pages_free, "Pages that nothing uses."),
            ("pages_prefix_cache", load.pages_prefix_cache, "Pages of clean text kept for later requests."),
        ):
            yield GaugeMetricFamily(f"diffusion_engine_{name}", text, value=value)


class ServerMetrics:
    """A registry of this server alone.

    Attributes:
        registry: to be scraped.
    """

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(EngineCollector(engine))
        self._refused = Counter(
            "diffusion_engine_refused",
            "Requests answered with an error before or instead of a reply, by HTTP status and code.",
            ["status", "code"],
            registry=self.registry,
        )

    def refuse(self, status: int, code: str | None) -> None:
        """Count an error."""
        self._refused.labels(str(status), code or "").inc()
