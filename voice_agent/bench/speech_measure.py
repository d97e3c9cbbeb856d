"""The measurements behind `bench.speech`. Imports the numeric libraries: pin their threads first."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from piper import PiperConfig, PiperVoice

from voice_agent.bench.clips import SAMPLE_RATE_HZ, load_clips
from voice_agent.bench.word_errors import word_errors
from voice_agent.stt.whisper import WhisperRecognizer, find_recognizer
from voice_agent.tts.phonemes import Phonemizer
from voice_agent.tts.split import ensure_split
from voice_agent.tts.synthesizer import Synthesizer
from voice_agent.tts.vits import SplitVits
from voice_agent.tts.voice_files import VoiceFiles, find_voice

SENTENCES = (
    "Yes, of course.",
    "Your table is booked for seven thirty tonight.",
    "We are open every day from eleven in the morning until ten at night, except on Mondays when we close.",
)
"""3, 8 and 20 words."""

SPEECH_S = (2.0, 4.0)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Median, 10th and 90th percentile."""
    p10, median, p90 = (round(float(value), 2) for value in np.percentile(values, (10, 50, 90)))
    return {"median": median, "p10": p10, "p90": p90}


def measure_voice(runs: int, threads: int) -> dict[str, Any]:
    """First audio of three sentences from text to first samples, in chunks and by whole sentences."""
    files = find_voice()
    streamed, whole = Synthesizer(files, threads), _whole_sentence_voice(files, threads)
    rows: list[dict[str, Any]] = []
    underruns = replies = 0
    spent, spoken = {"chunks": 0.0, "whole": 0.0}, {"chunks": 0.0, "whole": 0.0}
    firsts: dict[str, dict[str, list[float]]] = {text: {"chunks": [], "whole": []} for text in SENTENCES}
    for run in range(-2, runs):  # two runs to warm up
        for text in SENTENCES:
            for side in ("chunks", "whole") if run % 2 else ("whole", "chunks"):
                if side == "chunks":
                    times, lengths = _time_chunks(streamed, text)
                else:
                    times, lengths = _time_whole(whole, text)
                if run < 0:
                    continue
                firsts[text][side].append(times[0] * 1000)
                spent[side] += times[-1]
                spoken[side] += sum(lengths)
                if side == "chunks":
                    replies += 1
                    underruns += count_underruns(times, lengths)
    for text in SENTENCES:
        row = {"words": len(text.split())}
        rows.append(row | {f"{side}_ms": percentiles(values) for side, values in firsts[text].items()})
    return {
        "first_audio": rows,
        "seam_db": round(_seam_db(files, threads), 1),
        "underruns": underruns,
        "replies": replies,
        "chunks_rtf": round(spent["chunks"] / spoken["chunks"], 4),
        "whole_rtf": round(spent["whole"] / spoken["whole"], 4),
    }


def count_underruns(times: Sequence[float], lengths: Sequence[float]) -> int:
    """How often a player that starts with the first chunk runs dry.

    Args:
        times: When each chunk was ready, s.
        lengths: Audio in each chunk, s.
    """
    plays_until, dry = times[0], 0
    for ready, length in zip(times, lengths, strict=True):
        if ready > plays_until:
            dry += 1
        plays_until = max(plays_until, ready) + length
    return dry


def measure_recognizer(runs: int, threads: int) -> dict[str, Any]:
    """Passes over the first seconds of clips in both windows, and the word error rate over whole clips."""
    recognizer = WhisperRecognizer(find_recognizer(), threads)
    clips = load_clips()
    windows: dict[str, float | None] = {"short": None, "long": 30.0}
    rows = []
    for seconds in SPEECH_S:
        samples = int(seconds * SAMPLE_RATE_HZ)
        long_enough = [clip.pcm[:samples] for clip in clips if clip.pcm.size >= samples]
        times: dict[str, list[float]] = {"short": [], "long": []}
        for run in range(-1, runs):
            audio = long_enough[run % len(long_enough)]
            for side in ("short", "long") if run % 2 else ("long", "short"):
                taken = _time(partial(recognizer.transcribe, audio, window=windows[side]))
                if run >= 0:
                    times[side].append(taken * 1000)
        rows.append({"speech_s": seconds} | {f"{side}_ms": percentiles(values) for side, values in times.items()})
    errors, words = {"short": 0, "long": 0}, 0
    for clip in clips:
        padded = np.concatenate([np.zeros(4_800, np.int16), clip.pcm, np.zeros(1_600, np.int16)])
        for side, window in windows.items():
            heard = recognizer.transcribe(padded, window=window).text
            wrong, total = word_errors(clip.text, heard)
            errors[side] += wrong
        words += total
    return {
        "partial": rows,
        "clips": len(clips),
        "words": words,
        "short_wer": round(errors["short"] / words, 4),
        "long_wer": round(errors["long"] / words, 4),
    }


def _whole_sentence_voice(files: VoiceFiles, threads: int) -> PiperVoice:
    """Piper as it comes, but for the thread count and the spinning, which are those of the other side."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])
    return PiperVoice(session=session, config=PiperConfig.from_dict(json.loads(files.config.read_text())))


def _time_chunks(voice: Synthesizer, text: str) -> tuple[list[float], list[float]]:
    started, times, lengths = time.perf_counter(), [], []
    for chunk in voice.synthesize(text.split(), trim_lead=True):
        times.append(time.perf_counter() - started)
        lengths.append(len(chunk.pcm) / 2 / voice.sample_rate)
    return times, lengths


def _time_whole(voice: PiperVoice, text: str) -> tuple[list[float], list[float]]:
    started, times, lengths = time.perf_counter(), [], []
    for chunk in voice.synthesize(text):
        size = len(chunk.audio_int16_bytes)
        times.append(time.perf_counter() - started)
        lengths.append(size / 2 / chunk.sample_rate)
    return times, lengths


def _seam_db(files: VoiceFiles, threads: int) -> float:
    """How exactly chunks join, over the longest sentence: signal to difference from one run over the whole."""
    config = PiperConfig.from_dict(json.loads(files.config.read_text()))
    vits = SplitVits(ensure_split(files.model), config.hop_length, threads)
    utterance = Phonemizer(config.espeak_voice, config.phoneme_id_map).utterance(SENTENCES[-1].split())
    encoded = vits.encode(utterance.ids)
    whole: npt.NDArray[np.float32] = vits.decode_whole(encoded)
    joined = np.concatenate([audio for audio, _ in vits.decode(encoded)])
    return float(20 * np.log10(whole.std() / ((whole - joined).std() + 1e-12)))


def _time(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
