"""Text to speech: a piper voice that starts before it is done, and its livekit-agents plugin (`tts.plugin.TTS`)."""
