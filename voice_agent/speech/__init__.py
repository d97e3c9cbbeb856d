"""The speech process: the recogniser and the synthesizer, each loaded once, behind a WebSocket on a Unix socket.

`voice_agent.stt` and `voice_agent.tts` hold the models (`stt.whisper`, `tts.vits`), which only this process loads,
and the livekit-agents plugins, which reach them through `SpeechClient`.
"""
