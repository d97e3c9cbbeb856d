"""Turn a finished run into the adapter that ships: `python -m diffusion_engine.training.export RUN --to FOLDER`.

Writes `adapter.safetensors` in fp16, `training.json` (configuration, tokens, time, held-out figures) and `loss.png`,
and copies the chat template. The model card beside them says what the result can do and with which command.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from diffusion_engine.checkpoints.assemble import SHIPPED

FILES = ("chat_template.jinja",)


def main(argv: Sequence[str] | None = None) -> int:
    """Export a run; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m diffusion_engine.training.export", description=__doc__)
    parser.add_argument("run", type=Path, help="the --out folder of a training run")
    parser.add_argument("--to", type=Path, default=SHIPPED, help="default: the package's own, %(default)s")
    args = parser.parse_args(argv)
    if not (args.run / "progress.json").is_file():
        print(f"{args.run}: no training run was saved here", file=sys.stderr)
        return 2
    export(args.run, args.to)
    print(f"Wrote {args.to}; now judge it with the command in its model card before you commit it")
    return 0


def export(run: Path, folder: Path) -> None:
    """Write a run's adapter, figures and curve."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.to(torch.float16) for name, tensor in load_file(run / "adapter.safetensors").items()}
    save_file(state, folder / "adapter.safetensors")
    progress: dict[str, Any] = json.loads((run / "progress.json").read_text())
    history = progress.pop("history")
    evaluated = [
        {name: step[name] for name in ("step", "draft_tokens", "held_right", "held_exact", "held_accepted")}
        for step in history
        if "held_exact" in step
    ]
    summary = {**progress, "evaluated": evaluated}
    (folder / "training.json").write_text(json.dumps(summary, indent=1) + "\n")
    draw(history, folder / "loss.png")
    for name in FILES:
        if folder != SHIPPED:
            shutil.copyfile(SHIPPED / name, folder / name)


def draw(history: Sequence[dict[str, float]], path: Path) -> None:
    """Plot both losses, smoothed over twenty steps, and the accepted tokens, against the draft tokens trained."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tokens = [step["draft_tokens"] / 1000 for step in history]
    figure, losses = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for name, label in (("ar_loss", "autoregressive loss"), ("draft_loss", "draft loss")):
        losses.plot(tokens, _smooth([step[name] for step in history]), label=label)
    losses.set(xlabel="draft tokens trained (thousands)", ylabel="cross-entropy (nats)", ylim=(0, None))
    accepted = [(step["draft_tokens"] / 1000, step["held_accepted"]) for step in history if "held_accepted" in step]
    if accepted:
        right = losses.twinx()
        right.plot(*zip(*accepted, strict=True), "k.--", label="accepted of 8, held out (right axis)")
        right.set(ylabel="tokens", ylim=(0, 8))
        right.legend(loc="center right")
    losses.legend(loc="upper right")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _smooth(values: Sequence[float], width: int = 20) -> list[float]:
    """The mean of the last `width` values at each place."""
    return [sum(values[max(0, i + 1 - width) : i + 1]) / min(i + 1, width) for i in range(len(values))]


if __name__ == "__main__":
    sys.exit(main())
