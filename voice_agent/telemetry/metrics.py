"""Prometheus metrics of the calls process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from voice_agent.telemetry.record import TurnRecord

_GAP_BUCKETS_S = (-0.5, -0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)


class Metrics:
    """One registry a process; its names are the product's interface."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter("voice_agent_calls", "Calls answered", registry=self.registry)
        self.live_calls = Gauge("voice_agent_live_calls", "Calls under way", registry=self.registry)
        self.refused = Counter("voice_agent_calls_refused", "Offers refused", ["reason"], registry=self.registry)
        self.turns = Counter("voice_agent_turns", "Turns answered", ["speculation"], registry=self.registry)
        self.reopened = Counter(
            "voice_agent_turns_reopened",
            "Turns taken back because the caller had only paused, or no answer to them could be given",
            ["reply"],  # heard: it began in the caller's pause; unheard: it cost work only; put_off: it failed
            registry=self.registry,
        )
        self.errors = Counter("voice_agent_errors", "Errors within calls", ["kind"], registry=self.registry)
        self.restarts = Counter(
            "voice_agent_process_restarts", "Restarts of a watched process", ["process"], registry=self.registry
        )
        self.underruns = Counter(
            "voice_agent_audio_underruns", "20 ms frames missing inside the agent's speech", registry=self.registry
        )
        self.late_frames = Counter(
            "voice_agent_late_frames", "Outgoing frames more than 20 ms late", registry=self.registry
        )
        self.gap = Histogram(
            "voice_agent_turn_gap_seconds",
            "Caller's last audible sample to the agent's first, at the client",
            buckets=_GAP_BUCKETS_S,
            registry=self.registry,
        )
        self.internal_gap = Histogram(
            "voice_agent_internal_turn_gap_seconds",
            "Caller's last audible sample to the reply's first packet, at the server",
            buckets=_GAP_BUCKETS_S,
            registry=self.registry,
        )
        self.loop_lag = Histogram(
            "voice_agent_event_loop_lag_seconds",
            "How late the event loop ran a timer",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
            registry=self.registry,
        )

    def turn_ended(self, record: TurnRecord) -> None:
        """Count a complete turn."""
        self.turns.labels(record.speculation).inc()
        if record.internal_gap_ms is not None:
            self.internal_gap.observe(record.internal_gap_ms / 1000)

    def client_measured(self, gap_ms: float) -> None:
        """Count a gap that a client reported (ms)."""
        self.gap.observe(gap_ms / 1000)

    def exposition(self) -> bytes:
        """The metrics in Prometheus's text format."""
        return generate_latest(self.registry)
