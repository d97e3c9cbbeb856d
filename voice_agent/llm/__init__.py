"""The language model over OpenAI's streaming HTTP API: a livekit-agents LLM plugin."""

from voice_agent.llm.endpoint import Endpoint, Timeouts
from voice_agent.llm.plugin import LLM
from voice_agent.llm.stream import Draft, EngineReport, Messages, RequestStream, Tools

__all__ = ["LLM", "Draft", "Endpoint", "EngineReport", "Messages", "RequestStream", "Timeouts", "Tools"]
