"""The hallucination guard: which of the recogniser's words were said. Pure.

Whisper writes whole sentences where nothing was said. On 51 windows without speech it wrote something nearly every
time; its own `no_speech_prob` was at least 0.79 on all of them and at most 0.19 (95th percentile) on speech, so that
gate comes first. The log-probability decides nothing alone: loops score better than speech.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from voice_agent.stt.repeats import collapse_loops, drop_prefix_repeat, normalise_word


@dataclass(frozen=True)
class GuardOptions:
    """Limits of the guard.

    Attributes:
        no_speech: `no_speech_prob` from which on the pass heard nothing.
        doubtful_no_speech: From which on a text that consists of a ghost phrase is one.
        ghost_silence_ms: A polite ghost ("thank you") at the end of a real sentence is dropped where the audio that its
            words would need lies this long after the speech.
    """

    no_speech: float = 0.6
    doubtful_no_speech: float = 0.25
    ghost_silence_ms: float = 500.0

    def __post_init__(self) -> None:
        if not 0.0 < self.doubtful_no_speech <= self.no_speech <= 1.0:
            raise ValueError(
                "GuardOptions needs 0 < doubtful_no_speech <= no_speech <= 1, "
                f"not {self.doubtful_no_speech} and {self.no_speech}"
            )


@dataclass(frozen=True)
class Heard:
    """What the guard judges.

    Attributes:
        text: The recogniser's text.
        no_speech_prob: Its probability of no speech, 0 to 1.
        speech_end_ms: Where speech ended in the audio, by the VAD; None if unknown.
        words: The words' start times in milliseconds of the same audio, one for each word of `text`; or empty.
    """

    text: str
    no_speech_prob: float
    speech_end_ms: float | None = None
    words: tuple[float, ...] = ()


_NEVER_SAID = (
    "thank you for watching",
    "thanks for watching",
    "thank you so much for watching",
    "thank you very much for watching",
    "thanks for listening",
    "thank you for listening",
    "please subscribe",
    "please like and subscribe",
    "like and subscribe",
    "subscribe to my channel",
    "please subscribe to my channel",
    "dont forget to subscribe",
    "see you in the next video",
    "ill see you in the next video",
    "ill see you next time",
    "see you next time",
    "subtitles by the amaraorg community",
    "transcription by castingwords",
    "transcribed by otterai",
    "captions by getscreen",
)
"""What captions of videos say and callers don't: dropped wherever it is a sentence of its own."""

_POLITE = (
    "thank you",
    "thank you very much",
    "thank you so much",
    "thanks",
    "bye",
    "bye bye",
    "goodbye",
    "you",
    "okay",
)
"""What callers say too: a ghost only where the audio says so."""

_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_HAS_WORD = re.compile(r"[^\W_]")


def guard(heard: Heard, options: GuardOptions | None = None) -> str:
    """The text without what nobody said; empty if nothing is left.

    In order: the no-speech gate; text without a letter or digit; loops and repeats; sentences from video captions; a
    text that is nothing but a polite phrase while the recogniser doubts that there was speech; a polite phrase at the
    end whose words lie in the silence after the speech.
    """
    options = options or GuardOptions()
    text = heard.text.strip()
    if heard.no_speech_prob >= options.no_speech or not _HAS_WORD.search(text):
        return ""
    sentences = _BETWEEN_SENTENCES.split(text)
    kept = [sentence for sentence in sentences if _key(sentence) not in _NEVER_SAID]
    if kept and heard.no_speech_prob >= options.doubtful_no_speech and all(_key(s) in _POLITE for s in kept):
        kept = []
    if len(kept) > 1 and _key(kept[-1]) in _POLITE and _in_silence(kept, sentences, heard, options):
        kept.pop()
    return drop_prefix_repeat(collapse_loops(" ".join(kept)))


def _in_silence(kept: list[str], sentences: list[str], heard: Heard, options: GuardOptions) -> bool:
    """Whether the last sentence's words begin long after the speech has ended."""
    if heard.speech_end_ms is None or kept[-1] != sentences[-1]:
        return False
    count = len(kept[-1].split())
    if len(heard.words) != len(heard.text.split()):
        return False
    return heard.words[-count] >= heard.speech_end_ms + options.ghost_silence_ms


def _key(sentence: str) -> str:
    return " ".join(filter(None, (normalise_word(word).replace("'", "") for word in sentence.split())))
