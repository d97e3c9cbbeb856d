"""From what a recogniser wrote to the only values that may reach a tool."""

from voice_agent.agents.front_desk.grounding.details import Mention, mentions
from voice_agent.agents.front_desk.grounding.normalise import normalise
from voice_agent.agents.front_desk.grounding.state import Grounding

__all__ = ["Grounding", "Mention", "mentions", "normalise"]
