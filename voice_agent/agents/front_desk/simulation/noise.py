"""What happens to words on their way: fillers, false starts and repairs of the speaker, slips of the recogniser."""

from __future__ import annotations

import random

from voice_agent.agents.front_desk.grounding.words import word_set

_FILLERS = ("um", "uh", "um", "uh", "you know", "like", "well", "um")
# Words whose loss changes nothing that matters, and words that may be doubled.
_DROPPABLE = word_set("a i we would like please it you can could do my our me us there")
_DOUBLED = _DROPPABLE | word_set("the for at on to of and is that")


def fillers(text: str, rng: random.Random, rate: float) -> str:
    """Fillers between words, `rate` a word. `text` has its $slots still in place, so that no value is split."""
    out: list[str] = []
    for i, word in enumerate(text.split()):
        if i and rng.random() < rate:
            out.append(rng.choice(_FILLERS[:4] if rng.random() < 0.8 else _FILLERS))
        out.append(word)
    return " ".join(out)


def false_start(text: str, rng: random.Random) -> str:
    """The first words, broken off and begun again: "i'd like i'd like to book ..."."""
    words = text.split()
    if len(words) < 4:
        return text
    length = rng.randint(1, min(4, len(words) - 2))
    if any(w.startswith("$") for w in words[:length]):
        return text
    joint = rng.choice(("", "", "um", "uh", "sorry"))
    return " ".join(filter(None, (*words[:length], joint, *words)))


def slips(text: str, rng: random.Random) -> str:
    """A light word dropped or doubled, an apostrophe lost; $slots stay."""
    words = text.split()
    at = rng.randrange(len(words))
    word = words[at]
    kind = rng.random()
    if word in _DROPPABLE and kind < 0.4 and len(words) > 3:
        del words[at]
    elif word in _DOUBLED and kind < 0.6:
        words.insert(at, word)
    elif "'" in word and word != "o'clock":
        words[at] = word.replace("'", "")
    return " ".join(words)
