"""The training loop: one pass a step trains the autoregressive and the draft loss into one adapter."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from diffusion_engine.models.transformer import Transformer
from diffusion_engine.training.data import Dialogue
from diffusion_engine.training.layout import NO_TARGET, Batch, Rows, collate, layout
from diffusion_engine.training.lora import adapter_state, add_lora
from diffusion_engine.training.team import Team

EVALUATE_EVERY = 50
"""Steps between evaluations on the held-out dialogues."""
EVALUATED_LENGTH = 8
"""Masks of the drafts that are judged: what the embedded model is served with."""


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides the result beside the data.

    Attributes:
        steps: optimizer steps of the whole run.
        rows: rows a step, about; dialogues are taken until it is reached.
        batch_rows: padded rows of one forward and backward pass.
        max_rows: rows of one dialogue at the most.
        rank: inner dimension of the adapter.
        learning_rate: peak of AdamW's.
        warmup: steps of linear rise.
        decay_share: last share of the steps, over which the rate falls linearly to zero.
        block_lengths: masks a block and how often that length is drawn, as (length, share).
        draft_weight: weight of the draft loss beside the autoregressive one.
        draft_decay: factor of a draft's weight per offset in its block.
        negatives: random vocabulary entries beside the corpus's own in each step's softmax.
        seed: of everything random.
        dtype: of the frozen body and the activations, `fp32` or `bf16`.
    """

    steps: int = 2000
    rows: int = 3000
    batch_rows: int = 1600
    max_rows: int = 1400
    rank: int = 32
    learning_rate: float = 1e-3
    warmup: int = 40
    decay_share: float = 0.25
    block_lengths: tuple[tuple[int, float], ...] = ((8, 0.75), (16, 0.25))
    draft_weight: float = 1.0
    draft_decay: float = 0.95
    negatives: int = 4096
    seed: int = 1
    dtype: str = "fp32"


@dataclass
class Progress:
    """What has been trained so far."""

    step: int = 0
    tokens: int = 0
    reply_tokens: int = 0
    draft_tokens: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


class PackedAttention:
    """Attention inside each dialogue of a padded batch."""

    def __init__(self, visible: Tensor) -> None:
        """Keep the (B, 1, R, R) bool mask."""
        self.visible = visible

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """See `AttentionFn`; keys are repeated so that the fused kernel with a backward pass is taken."""
        batch, size = self.visible.shape[0], self.visible.shape[2]
        groups = query.shape[1] // key.shape[1]

        def split(x: Tensor) -> Tensor:
            return x.view(batch, size, x.shape[1], x.shape[2]).transpose(1, 2)

        key, value = split(key).repeat_interleave(groups, 1), split(value).repeat_interleave(groups, 1)
        out: Tensor = functional.scaled_dot_product_attention(split(query), key, value, attn_mask=self.visible)
        return out.transpose(1, 2).reshape(query.shape)


def learning_rate(config: TrainingConfig, step: int) -> float:
    """Rise, hold, fall: the rate of step `step` (from 0)."""
    rise = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    left = (config.steps - step) / max(1.0, config.decay_share * config.steps)
    return config.learning_rate * min(rise, 1.0, left)


