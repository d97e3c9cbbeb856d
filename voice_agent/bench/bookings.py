"""How often a language model completes scripted bookings, in text.

    voice-agent bench bookings --url http://127.0.0.1:8000/v1 --model NAME --json out/bookings.json

A hundred bookings with names, dates and numbers that training never saw, and a hundred in wordings held out of it. The
caller is simulated by rules; the judge looks into the database and at every word and tool call.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import openai

from voice_agent.agents.front_desk import facts, persona
from voice_agent.agents.front_desk.agent import Message
from voice_agent.agents.front_desk.scripted import Outcome, Reply, ToolCall, cases, play
from voice_agent.agents.front_desk.simulation.grammar import Split
from voice_agent.agents.front_desk.tools import Schema

TITLES: dict[str, str] = {
    "train": "wordings and kinds of values seen in training",
    "heldout_values": "unseen names, dates and numbers",
    "heldout_wordings": "wordings held out of training",
}


class EndpointModel:
    """A model behind an OpenAI-compatible URL."""

    def __init__(self, client: openai.OpenAI, model: str, diffusion: dict[str, Any] | None, max_tokens: int) -> None:
        """`diffusion`: our engine's request extension, or None for other endpoints."""
        self._client, self._model, self._max_tokens = client, model, max_tokens
        self._extra = {"diffusion": diffusion} if diffusion else None

    def ask(self, messages: list[Message], tools: list[Schema]) -> Reply:
        """One greedy reply.

        Raises:
            openai.OpenAIError: the endpoint can't be reached or refuses the request.
        """
        answer = self._client.chat.completions.create(
            model=self._model,
            messages=messages,  # type: ignore[arg-type]
            tools=tools,  # type: ignore[arg-type]
            temperature=0.0,
            max_tokens=self._max_tokens,
            parallel_tool_calls=False if tools else openai.omit,  # as in a call
            extra_body=self._extra,
        )
        message = answer.choices[0].message
        report = (answer.model_extra or {}).get("diffusion") or {}
        calls = tuple(
            ToolCall(c.function.name, c.function.arguments) for c in message.tool_calls or () if c.type == "function"
        )
        return Reply(message.content or "", calls, report.get("forwards"), report.get("accepted_per_verification"))


def summary(outcomes: list[Outcome], seconds: float) -> dict[str, Any]:
    """Figures of one split."""
    replies = [r for o in outcomes for r in o.replies]
    forwards = [r.forwards for r in replies if r.forwards is not None]
    accepted = [r.accepted_per_verification for r in replies if r.accepted_per_verification is not None]
    reasons = Counter(o.faults[0].split(" ")[0] + " " + o.faults[0].split(" ")[1] for o in outcomes if o.faults)
    return {
        "n": len(outcomes),
        "passed": sum(o.passed for o in outcomes),
        "booked_right": sum(not any(f.startswith(("no booking", "booked")) for f in o.faults) for o in outcomes),
        "turns_mean": round(statistics.fmean(o.turns for o in outcomes), 2) if outcomes else None,
        "replies": len(replies),
        "forwards_per_reply": round(statistics.fmean(forwards), 2) if forwards else None,
        "accepted_per_verification": round(statistics.fmean(accepted), 2) if accepted else None,
        "seconds": round(seconds, 1),
        "first_faults": dict(reasons.most_common(8)),
    }


def _record(outcome: Outcome) -> dict[str, Any]:
    wanted = {slot: str(value) for slot, value in outcome.case.details.items()}
    return {
        "index": outcome.case.index,
        "wanted": wanted,
        "passed": outcome.passed,
        "faults": outcome.faults,
        "transcript": outcome.transcript,
    }


def main(argv: list[str] | None = None) -> int:
    """Run the cases, print a table and the failures; 0 unless the endpoint failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="up to and including /v1; the key is read from OPENAI_API_KEY")
    parser.add_argument("--model", required=True)
    parser.add_argument("--split", action="append", choices=get_args(Split), help="default: both held-out splits")
    parser.add_argument("--n", type=int, default=100, help="cases a split")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--strategy", help="decoding strategy of our engine: hybrid, autoregressive, ...")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--detailed-prompt", action="store_true", help="spell out the rules, for a general model")
    parser.add_argument("--facts", type=Path, default=facts.DEFAULT_FACTS)
    parser.add_argument("--show", type=int, default=5, help="how many failures to print")
    parser.add_argument("--json", type=Path, help="write figures and every transcript here")
    args = parser.parse_args(argv)
    restaurant = facts.load(args.facts)
    client = openai.OpenAI(
        base_url=args.url, api_key=os.environ.get("OPENAI_API_KEY", "none"), timeout=60, max_retries=0
    )
    model = EndpointModel(client, args.model, {"strategy": args.strategy} if args.strategy else None, args.max_tokens)
    prompt = persona.detailed_system_prompt if args.detailed_prompt else persona.system_prompt
    report: dict[str, Any] = {"model": args.model, "seed": args.seed, "strategy": args.strategy, "splits": {}}
    for split in args.split or ["heldout_values", "heldout_wordings"]:
        began, outcomes = time.monotonic(), list[Outcome]()
        for case in cases(split, args.n, args.seed, restaurant):
            try:
                outcomes.append(play(case, model, restaurant, prompt=prompt))
            except openai.OpenAIError as error:
                print(f"{args.url}: {error}. Is the engine running, and is --model right?", file=sys.stderr)
                return 1
            print(f"\r{split}: {sum(o.passed for o in outcomes)} of {len(outcomes)}", end="", file=sys.stderr)
        print(file=sys.stderr)
        figures = summary(outcomes, time.monotonic() - began)
        report["splits"][split] = {**figures, "cases": [_record(o) for o in outcomes]}
        _print(split, figures, [o for o in outcomes if not o.passed][: args.show])
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
    return 0


def _print(split: str, figures: dict[str, Any], failures: list[Outcome]) -> None:
    print(f"\n{TITLES[split]}: {figures['passed']} of {figures['n']} bookings completed")
    for key, value in figures.items():
        if key not in ("n", "passed") and value is not None:
            print(f"  {key.replace('_', ' '):26} {value}")
    for outcome in failures:
        print(f"\n  case {outcome.case.index}: {'; '.join(outcome.faults)}")
        print("\n".join(f"    {line}" for line in outcome.transcript))


if __name__ == "__main__":
    sys.exit(main())
