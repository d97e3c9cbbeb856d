"""Dialogues for training: simulated callers, the agent's policy, the real conversation, tools and database.

    python -m voice_agent.agents.front_desk.dialogues --seed 1 --n 20000 --split train --out dialogues.jsonl

The same seed, count and split make the same bytes. Each line is an OpenAI-style chat: {"messages": [...]}.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from voice_agent.agents.front_desk import facts
from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.policy import Policy
from voice_agent.agents.front_desk.simulation.caller import Caller
from voice_agent.agents.front_desk.simulation.goals import draw_goals, occupy
from voice_agent.agents.front_desk.simulation.grammar import Grammar, Split
from voice_agent.agents.front_desk.simulation.speaker import Speaker, draw_style
from voice_agent.agents.front_desk.simulation.values import Values
from voice_agent.agents.front_desk.store import BookingStore
from voice_agent.agents.front_desk.tools import ToolCallError

MAX_TURNS = 9
INTERRUPTED = 0.04
"""Share of replies that the caller cuts off, so that training has seen histories with half a sentence in them."""


@dataclass
class Accuracy:
    """How often the note had exactly the details that the caller meant, over `turns` caller turns."""

    turns: int = 0
    right: int = 0

    @property
    def share(self) -> float:
        """Right notes among all."""
        return self.right / self.turns if self.turns else 1.0


@dataclass(frozen=True)
class Mishearing:
    """A caller turn whose note was wrong."""

    agent: str
    caller: str
    expected: dict[str, str]
    heard: dict[str, str]


def _play(
    restaurant: Restaurant, rng: random.Random, split: Split, accuracy: Accuracy, interrupted: float = INTERRUPTED
) -> list[dict[str, Any]] | Mishearing:
    """One call, from the greeting to its end."""

    def cut(reply: str) -> str:
        """The first words of some replies: the caller has understood and talks over the rest."""
        words = reply.split()
        if len(words) < 6 or rng.random() >= interrupted:
            return reply
        return " ".join(words[: rng.randint(len(words) * 2 // 3, len(words) - 1)])

    values, grammar = Values(split, rng), Grammar(split, rng)
    now = dt.datetime.combine(values.today(), dt.time(rng.randint(9, 16), rng.choice((0, 10, 25, 40))), restaurant.zone)
    with closing(BookingStore(":memory:", restaurant, rng)) as store:
        goals = draw_goals(restaurant, store, values, now.date(), rng)
        occupy(restaurant, store, goals, rng)
        conversation = Conversation(restaurant, store, lambda: now)
        policy = Policy(conversation)
        caller = Caller(goals, restaurant, Speaker(now.date(), grammar, draw_style(rng), rng), values, rng)
        words = conversation.greeting
        for _ in range(MAX_TURNS):
            utterance = caller.speak(words, [r.answer for r in policy.results])
            conversation.heard(utterance.text)
            accuracy.turns += 1
            heard, expected = dict(conversation.state.known()), caller.expected()
            if heard != expected:
                return Mishearing(words, utterance.text, expected, heard)
            try:
                words = policy.respond(utterance.acts, cut=cut)
            except ToolCallError:  # what the caller wants was understood as something else: its tool isn't on offer
                return Mishearing(words, utterance.text, expected, heard)
            accuracy.right += 1
            reply = conversation.messages[-1]
            if reply["content"] != words:
                reply["weight"] = 0
            for result in policy.results:
                caller.informed(result.name, result.answer)
            if conversation.outcome:
                break
        return conversation.messages


def generate(
    seed: int,
    n: int,
    split: Split,
    *,
    restaurant: Restaurant | None = None,
    accuracy: Accuracy | None = None,
    interrupted: float = INTERRUPTED,
) -> Iterator[dict[str, Any]]:
    """Yield `n` dialogues as {"messages": [...]}; the same arguments give the same dialogues.

    `interrupted` is the share of replies that the caller cuts off. Of these the history has what was heard, as in a
    real call; they carry `"weight": 0`, OpenAI's mark for a message that is not to be learned.

    A dialogue in which a detail was misheard is left out, so that no training target rests on a wrong note; `accuracy`
    counts how often that was.
    """
    place = restaurant or facts.load()
    counted = accuracy or Accuracy()
    made = index = 0
    while made < n:
        messages = _play(place, random.Random(f"{seed}/{split}/{index}"), split, counted, interrupted)
        index += 1
        if not isinstance(messages, Mishearing):
            made += 1
            yield {"messages": messages}


def mishearings(seed: int, n: int, split: Split, restaurant: Restaurant | None = None) -> Iterator[Mishearing]:
    """The caller turns among `n` calls whose details were not understood exactly: to improve the grounding."""
    place = restaurant or facts.load()
    for index in range(n):
        outcome = _play(place, random.Random(f"{seed}/{split}/{index}"), split, Accuracy())
        if isinstance(outcome, Mishearing):
            yield outcome


def main(argv: list[str] | None = None) -> int:
    """Write dialogues as JSON lines, and to stderr how well the callers were understood."""
    parser = argparse.ArgumentParser(description="Generate the front desk's training dialogues.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=1000, help="how many dialogues")
    parser.add_argument("--split", choices=get_args(Split), default="train")
    parser.add_argument("--facts", type=Path, default=facts.DEFAULT_FACTS, help="another restaurant's facts")
    parser.add_argument(
        "--interrupted", type=float, default=INTERRUPTED, help="share of replies that the caller cuts off"
    )
    parser.add_argument("--out", type=Path, required=True, help="the JSON lines file to write")
    args = parser.parse_args(argv)
    accuracy = Accuracy()
    with args.out.open("w", encoding="utf-8") as out:
        place = facts.load(args.facts)
        dialogues = generate(
            args.seed, args.n, args.split, restaurant=place, accuracy=accuracy, interrupted=args.interrupted
        )
        for done, dialogue in enumerate(dialogues, 1):
            out.write(json.dumps(dialogue, ensure_ascii=False) + "\n")
            if done % 1000 == 0:
                print(f"{done}/{args.n} dialogues", file=sys.stderr)
    print(f"details understood exactly in {accuracy.share:.2%} of {accuracy.turns} caller turns", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
