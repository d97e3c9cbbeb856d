import json
from typing import Any

import pytest

from voice_agent.agents.front_desk.scripted import Model, Reply, ToolCall, cases, play

from .places import LUNA
from .rule_model import RuleModel, call


def run(model: Model, n: int = 1, split: str = "heldout_values") -> list:
    return [play(case, model, LUNA) for case in cases(split, n, 7, LUNA)]  # type: ignore[arg-type]


@pytest.mark.parametrize("split", ["heldout_values", "heldout_wordings"])
def test_a_model_that_follows_the_policy_completes_the_bookings(split: str):
    outcomes = run(RuleModel(), 60, split)
    assert sum(o.passed for o in outcomes) >= 58, [o.faults for o in outcomes if not o.passed]


def test_the_cases_are_the_same_every_time():
    assert list(cases("heldout_values", 5, 7, LUNA)) == list(cases("heldout_values", 5, 7, LUNA))


class Spoiler(RuleModel):
    """Follows the policy, but for one thing."""

    def __init__(self, **replacements: Any) -> None:
        self._replacements = replacements

    def ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
        reply = super().ask(messages, tools)
        key = reply.calls[0].name if reply.calls else "words"
        change = self._replacements.get(key)
        return change(reply) if change else reply


def changed(reply: Reply, **arguments: Any) -> Reply:
    (made,) = reply.calls
    return Reply("", (ToolCall(made.name, json.dumps({**json.loads(made.arguments), **arguments})),))


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (Spoiler(book_table=lambda r: changed(r, party_size=99)), "party_size 99, which is not one of"),
        (Spoiler(book_table=lambda r: call("confirm")), "called confirm, which wasn't offered"),
        (Spoiler(confirm=lambda r: Reply("You're booked. Anything else?")), "said that the table was booked before"),
        (Spoiler(words=lambda r: Reply("We're open until midnight. " + r.text)), "out of nowhere"),
        (Spoiler(words=lambda r: Reply("")), "said nothing"),
        (Spoiler(words=lambda r: Reply("Goodbye.")), "no booking was made"),
        (Spoiler(end_call=lambda r: Reply("", (ToolCall("end_call", "{"),))), "bad call end_call({)"),
        (Spoiler(words=lambda r: call("opening_hours")), "no words after 4 steps"),
    ],
)  # fmt: skip
def test_the_judge_finds(model: Model, fault: str):
    (outcome,) = run(model)
    assert not outcome.passed
    assert any(fault in f for f in outcome.faults), outcome.faults
