"""How long the silence floor waits for what."""

from __future__ import annotations

from dataclasses import dataclass

from voice_agent.turn_taking.completeness import Asked, Completeness, completeness


@dataclass(frozen=True, slots=True)
class SilenceFloorConfig:
    """All durations in seconds, counted from the caller's last sound unless said otherwise."""

    hold_s: float = 0.45
    """Silence that ends a turn."""
    hold_closed_s: float = 0.3
    """The same after a question, a courtesy, the answer to what was asked."""
    hold_open_s: float = 0.8
    """The same after a phrase that more is likely to follow. Pauses within a turn are mostly shorter."""
    hold_unfinished_s: float = 1.2
    """The same after a filler, a preposition, a trailing "so"."""
    gate_patience_s: float = 0.6
    """Silence after which the turn may end although the gate did not confirm it."""
    transcript_patience_s: float = 2.5
    """Silence after which the words at hand are taken although the last ones may be missing."""
    trigger_patience_s: float = 0.15
    """How long the nervous trigger alone can hold a turn open, or a reply back, without the gate."""
    forget_s: float = 3.0
    """Silence after which a sound without words is forgotten."""
    max_turn_s: float = 40.0
    """A turn's longest time, for lines on which nobody ever falls silent."""
    pause_after_s: float = 0.2
    """Overlap (from the gate's report on) after which the agent is silenced."""
    reaction_s: float = 0.5
    """A caller who begins this soon after the agent (its first packet to the gate's report) doesn't react to it:
    hearing a word and beginning one take longer. The agent yields at once, and the turn that it answers wasn't over."""
    noise_patience_s: float = 0.35
    """After a burst over the agent, time for words to come before the agent goes on."""
    burst_s: float = 0.4
    """Longest sound that is taken for a burst; a longer one is judged by its transcript."""

    def __post_init__(self) -> None:
        if not 0 < self.hold_closed_s <= self.hold_s <= self.hold_open_s <= self.hold_unfinished_s:
            raise ValueError(
                "the holds must rise: hold_closed_s <= hold_s <= hold_open_s <= hold_unfinished_s, all above 0"
            )

    def hold_for(self, text: str, asked: Asked = Asked.NOTHING) -> float:
        """The silence (s) that ends a turn that said ``text`` to an agent that had asked for ``asked``."""
        return {
            Completeness.CLOSED: self.hold_closed_s,
            Completeness.NEUTRAL: self.hold_s,
            Completeness.OPEN: self.hold_open_s,
            Completeness.UNFINISHED: self.hold_unfinished_s,
        }[completeness(text, asked)]
