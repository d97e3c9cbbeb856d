"""The floor: end of turn, speculation, barge-in, backchannels, silence. Pure, the clock is in the events."""

from voice_agent.turn_taking.events import (
    AgentAudioStarted,
    AgentFinished,
    AgentHeard,
    Commit,
    Decision,
    DropSpeculation,
    Duck,
    Event,
    Final,
    Partial,
    PauseAgent,
    Preflight,
    Reopen,
    ResumeAgent,
    Speculate,
    SpeechEnd,
    SpeechStart,
    StopAgent,
    Tick,
    TriggerEnd,
    TriggerStart,
)
from voice_agent.turn_taking.floor import Floor
from voice_agent.turn_taking.no_input import NoInput, NoInputTimer
from voice_agent.turn_taking.silence_floor import SilenceFloor
from voice_agent.turn_taking.silence_floor_config import SilenceFloorConfig

__all__ = [
    "AgentAudioStarted",
    "AgentFinished",
    "AgentHeard",
    "Commit",
    "Decision",
    "DropSpeculation",
    "Duck",
    "Event",
    "Final",
    "Floor",
    "NoInput",
    "NoInputTimer",
    "Partial",
    "PauseAgent",
    "Preflight",
    "Reopen",
    "ResumeAgent",
    "SilenceFloor",
    "SilenceFloorConfig",
    "Speculate",
    "SpeechEnd",
    "SpeechStart",
    "StopAgent",
    "Tick",
    "TriggerEnd",
    "TriggerStart",
]
