"""Voice activity detection: webrtcvad as the early trigger, Silero as the gate, one sample-accurate clock."""
