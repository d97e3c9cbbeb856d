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
    """The quarter of a rule's different wordings that training never sees; none of a rule with fewer than four.

    One that training's wordings can come to in all its forms isn't held out: it would be no test.
    """
    different = sorted(set(rules(file)[rule]), key=lambda w: hashlib.sha256(f"{rule}:{w}".encode()).digest())
    hidden = different[: len(different) // HELD_OUT_SHARE]
    shown = {text for w in different[len(hidden) :] for text in choices(w)}
    return frozenset(w for w in hidden if not shown.issuperset(choices(w)))


@cache
def _said_in_training(file: str, rule: str) -> frozenset[str]:
    """What the wordings that aren't held out can come to, rules inside them unexpanded.

    A held-out wording may come to the same by another choice of words; it is new only where it doesn't.
    """
    return frozenset(text for w in rules(file)[rule] if w not in held_out(file, rule) for text in choices(w))


def choices(wording: str) -> list[str]:
    """Every text that the choices of a wording give."""
    match = _CHOICE.search(wording)
    if not match:
        return [" ".join(wording.split())]
    head, tail = wording[: match.start()], wording[match.end() :]
    return [text for option in match[1].split("|") for text in choices(f"{head}{option}{tail}")]


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
        known: frozenset[str] = frozenset()
        if self.split != "heldout_wordings":
            wordings = tuple(w for w in wordings if w not in hidden)
        elif outer and hidden:
            wordings, known = tuple(w for w in wordings if w in hidden), _said_in_training(file, rule)
        text = self._choose(wordings)
        while text in known:
            text = self._choose(wordings)
        return _RULE.sub(lambda m: self._expand(file, m[1], outer=False), text)

    def _choose(self, wordings: tuple[str, ...]) -> str:
        text = self.rng.choice(wordings)
        while match := _CHOICE.search(text):
            text = text[: match.start()] + self.rng.choice(match[1].split("|")) + text[match.end() :]
        return " ".join(text.split())
