"""The messages between calls and the speech process.

Every WebSocket message is binary: a little-endian u32, the length of a JSON header; the header; a payload (s16 PCM, or
nothing). A header's `type` names its model below, its `id` the request it belongs to. Requests are stateless and ids
are the client's choice, unique on its connection.

    transcribe  ->  transcript | dropped | error
    synthesize  ->  audio* done | dropped | error
    cancel      ->  (the cancelled request answers `dropped`)
    health      ->  health
"""

from __future__ import annotations

import json
import struct
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

RECOGNIZER_SAMPLE_RATE_HZ = 16_000
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_LENGTH = struct.Struct("<I")


class PassKind(StrEnum):
    """Why a recogniser pass is wanted; finals and preflights run before partials."""

    PARTIAL = "partial"
    PREFLIGHT = "preflight"
    FINAL = "final"


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Transcribe(_Message):
    """One recogniser pass over the payload: mono s16 PCM at 16 kHz, at most 30 s.

    Attributes:
        stream: A newer pass of the same stream replaces a partial of it that is still queued.
        kind: Priority, see `PassKind`.
        word_times: Also align the words (one more decoder pass).
        window_s: Decoder window; None for the short window of max(12, audio + 8) s, 30 for Whisper's own.
    """

    type: Literal["transcribe"] = "transcribe"
    id: str
    stream: str
    kind: PassKind = PassKind.FINAL
    word_times: bool = False
    window_s: float | None = Field(default=None, gt=0, le=30)


class Synthesize(_Message):
    """Speak `words` as one utterance.

    Attributes:
        words: Speakable words, punctuation attached (`["Yes,", "of", "course."]`); `Audio.words` counts in them.
        trim_lead: Cut the silence before the first sound (to 10 ms): for the first utterance of a reply.
        length_scale: Slower above 1, faster below; None for the voice's own.
    """

    type: Literal["synthesize"] = "synthesize"
    id: str
    words: list[str] = Field(min_length=1, max_length=400)
    trim_lead: bool = False
    length_scale: float | None = Field(default=None, ge=0.5, le=2.0)


class Cancel(_Message):
    """Stop request `id`: a synthesis within one chunk, a queued pass at once."""

    type: Literal["cancel"] = "cancel"
    id: str


class HealthQuery(_Message):
    """Ask for `Health`."""

    type: Literal["health"] = "health"
    id: str


class WordTime(_Message):
    """A word, or part of an utterance, and where its audio is, in milliseconds from the utterance's first sample."""

    text: str
    start_ms: float
    end_ms: float


class Transcript(_Message):
    """What the recogniser heard.

    Attributes:
        text: Raw text, before any guard; may be empty.
        segments: Its parts with Whisper's timestamps (20 ms steps).
        words: Aligned words, where asked for.
        no_speech_prob: Whisper's probability that there was no speech, 0 to 1.
        avg_logprob: Mean log-probability of a token.
        audio_ms: Length of the payload.
        queue_ms: Time the pass waited for its turn.
        compute_ms: Time the pass took.
    """

    type: Literal["transcript"] = "transcript"
    id: str
    text: str
    segments: list[WordTime]
    words: list[WordTime]
    no_speech_prob: float
    avg_logprob: float
    audio_ms: float
    queue_ms: float
    compute_ms: float


class SpokenWord(_Message):
    """Where word `index` of a `Synthesize` is heard, in milliseconds from the utterance's first sample."""

    index: int
    start_ms: float
    end_ms: float


class Audio(_Message):
    """A chunk of mono s16 PCM; the payload. The first chunk carries the times of all words of the utterance."""

    type: Literal["audio"] = "audio"
    id: str
    index: int
    sample_rate: int
    words: list[SpokenWord]


class Done(_Message):
    """The end of a synthesis."""

    type: Literal["done"] = "done"
    id: str
    audio_ms: float
    first_audio_ms: float
    compute_ms: float


class Dropped(_Message):
    """The request ended without a result: `cancelled`, or `superseded` by a newer pass of its stream."""

    type: Literal["dropped"] = "dropped"
    id: str
    reason: Literal["cancelled", "superseded"]


class Failed(_Message):
    """The request failed; the connection goes on. `id` is empty where the request couldn't be read."""

    type: Literal["error"] = "error"
    id: str
    code: str
    message: str


class Health(_Message):
    """State of the process; sent only when both models are loaded and warm."""

    type: Literal["health_state"] = "health_state"
    id: str
    ready: bool
    pid: int
    recognizer: str
    voice: str
    sample_rate: int
    threads: dict[str, int]
    warmup_s: float
    passes: int
    utterances: int


Request = Annotated[Transcribe | Synthesize | Cancel | HealthQuery, Field(discriminator="type")]
Reply = Annotated[Transcript | Audio | Done | Dropped | Failed | Health, Field(discriminator="type")]
_REQUEST: TypeAdapter[Transcribe | Synthesize | Cancel | HealthQuery] = TypeAdapter(Request)
_REPLY: TypeAdapter[Transcript | Audio | Done | Dropped | Failed | Health] = TypeAdapter(Reply)


class ProtocolError(ValueError):
    """A message that isn't one of the above.

    Attributes:
        request_id: The request it was about, where that could be read; else empty.
    """

    def __init__(self, message: str, request_id: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id


def pack(message: BaseModel, payload: bytes = b"") -> bytes:
    """One WebSocket message."""
    header = message.model_dump_json().encode()
    return _LENGTH.pack(len(header)) + header + payload


def unpack_request(data: str | bytes) -> tuple[Transcribe | Synthesize | Cancel | HealthQuery, bytes]:
    """Parse a client's message. Raises `ProtocolError`."""
    header, payload = _split(data)
    try:
        return _REQUEST.validate_json(header), payload
    except ValidationError as error:
        raise ProtocolError(_first_problem(error), _id_of(header)) from error


def unpack_reply(data: str | bytes) -> tuple[Transcript | Audio | Done | Dropped | Failed | Health, bytes]:
    """Parse the process's message. Raises `ProtocolError`."""
    header, payload = _split(data)
    try:
        return _REPLY.validate_json(header), payload
    except ValidationError as error:
        raise ProtocolError(_first_problem(error), _id_of(header)) from error


def _split(data: str | bytes) -> tuple[bytes, bytes]:
    if isinstance(data, str):
        raise ProtocolError("a text message; messages of the speech process are binary")
    if len(data) < _LENGTH.size:
        raise ProtocolError(f"a message of {len(data)} bytes has no header length")
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    if end > len(data):
        raise ProtocolError(f"the header's length is {length} bytes, the whole message has {len(data)}")
    return data[_LENGTH.size : end], data[end:]


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where or 'header'}: {problem['msg']}"


def _id_of(header: bytes) -> str:
    try:
        value = json.loads(header)
    except ValueError:
        return ""
    found = value.get("id", "") if isinstance(value, dict) else ""
    return found if isinstance(found, str) else ""
