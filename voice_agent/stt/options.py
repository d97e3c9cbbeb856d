"""Options of the recogniser plugin."""

from __future__ import annotations

from dataclasses import dataclass, field

from livekit.agents import APIConnectOptions

from voice_agent.stt.guard import GuardOptions

STT_CONN_OPTIONS = APIConnectOptions(max_retry=60, retry_interval=0.5, timeout=2.0)
"""A speech process that died is back, warm, within about 3 s, on a busy machine 6 s or more. A stream keeps what the
caller says meanwhile and has it recognised then, so it waits for half a minute (1 MB) before it gives up.
"""


@dataclass(frozen=True)
class RecognizerOptions:
    """When passes are run.

    Attributes:
        partial_interval_ms: Cadence of partials while the caller speaks. Every 600 ms, two agreeing partials commit
            62 % of the words before the end; 700 ms cost 0.27 cores on an AVX2 machine.
        first_partial_ms: Speech before the first partial.
        pre_roll_ms: Audio before the onset that is recognised with it.
        max_utterance_ms: An utterance longer than this is cut (Whisper's window holds 30 s).
        cut_search_ms: The cut is made at the quietest moment of this last stretch.
        reuse_slack_ms: A final reuses the preflight if that had heard all but this much of the speech, as the gate saw
            it: Silero reports an end about 110 ms after the true one. A transcript begun 0.1 s into the silence equals
            the one at 0.6 s on 97 % of clips.
        word_times: Align the words of preflights and finals (about 10-15 ms a pass).
        guard: Limits of the hallucination guard.
    """

    partial_interval_ms: float = 600.0
    first_partial_ms: float = 500.0
    pre_roll_ms: float = 300.0
    max_utterance_ms: float = 25_000.0
    cut_search_ms: float = 6_000.0
    reuse_slack_ms: float = 150.0
    word_times: bool = True
    guard: GuardOptions = field(default_factory=GuardOptions)

    def __post_init__(self) -> None:
        if self.partial_interval_ms < 100:
            raise ValueError(f"RecognizerOptions.partial_interval_ms is {self.partial_interval_ms}; at least 100")
        if not 1_000 <= self.max_utterance_ms <= 29_000:
            raise ValueError(f"RecognizerOptions.max_utterance_ms is {self.max_utterance_ms}; between 1000 and 29000")
        if not 0 < self.cut_search_ms < self.max_utterance_ms:
            raise ValueError("RecognizerOptions.cut_search_ms must be above 0 and below max_utterance_ms")
