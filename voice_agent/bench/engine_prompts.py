"""Chat prompts of the front desk for the engine's benchmark, from dialogues in wordings that training never saw.

    voice-agent bench engine_prompts --out diffusion_engine/bench/data/front_desk.jsonl

The same seed makes the same bytes. A line is {"messages", "tools", "parallel_tool_calls", "reply"}: a request as a call
sends it, and the reply that the agent's policy gives, for comparison.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from voice_agent.agents.front_desk import facts
from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.agents.front_desk.dialogues import generate
from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.simulation.grammar import Split
from voice_agent.agents.front_desk.store import BookingStore
from voice_agent.agents.front_desk.tools import ToolCallError

Messages = list[dict[str, Any]]
SPLIT: Split = "heldout_wordings"
SHARE_OF_CALLS = 1 / 3


def prompts(seed: int, count: int) -> list[dict[str, Any]]:
    """Draw prompts, one a dialogue; a third of them is answered by a tool call, as about that share of requests is."""
    restaurant = facts.load()
    rng = random.Random(seed)
    calls_left = round(count * SHARE_OF_CALLS)
    words_left = count - calls_left
    drawn = []
    for dialogue in generate(seed, count * 3, SPLIT, restaurant=restaurant, interrupted=0.0):
        states = _states(dialogue["messages"], restaurant)
        calls = [state for state in states if state["reply"].get("tool_calls")]
        words = [state for state in states if not state["reply"].get("tool_calls")]
        if calls and calls_left >= words_left / 2 and calls_left:
            drawn.append(rng.choice(calls))
            calls_left -= 1
        elif words and words_left:
            drawn.append(rng.choice(words))
            words_left -= 1
        if not calls_left + words_left:
            break
    return drawn


def _states(messages: Messages, restaurant: Restaurant) -> list[dict[str, Any]]:
    """What the model is asked before each of its replies, as far as the dialogue can be said again.

    A database of its own stands behind the tools here, so a dialogue is followed only as long as it answers the same.
    """
    today = dt.date.fromisoformat(re.findall(r"\d{4}-\d\d-\d\d", messages[0]["content"])[0])
    now = dt.datetime.combine(today, dt.time(10, 0), restaurant.zone)
    states: list[dict[str, Any]] = []
    with closing(BookingStore(":memory:", restaurant, random.Random(0))) as store:
        conversation = Conversation(restaurant, store, lambda: now)
        for at, message in enumerate(messages[2:], start=2):
            if message["role"] == "user":
                conversation.heard(message["content"].partition("\n")[0])
            elif message["role"] == "assistant":
                turn = conversation.turn()
                if turn.messages != messages[:at]:
                    return states
                states.append(
                    {
                        "messages": turn.messages,
                        "tools": turn.tools,
                        "parallel_tool_calls": False,
                        "reply": {key: message[key] for key in ("role", "content", "tool_calls") if key in message},
                    }
                )
                if not message.get("tool_calls"):
                    conversation.said(message["content"])
                for call in message.get("tool_calls", []):
                    function = call["function"]
                    try:
                        conversation.tool_called(function["name"], json.loads(function["arguments"]))
                    except ToolCallError:
                        return states
    return states


def main(argv: list[str] | None = None) -> int:
    """Write the prompts as JSON lines."""
    parser = argparse.ArgumentParser(
        prog="voice-agent bench engine_prompts",
        description="Write chat prompts of the front desk for the engine's benchmark.",
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--n", type=int, default=24, help="how many prompts")
    parser.add_argument("--out", type=Path, required=True, help="the JSON lines file to write")
    args = parser.parse_args(argv)
    lines = [json.dumps(prompt, ensure_ascii=False, separators=(",", ":")) for prompt in prompts(args.seed, args.n)]
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} prompts in {args.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
