"""Wordings from rules, a part of them held out: what a caller says in training and what only the test hears."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

Split = Literal["train", "heldout_values", "heldout_wordings"]
_HERE = Path(__file__).parent
_CHOICE = re.compile(r"\{([^{}]*)\}")
_SLOT = re.compile(r"\$([a-z]+)")
_RULE = re.compile(r"<([a-z_]+)>")
HELD_OUT_SHARE = 4  # one in four


@cache
def rules(file: str) -> Mapping[str, tuple[str, ...]]:
    """The rules of a YAML file beside this one.

    Raises:
        ValueError: a rule isn't a list of wordings.
    """
    data = yaml.safe_load((_HERE / file).read_text(encoding="utf-8"))
    for name, wordings in data.items():
        if not isinstance(wordings, list) or not all(isinstance(w, str) for w in wordings):
            raise ValueError(f"{file}: rule {name!r} must be a list of texts")
    return {name: tuple(wordings) for name, wordings in data.items()}


@cache
def held_out(file: str, rule: str) -> frozenset[str]:
    """The quarter of a rule's different wordings that training never sees; none of a rule with fewer than four."""
    different = sorted(set(rules(file)[rule]), key=lambda w: hashlib.sha256(f"{rule}:{w}".encode()).digest())
    return frozenset(different[: len(different) // HELD_OUT_SHARE])


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put `values` into the $slots of a wording."""
    return " ".join(_SLOT.sub(lambda m: values[m[1]], text).split())


class Grammar:
    """Expands rules with a random source; the split decides which wordings may be used.

    In `heldout_wordings` a rule that is asked for uses its held-out wordings, and the rules inside it any.
    """

    def __init__(self, split: Split, rng: random.Random) -> None:
        self.split = split
        self.rng = rng

    def say(self, rule: str, *, file: str = "wordings.yaml") -> str:
        """One wording of `rule`, its $slots still in place."""
        return " ".join(self._expand(file, rule, outer=True).split())

    def _expand(self, file: str, rule: str, *, outer: bool) -> str:
        wordings, hidden = rules(file)[rule], held_out(file, rule)
        if self.split != "heldout_wordings":
            wordings = tuple(w for w in wordings if w not in hidden)
        elif outer and hidden:
            wordings = tuple(w for w in wordings if w in hidden)
        text = self.rng.choice(wordings)
        while match := _CHOICE.search(text):
            text = text[: match.start()] + self.rng.choice(match[1].split("|")) + text[match.end() :]
        return _RULE.sub(lambda m: self._expand(file, m[1], outer=False), text)
