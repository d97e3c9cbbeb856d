"""The training command: adapt the base model to block drafts and to a task."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffusion_engine.training.team import Team

EPILOG = """\
The run that made the shipped adapter:

  python -m diffusion_engine.training --dtype bf16 --processes 2 --out out/training/front-desk

on two CPU cores with AMX; the model card beside the adapter has its tokens, time, loss curve and scores. A run that was
stopped goes on where it last saved: give the same command again. On a machine without bf16 matrix units use fp32, whose
losses stayed within two per cent over the twelve steps on which both were compared.

A short run, to see it work (about a minute):

  python -m diffusion_engine.training --steps 4 --rows 600 --dialogues 50 --out out/training/short
"""
SHIPPED_STEPS = 330
HELD_OUT = 24
"""Dialogues with values that training never sees, evaluated now and then on the way."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = argparse.ArgumentParser(
        prog="python -m diffusion_engine.training",
        description="Train the LoRA adapter of the embedded model: SmolLM2-135M adapted to draft blocks of tokens and "
        "to verify them causally, on generated dialogues. One pass trains both losses.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument(
        "--data",
        default="voice_agent.agents.front_desk.dialogues:generate",
        help="JSONL file of chats, or package.module:function (seed, n, split) that yields them; default: %(default)s",
    )
    out.add_argument("--dialogues", type=int, default=12000, help="how many chats to train on; default: %(default)s")
    out.add_argument("--steps", type=int, default=SHIPPED_STEPS, help="optimizer steps; default: %(default)s")
    out.add_argument(
        "--rows", type=int, default=2000, help="rows (clean and draft positions) a step; default: %(default)s"
    )
    out.add_argument("--rank", type=int, default=32, help="rank of the adapter; default: %(default)s")
    out.add_argument("--learning-rate", type=float, default=1e-3, help="default: %(default)s")
    out.add_argument("--seed", type=int, default=1, help="of data, order and initial values; default: %(default)s")
    out.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32", help="default: %(default)s")
    out.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="default: all cores (%(default)s)")
    out.add_argument("--processes", type=int, default=1, help="that share each step; default: %(default)s")
    out.add_argument("--out", type=Path, required=True, help="folder of the run: adapter, optimizer, progress, log")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the training; returns the exit status."""
    args = parser().parse_args(argv)
    from diffusion_engine.training.team import Team, run_team  # late, as it imports torch: --help is quick

    if args.processes == 1:
        return train(Team(), args)
    return run_team(train, args, args.processes)


def train(team: Team, args: argparse.Namespace) -> int:
    """One process's part of the run; returns the exit status."""
    import torch

    from diffusion_engine.chat.template import ChatTemplate
    from diffusion_engine.checkpoints.assemble import SHIPPED, base_model
    from diffusion_engine.checkpoints.base import BaseModel, base_file
    from diffusion_engine.training.data import read_chats, tokenize
    from diffusion_engine.training.loop import Trainer, TrainingConfig

    say = print if team.index == 0 else _quiet
    torch.set_num_threads(max(1, args.threads // team.size))
    torch.manual_seed(args.seed)
    try:
        say(f"Generating {args.dialogues} dialogues ...", flush=True)
        chats = list(read_chats(args.data, seed=args.seed, count=args.dialogues, split="train"))
        held = list(read_chats(args.data, seed=args.seed + 1, count=HELD_OUT, split="heldout_values"))
    except ValueError as wrong:
        say(f"--data {wrong}", file=sys.stderr)
        return 2
    digest = hashlib.sha256(b"".join(json.dumps(chat, ensure_ascii=False).encode() for chat in chats)).hexdigest()
    base = BaseModel(base_file())
    tokenizer = base.tokenizer()
    template = ChatTemplate((SHIPPED / "chat_template.jinja").read_text(encoding="utf-8"), special_tokens={})
    dialogues = [tokenize(chat["messages"], template, tokenizer) for chat in chats]
    # A file has no splits: what it holds was trained on.
    held_out = [] if Path(args.data).is_file() else [tokenize(chat["messages"], template, tokenizer) for chat in held]
    lengths = sorted(len(dialogue.tokens) for dialogue in dialogues)
    say(
        f"{len(dialogues)} dialogues, sha256 {digest[:16]}, {sum(lengths):,} tokens, "
        f"median {lengths[len(lengths) // 2]}, longest {lengths[-1]}",
        flush=True,
    )
    config = TrainingConfig(
        steps=args.steps,
        rows=args.rows,
        rank=args.rank,
        learning_rate=args.learning_rate,
        seed=args.seed,
        dtype=args.dtype,
    )
    try:
        trainer = Trainer(base_model(base), dialogues, config, args.out, held_out=held_out, team=team)
    except ValueError as wrong:
        say(wrong, file=sys.stderr)
        return 2
    first = trainer.progress.step
    if first:
        say(f"Going on from step {first}", flush=True)
    begun = time.monotonic()

    def report(figures: dict[str, float]) -> None:
        step = int(figures["step"])
        if step % 10 and step - first > 5 and step != config.steps:
            return
        left = (time.monotonic() - begun) / max(1, step - first) * (config.steps - step)
        say(
            f"step {step}/{config.steps}  ar {figures['ar_loss']:.3f} ({figures['ar_right']:.2f} right)  "
            f"draft {figures['draft_loss']:.3f} ({figures['draft_right']:.2f})  "
            f"{figures['rows'] / figures['seconds']:.0f} rows/s  about {left / 60:.0f} min left",
            flush=True,
        )
        if "held_exact" in figures:
            say(
                f"  held out: {figures['held_right']:.3f} of the reply tokens right, {figures['held_exact']:.2f} "
                f"of the replies exact, {figures['held_accepted']:.2f} of 8 drafted tokens accepted",
                flush=True,
            )

    trainer.run(report)
    say(f"Done: {args.out}/adapter.safetensors")
    return 0


def _quiet(*_: object, **__: object) -> None:
    """Print nothing: what the first process says is enough."""
