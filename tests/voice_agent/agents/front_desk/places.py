"""The restaurant and the day that the cases happen on."""

import datetime as dt
import random

from voice_agent.agents.front_desk import facts
from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.agents.front_desk.store import BookingStore

LUNA = facts.load()
MONDAY = dt.date(2026, 11, 30)  # closed on Mondays
TUESDAY = dt.date(2026, 12, 1)
FRIDAY = dt.date(2026, 12, 4)
NOON = dt.datetime(2026, 11, 30, 12, 0, tzinfo=LUNA.zone)


def new_store() -> BookingStore:
    return BookingStore(":memory:", LUNA, random.Random(1))


def new_conversation(store: BookingStore | None = None, now: dt.datetime = NOON) -> Conversation:
    return Conversation(LUNA, store or new_store(), lambda: now)
