"""Whatever happens in which order: each word of the caller is in one turn that was answered, or in the pending one."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from voice_agent.turn_taking import (
    AgentAudioStarted,
    AgentFinished,
    AgentHeard,
    AgentReady,
    Commit,
    Event,
    Final,
    Partial,
    Preflight,
    Reopen,
    SilenceFloor,
    SpeechEnd,
    SpeechStart,
    StopAgent,
    Tick,
    TriggerEnd,
    TriggerStart,
)

# fmt: off
WORDS = [
    "table", "window", "garden", "evening", "tomorrow", "friday", "seven", "thirty", "people", "children",
    "vegetarian", "parking", "terrace", "dinner", "lunch", "birthday", "quiet", "corner", "allergic", "peanuts",
    "wheelchair", "highchair", "dog", "anniversary", "booking", "cancel", "change", "number", "baker", "johnson",
    "emma", "peter", "sunday", "monday", "twelve", "eleven", "candle", "music", "menu", "fish", "steak", "dessert",
    "coffee", "wine", "beer", "receipt", "bus", "station", "umbrella", "jacket", "bicycle", "hotel", "airport",
    "grandmother", "neighbour", "colleague", "piano", "orchestra", "mountain", "river",
]
# fmt: on

EVENTS = ["start", "trigger up", "trigger down", "end", "partial", "shorter partial", "preflight", "final"]
AGENT = ["agent starts", "agent ends", "agent puts off", "agent is ready", "a moment", "a moment", "a while"]
WHOLE = ["utterance", "utterance", "reply"]
STEPS = st.lists(st.sampled_from([*EVENTS, *AGENT, *WHOLE]), max_size=50)


@dataclass
class Call:
    """Feeds a floor, plays the recogniser and the agent, and keeps the turns that stand."""

    floor: SilenceFloor = field(default_factory=SilenceFloor)
    now: float = 0.0
    said: list[str] = field(default_factory=list)  # words of the stretches that are over
    stretch: list[str] = field(default_factory=list)  # and of the one under way
    turns: list[tuple[str, bool]] = field(default_factory=list)  # committed words, and whether a reply was audible
    agent: str = "idle"

    def tell(self, event: Event) -> None:
        for decision in self.floor.handle(event):
            if isinstance(decision, Commit):
                assert self.agent == "idle", "a turn is committed while the agent has its own"
                self.turns.append((decision.text, False))
                self.agent = "replying"
            elif isinstance(decision, StopAgent):
                assert self.agent != "idle", "nothing to stop"
                self.agent = "idle"
            elif isinstance(decision, Reopen):
                self.turns.pop()

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = round(self.now + 0.02, 6)
            self.tell(Tick(self.now))

    def more(self) -> str:
        """The stretch's text with one more word, as long as there are any."""
        used = len(self.said) + len(self.stretch)
        self.stretch += WORDS[used : used + 1]
        return " ".join(self.stretch)

    def step(self, name: str) -> None:
        self.now = round(self.now + 0.01, 6)
        match name:
            case "start":
                self.tell(SpeechStart(self.now))
            case "trigger up":
                self.tell(TriggerStart(self.now))
            case "trigger down":
                self.tell(TriggerEnd(self.now, audio_end=self.now - 0.06))
            case "end":
                self.tell(SpeechEnd(self.now, audio_end=self.now - 0.3))
            case "partial":
                self.tell(Partial(self.now, self.more()))
            case "shorter partial" if len(self.stretch) > 1:
                self.tell(Partial(self.now, " ".join(self.stretch[:-1])))
            case "preflight":
                self.tell(Preflight(self.now, self.more()))
            case "final":
                text = self.more()
                self.said, self.stretch = self.said + self.stretch, []
                self.tell(Final(self.now, text))
            case "agent starts" if self.agent != "speaking":
                if self.agent == "replying":
                    self.turns[-1] = (self.turns[-1][0], True)
                self.agent = "speaking"  # its reply; or a phrase of its own, such as a greeting
                self.tell(AgentAudioStarted(self.now))
                self.tell(AgentHeard(self.now, "What day would you like?"))
            case "agent ends" if self.agent != "idle":
                self.agent = "idle"
                self.tell(AgentFinished(self.now))
            case "agent puts off" if self.agent == "speaking":
                self.agent = "idle"
                self.tell(AgentFinished(self.now, answered=False))
            case "agent is ready":
                self.tell(AgentReady(self.now))
            case "utterance":
                for part in ("start", "partial", "trigger down", "preflight", "end", "final", "a moment", "a moment"):
                    self.step(part)
            case "reply":
                for part in ("agent starts", "a while", "agent ends"):
                    self.step(part)
            case "a moment":
                self.wait(0.2)
            case "a while":
                self.wait(1.5)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_every_word_is_in_one_answered_turn_or_in_the_pending_one(steps: list[str]) -> None:
    call = Call()
    for step in steps:
        call.step(step)
    if call.stretch:
        call.step("final")
    assert [audible for _, audible in call.turns[:-1]] == [True] * (len(call.turns) - 1)
    placed = " ".join([*(text for text, _ in call.turns), call.floor.turn_text]).split()
    assert placed == call.said
