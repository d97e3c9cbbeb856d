from tests.voice_agent.speech_process import speech_client, speech_socket

__all__ = ["speech_client", "speech_socket"]