def epochs(dialogues: Sequence[Dialogue], seed: int, step: int, config: TrainingConfig) -> list[int]:
    """Indices of the dialogues of one step; the same for the same seed, however often a run was interrupted."""
    rng = random.Random(f"{seed}/{step}")
    chosen: list[int] = []
    rows = 0
    while rows < config.rows:
        index = rng.randrange(len(dialogues))
        chosen.append(index)
        rows += len(dialogues[index].tokens) + 8 * sum((end - start) // 6 for start, end in dialogues[index].replies)
    return chosen


class Trainer:
    """One run: model, optimizer, progress, and where they are kept."""

    def __init__(
        self,
        model: Transformer,
        dialogues: Sequence[Dialogue],
        config: TrainingConfig,
        folder: Path,
        *,
        held_out: Sequence[Dialogue] = (),
        team: Team | None = None,
    ) -> None:
        """Add an adapter to the model and resume from the folder if a run was begun there.

        Args:
            model: the base; its weights are frozen.
            dialogues: the training set.
            config: of the run.
            folder: gets `adapter.safetensors`, `state.pt`, `progress.json`.
            held_out: dialogues for `evaluate`, never trained on.
            team: the processes that share each step, None when there is one.

        Raises:
            ValueError: the folder holds a run with another configuration.
        """
        self.config, self.folder, self.dialogues = config, folder, dialogues
        self.held_out = held_out
        self.team = team or Team()
        model.requires_grad_(False)
        model.to({"fp32": torch.float32, "bf16": torch.bfloat16}[config.dtype])
        add_lora(model, config.rank, config.seed)
        self.model = model
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.0
        )
        corpus = {token for dialogue in dialogues for token in dialogue.tokens}
        self.corpus = torch.tensor(sorted(corpus))
        self.progress = Progress()
        folder.mkdir(parents=True, exist_ok=True)
        self._resume()

    def run(self, report: Callable[[dict[str, float]], None], *, save_every_s: float = 300.0) -> None:
        """Train to the last step, saving at intervals and at the end.

        Args:
            report: called with each step's figures.
            save_every_s: seconds between saves.
        """
        saved = time.monotonic()
        while self.progress.step < self.config.steps:
            figures = self.step()
            if self.held_out and (self.progress.step % EVALUATE_EVERY == 0 or self.progress.step == self.config.steps):
                figures |= self.evaluate()
                self.progress.history[-1] |= {name: round(value, 6) for name, value in figures.items()}
            report(figures)
            if time.monotonic() - saved > save_every_s:
                self.save()
                saved = time.monotonic()
        self.save()

    def step(self) -> dict[str, float]:
        """One optimizer step; returns its figures."""
        begun = time.monotonic()
        config, progress = self.config, self.progress
        rng = random.Random(f"{config.seed}/{progress.step}/rows")
        rate = learning_rate(config, progress.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        rows = [self._rows(index, rng) for index in epochs(self.dialogues, config.seed, progress.step, config)]
        vocabulary, lookup = self._vocabulary(progress.step)
        weights = [sum(r.weights) for r in rows]
        figures = {"ar_loss": 0.0, "draft_loss": 0.0, "ar_right": 0.0, "draft_right": 0.0}
        totals = {"ar": 0.0, "draft": 0.0}
        micro = list(_microbatches(rows, config.batch_rows))
        batches = [collate(group) for group in micro]
        for batch in batches:
            totals["ar"] += float(batch.weights[~batch.draft].sum())
            totals["draft"] += float(batch.weights[batch.draft].sum())
        for batch in self.team.share(batches):
            for name, value in self._backward(batch, vocabulary, lookup, totals).items():
                figures[name] += value
        self.team.add_up(self.parameters, figures)
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        progress.tokens += sum(len(r) for r in rows)
        progress.reply_tokens += sum(int((b.weights[~b.draft] >= 1).sum()) for b in batches)
        progress.draft_tokens += sum(int((b.targets[b.draft] != NO_TARGET).sum()) for b in batches)
        progress.seconds += time.monotonic() - begun
        figures |= {"step": progress.step, "lr": rate, "rows": sum(map(len, rows)), "seconds": time.monotonic() - begun}
        figures |= {"weight": sum(weights), "draft_tokens": progress.draft_tokens, "tokens": progress.tokens}
        progress.history.append({k: round(v, 6) for k, v in figures.items() if k != "weight"})
        return figures

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """How the model does on the held-out dialogues, each reply given the right words before it.

        Returns:
            `held_right`: share of reply tokens that the causal rows get right; `held_exact`: share of replies that they
            get right as a whole, which is what greedy decoding would write; `held_accepted`: tokens that a draft of
            `EVALUATED_LENGTH` gets right before its first error, on average over drafts that could be right in full.
        """
        rng = random.Random(self.config.seed)
        masks = self.model.config.mask_block(EVALUATED_LENGTH)
        rows = [
            layout(dialogue, masks, rng, length=EVALUATED_LENGTH, max_rows=self.config.max_rows)
            for dialogue in self.held_out
        ]
        sums = dict.fromkeys(("tokens", "right", "replies", "exact", "drafts", "accepted"), 0.0)
        for batch in self.team.share([collate(group) for group in _microbatches(rows, self.config.batch_rows)]):
            hidden = self.model(batch.tokens, batch.positions, PackedAttention(batch.visible))
            wanted = (batch.targets != NO_TARGET) & (batch.draft | (batch.weights >= 1))
            right = torch.zeros_like(wanted)
            right[wanted] = self.model.logits(hidden[wanted]).argmax(-1) == batch.targets[wanted]
            _count(batch, wanted, right, sums)
        self.team.add_up([], sums)
        return {
            "held_right": sums["right"] / max(1.0, sums["tokens"]),
            "held_exact": sums["exact"] / max(1.0, sums["replies"]),
            "held_accepted": sums["accepted"] / max(1.0, sums["drafts"]),
        }

    def save(self) -> None:
        """Write adapter, optimizer and progress; each file whole or not at all. Only the first process writes."""
        if self.team.index:
            return
        state = {name: tensor.to(torch.float32).contiguous() for name, tensor in adapter_state(self.model).items()}
        _replace(self.folder / "adapter.safetensors", lambda path: save_file(state, path))
        optimizer = {
            "config": asdict(self.config),
            "optimizer": self.optimizer.state_dict(),
            "step": self.progress.step,
        }
        _replace(self.folder / "state.pt", lambda path: torch.save(optimizer, path))
        _replace(
            self.folder / "progress.json",
            lambda path: path.write_text(json.dumps({"config": asdict(self.config), **asdict(self.progress)}) + "\n"),
        )

    def _resume(self) -> None:
        path = self.folder / "progress.json"
        if not path.is_file():
            return
        kept: dict[str, Any] = json.loads(path.read_text())
        if kept.pop("config") != json.loads(json.dumps(asdict(self.config))):
            raise ValueError(f"{self.folder} holds a run with another configuration; give another --out")
        state = torch.load(self.folder / "state.pt", weights_only=True)
        if state["step"] != kept["step"]:
            raise ValueError(f"{self.folder}: state.pt and progress.json are of different steps; give another --out")
        self.optimizer.load_state_dict(state["optimizer"])
        tensors = load_file(self.folder / "adapter.safetensors")
        with torch.no_grad():
            for name, parameter in adapter_state(self.model).items():
                parameter.copy_(tensors[name])
        self.progress = Progress(**kept)

    def _rows(self, index: int, rng: random.Random) -> Rows:
        config = self.config
        lengths, shares = zip(*config.block_lengths, strict=True)
        length = rng.choices(lengths, shares)[0]
        masks = self.model.config.mask_block(length)
        return layout(
            self.dialogues[index], masks, rng, length=length, decay=config.draft_decay, max_rows=config.max_rows
        )

    def _vocabulary(self, step: int) -> tuple[Tensor, Tensor]:
        """The corpus's ids and this step's random others; and where each id stands among them."""
        size = self.model.config.vocab_size
        generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + step)
        others = torch.randint(size, (self.config.negatives,), generator=generator)
        vocabulary = torch.unique(torch.cat([self.corpus, others]))
        lookup = torch.full((size,), NO_TARGET)
        lookup[vocabulary] = torch.arange(len(vocabulary))
        return vocabulary, lookup

    def _backward(self, batch: Batch, vocabulary: Tensor, lookup: Tensor, totals: dict[str, float]) -> dict[str, float]:
        hidden = self.model(batch.tokens, batch.positions, PackedAttention(batch.visible))
        rows = (batch.weights > 0).nonzero().squeeze(1)
        logits = functional.linear(hidden[rows], self.model.head.weight[vocabulary])
        targets, weights, draft = lookup[batch.targets[rows]], batch.weights[rows], batch.draft[rows]
        losses = functional.cross_entropy(logits.float(), targets, reduction="none")
        ar = (losses * weights)[~draft].sum() / max(totals["ar"], 1.0)
        drafts = (losses * weights)[draft].sum() / max(totals["draft"], 1.0)
        (ar + self.config.draft_weight * drafts).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            right = (logits.argmax(-1) == targets) * weights
            return {
                "ar_loss": float(ar),
                "draft_loss": float(drafts),
                "ar_right": float(right[~draft].sum()) / max(totals["ar"], 1.0),
                "draft_right": float(right[draft].sum()) / max(totals["draft"], 1.0),
            }


def _count(batch: Batch, wanted: Tensor, right: Tensor, sums: dict[str, float]) -> None:
    """Add one batch to the sums of `Trainer.evaluate`."""
    replies = wanted & ~batch.draft
    sums["tokens"] += float(replies.sum())
    sums["right"] += float((right & replies).sum())
    run: list[bool] = []
    for inside, good in zip([*replies.tolist(), False], [*right.tolist(), False], strict=True):
        if inside:
            run.append(good)
        elif run:
            sums["replies"] += 1
            sums["exact"] += all(run)
            run = []
    drafts = batch.draft.nonzero().squeeze(1).view(-1, EVALUATED_LENGTH)
    whole = drafts[wanted[drafts].all(1)]
    sums["drafts"] += len(whole)
    sums["accepted"] += float(right[whole].int().cumprod(1).sum())


def _microbatches(rows: list[Rows], limit: int) -> Iterator[list[Rows]]:
    """Groups of similar length whose padded rows stay under a limit of memory."""
    group: list[Rows] = []
    for item in sorted(rows, key=len):
        if group and len(item) * (len(group) + 1) > limit:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_suffix(path.suffix + ".part")
    write(temporary)
    temporary.replace(path)
