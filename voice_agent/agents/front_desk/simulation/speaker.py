"""How a simulated caller puts things: wordings, values, politeness, fillers and slips."""

from __future__ import annotations

import datetime as dt
import random
import re
from dataclasses import dataclass
from typing import Literal

from voice_agent.agents.front_desk.policy import Act
from voice_agent.agents.front_desk.simulation import noise, renderings
from voice_agent.agents.front_desk.simulation.grammar import Grammar, fill

Slot = Literal["party", "date", "time", "name", "number"]
Details = dict[Slot, int | str | dt.date]
LETTER: dict[Slot, str] = {"party": "p", "date": "d", "time": "t", "name": "n", "number": "k"}

# Nobody says "on tomorrow" or "the evening of tomorrow night".
_ON_RELATIVE = re.compile(r"\b(?:on|at) (?=today|tonight|tomorrow|this |in |day after|a week|two weeks|the day after)")
_EVENING_OF = re.compile(r"\b(?:(?:on|for) )?the evening of (?=today|tonight|tomorrow|this |in |\w+ (?:evening|night))")


@dataclass(frozen=True)
class Utterance:
    """What is said, what is meant by it, and the details in it."""

    text: str
    acts: tuple[Act, ...]
    gives: Details


@dataclass(frozen=True)
class Style:
    """How a caller talks, as probabilities.

    Of a filler after a word, a false start, a slip of the recogniser and a polite ending; of doing something else than
    was asked for, and of changing one's mind when the details are read back.
    """

    filler: float
    false_start: float
    slip: float
    polite: float
    aside: float
    doubt: float


def draw_style(rng: random.Random) -> Style:
    """A manner of speaking; a third of the callers speak cleanly."""
    if rng.random() < 0.35:
        return Style(filler=0.0, false_start=0.0, slip=0.0, polite=0.4, aside=0.08, doubt=0.2)
    filler, false_start, slip = rng.choice((0.02, 0.05, 0.1)), rng.choice((0.0, 0.1)), rng.choice((0.0, 0.1, 0.2))
    return Style(filler=filler, false_start=false_start, slip=slip, polite=0.35, aside=0.1, doubt=0.3)


class Speaker:
    """Turns rules and details into utterances."""

    def __init__(self, today: dt.date, grammar: Grammar, manner: Style, rng: random.Random) -> None:
        """`today` is what relative dates count from."""
        self.today, self.grammar, self.manner, self.rng = today, grammar, manner, rng

    def plain(self, rule: str, act: Act, *, file: str = "wordings.yaml", lead: str = "") -> Utterance:
        """An utterance of `rule` that gives no details; `lead` is a rule to put before it."""
        return self._utter(self.grammar.say(rule, file=file), (act,), {}, lead)

    def say(
        self,
        rule: str,
        gives: Details,
        *,
        act: Act | None = None,
        lead: str = "",
        main: Slot | None = None,
        polite: bool = False,
    ) -> Utterance:
        """An utterance of `rule` with details: `main` in the rule's own slot, the others around it."""
        text = self.grammar.say(rule)
        others = [slot for slot in gives if slot != main and f"${LETTER[slot]}" not in text]
        phrases = [self._phrase(slot, text, sole="$what" in text, rest=len(gives) > 1) for slot in others]
        self.rng.shuffle(phrases)
        names = [p for p in phrases if "$n" in p or "$k" in p]
        # A size after another number needs a word between them: "at seven thirty for two", not "seven thirty two".
        table = [p for p in phrases if p not in names]
        table = [f"for {p}" if i and p.startswith("$p") else p for i, p in enumerate(table)]
        joined = " ".join(table)
        if "$slots" in text:
            text = text.replace("$slots", joined)
        elif "$what" in text:
            text = text.replace("$what", joined or names.pop())
        elif table:
            text = f"{text} {'for ' if joined.startswith('$p') else ''}{joined}"
        if names:
            text = f"{text} {'and ' if self.rng.random() < 0.3 else ''}{' and '.join(names)}"
        if polite and self.rng.random() < self.manner.polite:
            text = f"{text} {self.grammar.say('polite_end')}"
        acts = (*((act,) if act else ()), *((Act("give"),) if gives or not act else ()))
        return self._utter(text, acts, gives, lead, answer=main)

    def _phrase(self, slot: Slot, text: str, *, sole: bool, rest: bool) -> str:
        if sole and slot == "name":
            bare = re.search(r"(it's|i said|no|sorry|should be|nope|meant) \$what", text)
            return "$n" if bare else self.rng.choice(("under $n", "the name $n"))
        if sole:
            return {"party": "for $p people" if rest else "$p people", "date": "$d", "time": "$t", "number": "$k"}[slot]
        return self.grammar.say(f"{slot}_in")

    def _utter(
        self, text: str, acts: tuple[Act, ...], gives: Details, lead: str = "", answer: Slot | None = None
    ) -> Utterance:
        """Put in the values, the fillers and the slips."""
        rng, manner = self.rng, self.manner
        if lead:
            text = f"{self.grammar.say(lead)} {text}"
        elif rng.random() < manner.filler * 2:
            text = f"{self.grammar.say('opener')} {text}"
        if rng.random() < manner.false_start:
            text = noise.false_start(text, rng)
        text = noise.fillers(text, rng, manner.filler)
        if rng.random() < manner.slip:
            text = noise.slips(text, rng)
        if gives.get("party") == 1:
            text = re.sub(r"\$p (people|persons|guests|adults)", "$p person", text)
        size = gives.get("party")
        who = renderings.party_phrase(size, rng) if isinstance(size, int) and rng.random() < 0.25 else None
        if who and re.search(r"^(it's |um |oh |for )?\$p( people)?$|\bfor \$p( people)?( |$)", text):
            text = re.sub(r"\$p( people)?", who, text)
        text = fill(text, {LETTER[s]: self._render(s, v, text, answer=answer == s) for s, v in gives.items()})
        text = _ON_RELATIVE.sub("", text)
        return Utterance(_EVENING_OF.sub("", text), acts, gives)

    def _render(self, slot: Slot, value: int | str | dt.date, text: str, *, answer: bool) -> str:
        if isinstance(value, dt.date):
            return renderings.date(value, self.today, self.rng)
        if slot == "time":
            assert isinstance(value, int)
            # A bare hour is a time after "at", or as the answer to the question for the time.
            certain = not re.search(r"\bat (about |around )?\$t", text) and not answer
            return renderings.time(value, self.rng, certain=certain)
        if slot == "party":
            assert isinstance(value, int)
            return renderings.party(value)
        return renderings.number(str(value), self.rng) if slot == "number" else renderings.name(str(value), self.rng)
