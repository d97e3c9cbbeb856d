"""Words to phonemes (espeak-ng, as piper does) and phonemes to words again, which espeak doesn't report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from piper.const import BOS, EOS, PAD
from piper.phonemize_espeak import EspeakPhonemizer

_NOT_A_SOUND = frozenset(" ,.;:!?-'\"()ˈˌ")
_PUNCTUATION = frozenset(',.;:!?()"')


@dataclass(frozen=True)
class PhonemizedUtterance:
    """An utterance as the voice reads it.

    Attributes:
        ids: Phoneme ids with the voice's begin, pad and end symbols.
        word_ids: For every word of the input, the range of `ids` that holds its sounds (first, last + 1); an empty
            range for a word without a sound.
    """

    ids: list[int]
    word_ids: list[tuple[int, int]]


class Phonemizer:
    """espeak-ng behind piper's bridge; process-wide state inside, so one thread at a time.

    Args:
        voice: espeak voice name, from the piper configuration.
        id_map: Phoneme -> ids, from the piper configuration.
    """

    def __init__(self, voice: str, id_map: Mapping[str, Sequence[int]]) -> None:
        self._espeak = EspeakPhonemizer()
        self._voice = voice
        self._id_map = id_map
        self._alone = lru_cache(maxsize=4096)(self._sounds_alone)

    def phonemes(self, text: str) -> list[str]:
        """The phonemes of a text, sentences joined into one utterance."""
        joined: list[str] = []
        for sentence in self._espeak.phonemize(self._voice, text):
            if joined and joined[-1] != " ":
                joined.append(" ")
            joined.extend(sentence)
        while joined and joined[-1] == " ":
            joined.pop()
        return joined

    def utterance(self, words: Sequence[str]) -> PhonemizedUtterance:
        """Phonemize words that are spoken as one utterance, and say which ids are which word's."""
        phonemes = self.phonemes(" ".join(words))
        ids = [*self._id_map[BOS], *self._id_map[PAD]]
        spans: list[tuple[int, int]] = []
        for phoneme in phonemes:
            start = len(ids)
            if phoneme in self._id_map:  # what the voice doesn't know it can't say
                ids.extend(self._id_map[phoneme])
                ids.extend(self._id_map[PAD])
            spans.append((start, len(ids)))
        ids.extend(self._id_map[EOS])
        word_ids = []
        for first, last in assign_words(phonemes, [self._alone(word) for word in words]):
            word_ids.append((spans[first][0], spans[last - 1][1]) if last > first else (0, 0))
        return PhonemizedUtterance(ids, word_ids)

    def _sounds_alone(self, word: str) -> str:
        return "".join(phoneme for phoneme in self.phonemes(word) if phoneme not in _NOT_A_SOUND)


def sound_groups(phonemes: Sequence[str]) -> list[tuple[int, int]]:
    """Ranges of phonemes between spaces, punctuation at their ends left out: espeak's idea of words."""
    groups: list[tuple[int, int]] = []
    start: int | None = None
    for index, phoneme in enumerate([*phonemes, " "]):
        boundary = phoneme == " " or phoneme in _PUNCTUATION
        if boundary and start is not None:
            groups.append((start, index))
            start = None
        elif not boundary and start is None:
            start = index
    return groups


def assign_words(phonemes: Sequence[str], alone: Sequence[str]) -> list[tuple[int, int]]:
    """Ranges of `phonemes`, one for each word, from what each word sounds like alone.

    espeak joins function words ("in the" becomes one group) and spells others out ("pm" becomes two), so groups and
    words don't pair up by counting. A dynamic program chooses the cheapest pairing of runs of groups with runs of
    words, the cost being the difference between their sounds; within a joined group the words share it by their
    length alone.
    """
    groups = sound_groups(phonemes)
    sounds = ["".join(p for p in phonemes[a:b] if p not in _NOT_A_SOUND) for a, b in groups]
    words, count = len(alone), len(groups)
    best: list[list[tuple[float, int, int]]] = [[(float("inf"), 0, 0)] * (count + 1) for _ in range(words + 1)]
    best[0][0] = (0.0, 0, 0)
    for w in range(words + 1):
        for g in range(count + 1):
            cost = best[w][g][0]
            if cost == float("inf"):
                continue
            for dw, dg in _MOVES:
                if w + dw > words or g + dg > count:
                    continue
                step = _difference("".join(alone[w : w + dw]), "".join(sounds[g : g + dg])) + 0.1 * (dw + dg - 2)
                if cost + step < best[w + dw][g + dg][0]:
                    best[w + dw][g + dg] = (cost + step, dw, dg)
    ranges: list[tuple[int, int]] = [(0, 0)] * words
    w, g = words, count
    while w > 0 or g > 0:
        _, dw, dg = best[w][g]
        if dw == 0 and dg == 0:
            break  # no pairing: an utterance without sounds
        w, g = w - dw, g - dg
        if dw and dg:
            _share(ranges, alone, w, dw, groups[g][0], groups[g + dg - 1][1])
    return ranges


_MOVES = [(1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (1, 8), (2, 2), (1, 0), (0, 1)]
"""Words and groups paired in one step; (1, 0) is a word without a sound, (0, 1) a sound without a word."""


def _difference(expected: str, found: str) -> float:
    """How unlike two strings of sounds are: a length difference and unlike ends. 0 for equal ones."""
    if expected == found:
        return 0.0
    ends = (expected[:1] != found[:1]) + (expected[-1:] != found[-1:])
    shared = len(set(expected) & set(found)) / max(1, len(set(expected) | set(found)))
    return abs(len(expected) - len(found)) + 0.5 * ends + (1.0 - shared) + (2.0 if not expected or not found else 0.0)


def _share(ranges: list[tuple[int, int]], alone: Sequence[str], word: int, count: int, start: int, end: int) -> None:
    """Give the phonemes from `start` to `end` to `count` words in proportion to their sounds."""
    lengths = [max(1, len(alone[word + offset])) for offset in range(count)]
    total, taken = sum(lengths), 0
    for offset, length in enumerate(lengths):
        first = start + round((end - start) * taken / total)
        taken += length
        ranges[word + offset] = (first, start + round((end - start) * taken / total))
