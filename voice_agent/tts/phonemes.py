"""Words to phonemes (espeak-ng, as piper does) and phonemes to words again, which espeak doesn't report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

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
    pairing = _pair(alone, sounds, _BAND) or _pair(alone, sounds, len("".join(sounds)) + len("".join(alone)))
    ranges: list[tuple[int, int]] = [(0, 0)] * len(alone)
    for word, group, words, taken in pairing:
        if words and taken:
            _share(ranges, alone, word, words, groups[group][0], groups[group + taken - 1][1])
    return ranges


_MOVES = [(1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (1, 8), (2, 2), (1, 0), (0, 1)]
"""Words and groups paired in one step; (1, 0) is a word without a sound, (0, 1) a sound without a word."""

_BAND = 12
"""How many sounds the two sides may be apart: a pairing that strays further is none, and looking for it costs."""


def _pair(alone: Sequence[str], sounds: Sequence[str], band: int) -> list[tuple[int, int, int, int]]:
    """The cheapest pairing, as (first word, first group, words, groups) in order; empty where the band allows none."""
    word_lengths = [0, *accumulate(len(word) for word in alone)]
    group_lengths = [0, *accumulate(len(sound) for sound in sounds)]
    best: dict[tuple[int, int], tuple[float, int, int]] = {(0, 0): (0.0, 0, 0)}
    for w in range(len(alone) + 1):
        for g in range(len(sounds) + 1):
            if (w, g) not in best:
                continue
            cost = best[w, g][0]
            equal = w < len(alone) and g < len(sounds) and alone[w] == sounds[g]
            for words, taken in _MOVES[:1] if equal else _MOVES:
                to = (w + words, g + taken)
                if to[0] > len(alone) or to[1] > len(sounds):
                    continue
                if abs(word_lengths[to[0]] - group_lengths[to[1]]) > band:
                    continue
                step = _difference("".join(alone[w : to[0]]), "".join(sounds[g : to[1]])) + 0.1 * (words + taken - 2)
                if to not in best or cost + step < best[to][0]:
                    best[to] = (cost + step, words, taken)
    pairing: list[tuple[int, int, int, int]] = []
    w, g = len(alone), len(sounds)
    if (w, g) not in best:
        return []
    while w or g:
        _, words, taken = best[w, g]
        w, g = w - words, g - taken
        pairing.append((w, g, words, taken))
    return pairing[::-1]


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
