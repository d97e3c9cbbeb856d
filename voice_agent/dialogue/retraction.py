"""Taking back that a turn was answered, for a caller who had only paused."""

from __future__ import annotations

from voice_agent.agents.front_desk.agent import Conversation

_WRITES = frozenset({"confirm"})
"""Tools whose work stands once it is done. Ending a call and handing it over come about only after the last word."""


class Checkpoint:
    """The dialogue as it was before a turn was committed.

    Args:
        conversation: The call's; made before the turn is put into it.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._before = conversation.fork()

    def restore(self) -> bool:
        """Take back the turn and what answering it has looked up or staged; once.

        False where a booking was written meanwhile: the dialogue keeps what was done, and the caller's words only
        follow it.
        """
        since = self._conversation.messages[len(self._before.messages) - 1 :]
        called = {call["function"]["name"] for message in since for call in message.get("tool_calls", ())}
        if called & _WRITES:
            return False
        self._conversation.adopt(self._before)
        return True
