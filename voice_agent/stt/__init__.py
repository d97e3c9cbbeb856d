"""Speech to text: Whisper in short windows, and its livekit-agents plugin (`stt.plugin.STT`)."""
