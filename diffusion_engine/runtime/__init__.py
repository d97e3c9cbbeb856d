"""Who runs when, and where keys and values live: scheduler, pages, prefix cache, runner, and the `Engine` on top."""

from diffusion_engine.runtime.engine import DrainingError, Engine, Load, OverloadedError
from diffusion_engine.runtime.limits import Limits
from diffusion_engine.runtime.request import EndEvent, Event, GenerationRequest, SnapshotEvent, TextEvent
from diffusion_engine.runtime.runner import Runner, TorchRunner
from diffusion_engine.runtime.runners import RunnerKind, find_device, make_runner
from diffusion_engine.runtime.scheduler import Scheduler
from diffusion_engine.runtime.statistics import EndCause, EngineStatistics, RequestStatistics

__all__ = [
    "DrainingError",
    "EndCause",
    "EndEvent",
    "Engine",
    "EngineStatistics",
    "Event",
    "GenerationRequest",
    "Limits",
    "Load",
    "OverloadedError",
    "RequestStatistics",
    "Runner",
    "RunnerKind",
    "Scheduler",
    "SnapshotEvent",
    "TextEvent",
    "TorchRunner",
    "find_device",
    "make_runner",
]
