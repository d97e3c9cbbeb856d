"""Figures as lines for a terminal."""

from __future__ import annotations

from diffusion_engine.bench.report import workload_table


def test_numbers_that_belong_together_stand_on_one_line() -> None:
    results = {"machine": {"cores": 2, "load_before": [0.5, 1.0, 2.0]}, "curve": [{"threshold": 0.9, "differ": 0.0}]}
    assert workload_table(results).splitlines() == [
        "  machine:",
        "    cores: 2",
        "    load_before: 0.5, 1.0, 2.0",
        "  curve: threshold: 0.9, differ: 0.0",
    ]
