"""Which language model is asked, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Timeouts:
    """Limits of a request (s). A caller waits: past these, an apology is better than silence.

    Attributes:
        connect_s: Opening the connection.
        first_token_s: From sending the request to the first text or tool call.
        between_tokens_s: From one piece to the next.
    """

    connect_s: float = 0.5
    first_token_s: float = 2.0
    between_tokens_s: float = 2.0


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Attributes:
        base_url: Up to and including ``/v1``.
        model: Name sent as ``model``.
        api_key: Bearer token; empty for none.
        extensions: It is our engine: send and read the ``diffusion`` object.
        temperature: Sampling temperature; 0 for the most likely words.
        max_tokens: Longest reply (tokens).
        timeouts: See :class:`Timeouts`.
    """

    base_url: str
    model: str
    api_key: str = ""
    extensions: bool = False
    temperature: float = 0.0
    max_tokens: int = 160
    timeouts: Timeouts = field(default_factory=Timeouts)
