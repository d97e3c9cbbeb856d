"""The output as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

COLUMNS = ("first_token_ms", "first_clause_ms", "reply_ms", "forward_ms", "overhead_ms", "tokens_per_forward")
TITLES = ("first token", "12 tokens", "reply", "forward", "overhead", "tok/forward")


def suite_tables(results: Mapping[str, Any]) -> str:
    """The whole measurement."""
    machine, threads = results["machine"], results["threads"]
    lines = [
        f"{results['model']} ({results['family']}), {results['runner']} on {results['device']}, {results['strategy']}; "
        f"{results['prompts']['n']} prompts, prefix cached",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['instructions']}; threads: {threads['runner']}; "
        f"load {machine['load_before'][0]} before, {machine['load_after'][0]} after",
        "",
        "medians (95th percentile), ms",
        _row("", TITLES),
        _row("this engine", (_cell(results[key]) for key in COLUMNS)),
    ]
    baselines = results["baselines"]
    if isinstance(baselines, Mapping):
        lines += [_baseline(name, of) for name, of in baselines.items()]
        lines += ["", "this engine's time divided by the baseline's, prompt by prompt, median"]
        lines.append(_row("", TITLES[:3]))
        for name, of in baselines.items():
            if isinstance(of, Mapping):
                shown = of["ours_to_theirs"]
                lines.append(_row(name, (_plain(shown[k]) for k in ("first_token", "first_clause", "reply"))))
    else:
        lines.append(f"baselines: {baselines}")
    lines += ["", "forward pass by rows, ms"]
    by_rows = results["forward_ms"]["by_rows"]
    lines.append(_row("rows", by_rows))
    lines.append(_row("this engine", (_cell(of) for of in by_rows.values())))
    for name, of in results.get("runners", {}).items():
        lines.append(_row(name, (_cell(each) for each in of["forward_ms"].values())))
        lines.append(_row("  ours/theirs", (_plain(each) for each in of["ours_to_theirs"].values())))
    lines += ["", "tokens a second by requests at once"]
    lines.append(_row("requests", results["throughput_tok_s"]))
    lines.append(_row("this engine", (_cell(of) for of in results["throughput_tok_s"].values())))
    if isinstance(baselines, Mapping):
        for name, of in baselines.items():
            if isinstance(of, Mapping):
                lines.append(_row(name, (_cell(each) for each in of["throughput_tok_s"].values())))
    for section in ("accepted_per_verification", "cancel", "prefix_cache", "concurrency", "quality", "memory_mb"):
        if section in results:
            lines += ["", section, *_tree(results[section])]
    lines += ["", "GPU", *_tree(results["gpu"])]
    if "random_20m" in results:
        lines += ["", "random_20m", *_tree(results["random_20m"])]
    return "\n".join(lines)


def workload_table(results: Mapping[str, Any]) -> str:
    """A workload's figures, as they are nested."""
    return "\n".join(_tree(results))


def _baseline(name: str, of: Mapping[str, Any] | str) -> str:
    return f"{name:<16} {of}" if isinstance(of, str) else _row(name, (_cell(of[key]) for key in COLUMNS))


def _row(name: str, cells: Iterable[str]) -> str:
    return f"{name:<16} " + " ".join(f"{cell:>17}" for cell in cells)


def _cell(figure: Mapping[str, Any]) -> str:
    return "-" if not figure["n"] else f"{figure['p50']:g} ({figure['p95']:g})"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _tree(value: Any, depth: int = 1) -> list[str]:
    pad = "  " * depth
    if isinstance(value, Mapping) and {"p50", "p95", "n"} <= set(value):
        return [f"{pad}{_cell(value)}, n {value['n']}"]
    if isinstance(value, Mapping):
        lines = []
        for key, each in value.items():
            inner = _tree(each, depth + 1)
            lines += [f"{pad}{key}: {inner[0].strip()}"] if len(inner) == 1 else [f"{pad}{key}:", *inner]
        return lines or [f"{pad}none"]
    if isinstance(value, list) and not any(isinstance(each, Mapping | list) for each in value):
        return [pad + ", ".join(map(str, value))]
    if isinstance(value, list):
        return [line for each in value for line in [", ".join(part.strip() for part in _tree(each))]]
    return [f"{pad}{value}"]
