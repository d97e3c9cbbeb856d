"""A greedy pick that needs no mask is the pick that the mask would have left."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.chat.grammar import GrammarCompiler, ToolChoice, json_grammar, text_grammar, tool_grammar
from diffusion_engine.decoding import Pass, Reading
from diffusion_engine.runtime.reader import RowReader
from tests.diffusion_engine.tiny import END, VOCAB

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "party": {"type": "integer"},
        "sure": {"enum": [True, 1]},
    },
    "required": ["party"],
    "additionalProperties": False,
}
GRAMMARS = {
    "document": json_grammar(SCHEMA),
    "text": text_grammar(),
    "calls": tool_grammar(
        [{"name": "book", "parameters": SCHEMA}, {"name": "end"}], ToolChoice(text=True, parallel=True)
    ),
}


def read(logits: torch.Tensor) -> Reading:
    step = Pass(tokens=[0], start=0, clean=1, wanted=range(1))
    nothing = torch.empty(0, dtype=torch.long)
    return RowReader(nothing).read([step], [logits.unsqueeze(0)])[0][0]


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("family", ["llama_draft"])
@given(seed=st.integers(0, 2**32), budget=st.none() | st.integers(30, 60), toward_end=st.floats(0, 4))
@settings(deadline=None, max_examples=15)
def test_the_mask_is_only_spared_where_it_changes_nothing(
    grammars: dict[str, GrammarCompiler],
    family: str,
    grammar: str,
    seed: int,
    budget: int | None,
    toward_end: float,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    spared, masked = (grammars[family].constraint(GRAMMARS[grammar]) for _ in range(2))
    for constraint in (spared, masked):
        if budget is not None:
            constraint.limit(budget)
        constraint.begin()
    for _ in range(budget or 40):
        if masked.complete:
            break
        logits = torch.randn(VOCAB, generator=generator)
        logits[END] += toward_end
        if torch.rand(1, generator=generator) < 0.5:
            logits[list(b'{}[]" ,:012abeimnoprstuy')] += 3.0

        def draw(row: torch.Tensor, attempt: int) -> int:
            return int(row.argmax())

        reading = read(logits)
        token = masked.pick(reading, draw)
        assert spared.pick(reading, draw, greedy=True) == token
        if token == END:
            break
        assert spared.take(token) == masked.take(token)
    assert spared.complete == masked.complete
