"""Drives a floor along a scripted timeline, a tick every 20 ms, and notes what it decides when."""

from __future__ import annotations

from dataclasses import dataclass, field

from voice_agent.turn_taking import Decision, Event, Floor, SilenceFloor, Tick


@dataclass
class Script:
    floor: Floor = field(default_factory=SilenceFloor)
    now: float = 0.0
    log: list[tuple[float, Decision]] = field(default_factory=list)

    def run(self, *events: Event, until: float) -> list[tuple[float, Decision]]:
        """Feeds ``events`` in order of time between ticks up to ``until`` (s); returns what was decided meanwhile."""
        before = len(self.log)
        pending = sorted(events, key=lambda event: event.at)
        while self.now < until - 1e-9:
            self.now = round(self.now + 0.02, 6)
            while pending and pending[0].at <= self.now:
                self._handle(pending.pop(0))
            self._handle(Tick(self.now))
        assert not pending, f"events beyond the end of the script: {pending}"
        return self.log[before:]

    def _handle(self, event: Event) -> None:
        self.log += [(event.at, decision) for decision in self.floor.handle(event)]

    def all(self, kind: type[Decision]) -> list[tuple[float, Decision]]:
        return [(at, decision) for at, decision in self.log if isinstance(decision, kind)]

    def kinds(self) -> list[str]:
        return [type(decision).__name__ for _, decision in self.log]
