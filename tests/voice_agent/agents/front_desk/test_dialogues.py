import hashlib
import itertools
import json
import os
import random
import subprocess
import sys

import pytest

from voice_agent.agents.front_desk.dialogues import Accuracy, generate
from voice_agent.agents.front_desk.simulation.grammar import Grammar, held_out, rules
from voice_agent.agents.front_desk.simulation.values import Values

from .places import LUNA


def digest(seed: int, split: str = "train") -> str:
    lines = [json.dumps(d) for d in generate(seed, 30, split)]  # type: ignore[arg-type]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_the_same_seed_makes_the_same_bytes_in_another_process():
    code = "from tests.voice_agent.agents.front_desk.test_dialogues import digest; print(digest(5))"
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert other.stdout.strip() == digest(5)
    assert digest(5) != digest(6)


@pytest.mark.parametrize("split", ["train", "heldout_values", "heldout_wordings"])
def test_the_notes_are_right_in_more_than_99_turns_of_100(split: str):
    accuracy = Accuracy()
    list(generate(11, 400, split, accuracy=accuracy))  # type: ignore[arg-type]
    assert accuracy.turns > 1500
    assert accuracy.share > 0.99


def test_every_dialogue_is_a_valid_chat_that_the_agent_ends():
    for dialogue in generate(3, 60, "train"):
        messages = dialogue["messages"]
        assert messages[0]["role"] == "system"
        assert messages[-1]["role"] == "assistant"
        assert messages[-1]["content"]
        for before, after in itertools.pairwise(messages):
            assert (after["role"] == "tool") == bool(before.get("tool_calls"))
            assert not (before["role"] == after["role"] == "user")


def test_replies_are_short_and_hold_only_what_can_be_spoken():
    for dialogue in generate(4, 100, "train"):
        for message in dialogue["messages"]:
            if message["role"] == "assistant" and message["content"]:
                assert len(message["content"].split()) <= 45, message["content"]
                assert not any(c.isdigit() or c in "#*_{}[]" for c in message["content"])


def test_every_tool_and_most_topics_occur():
    called: set[str] = set()
    topics: set[str] = set()
    for dialogue in generate(1, 500, "train"):
        for message in dialogue["messages"]:
            for call in message.get("tool_calls", []):
                called.add(call["function"]["name"])
                topics.add(json.loads(call["function"]["arguments"]).get("topic", ""))
    assert called == {
        "opening_hours",
        "restaurant_info",
        "check_availability",
        "book_table",
        "change_booking",
        "cancel_booking",
        "confirm",
        "hand_over",
        "end_call",
    }
    assert len(topics & set(LUNA.topics)) >= len(LUNA.topics) * 0.9


def test_a_quarter_of_the_wordings_is_held_out_and_never_said_in_training():
    total = hidden_total = 0
    for file in ("wordings.yaml", "topics.yaml"):
        for rule, wordings in rules(file).items():
            hidden = held_out(file, rule)
            total, hidden_total = total + len(set(wordings)), hidden_total + len(hidden)
            if not hidden:
                continue
            train, unseen = Grammar("train", random.Random(1)), Grammar("heldout_wordings", random.Random(1))
            said = {train.say(rule, file=file) for _ in range(300)}
            assert not said & {unseen.say(rule, file=file) for _ in range(60)}
    assert 0.22 < hidden_total / total < 0.26


def test_held_out_names_and_numbers_never_occur_in_training():
    train, unseen = Values("train", random.Random(1)), Values("heldout_values", random.Random(2))
    for draw in ("last_name", "first_name", "number"):
        seen = {getattr(train, draw)() for _ in range(2000)}
        assert not seen & {getattr(unseen, draw)() for _ in range(500)}
        assert len(seen) > 100


def test_every_topic_of_the_facts_has_wordings():
    assert set(rules("topics.yaml")) == set(LUNA.topics)
