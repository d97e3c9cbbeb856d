import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.speech.errors import MissingModelError
from voice_agent.tts import vits
from voice_agent.tts.phonemes import Phonemizer
from voice_agent.tts.split import ensure_split
from voice_agent.tts.vits import SplitVits, chunk_spans
from voice_agent.tts.voice_files import find_voice

TEXT = "We are open every day from eleven in the morning until ten at night, except on Mondays."


def decibels(reference: np.ndarray, other: np.ndarray) -> float:
    return float(20 * np.log10(reference.std() / ((reference - other).std() + 1e-12)))


@pytest.fixture(scope="module")
def voice() -> SplitVits:
    return SplitVits(ensure_split(find_voice().model))


@pytest.fixture(scope="module")
def encoded(voice: SplitVits) -> vits.EncodedUtterance:
    from piper.phoneme_ids import DEFAULT_PHONEME_ID_MAP

    return voice.encode(Phonemizer("en-us", DEFAULT_PHONEME_ID_MAP).utterance(TEXT.split()).ids)


@given(st.integers(1, 2000))
def test_chunks_cover_every_frame_once(frames: int) -> None:
    spans = list(chunk_spans(frames))
    assert spans[0][0] == 0
    assert spans[-1][1] == frames
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    assert all(end > start for start, end in spans)
    assert all(end - start < vits.CHUNK_FRAMES + vits.DECODER_CONTEXT_FRAMES for start, end in spans)


def test_chunks_join_to_the_unsplit_waveform(voice: SplitVits, encoded: vits.EncodedUtterance) -> None:
    chunks = [audio for audio, _ in voice.decode(encoded)]
    whole = voice.decode_whole(encoded)
    joined = np.concatenate(chunks)
    assert len(chunks) > 3
    assert joined.shape == whole.shape
    assert decibels(whole, joined) > 100  # 16-bit PCM resolves 96 dB


def test_less_context_is_audible_so_the_test_above_can_fail(
    voice: SplitVits, encoded: vits.EncodedUtterance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vits, "DECODER_CONTEXT_FRAMES", 4)
    joined = np.concatenate([audio for audio, _ in voice.decode(encoded)])
    assert decibels(voice.decode_whole(encoded), joined) < 60


def test_split_equals_the_voice_as_packaged(voice: SplitVits) -> None:
    """With the random draws switched off both give the same audio, sample by sample."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(find_voice().model), providers=["CPUExecutionProvider"])
    ids = [1, 0, 24, 0, 120, 0, 61, 0, 24, 0, 100, 0, 10, 0, 2]
    packaged = session.run(
        None,
        {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array([0, 1, 0], np.float32),
        },
    )[0].reshape(-1)
    quiet = voice.encode(ids, vits.Scales(noise=0.0, length=1.0, duration_noise=0.0))
    joined = np.concatenate([audio for audio, _ in voice.decode(quiet)])
    assert joined.shape == packaged.shape
    assert decibels(packaged, joined) > 90


def test_only_the_last_chunk_is_marked(voice: SplitVits, encoded: vits.EncodedUtterance) -> None:
    marks = [last for _, last in voice.decode(encoded)]
    assert marks == [False] * (len(marks) - 1) + [True]


def test_durations_add_up_to_the_frames(encoded: vits.EncodedUtterance) -> None:
    assert encoded.durations.sum() == encoded.frames


def test_the_first_chunk_needs_only_the_beginning_of_the_flow(
    voice: SplitVits, encoded: vits.EncodedUtterance, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = SplitVits._run_flow

    def counted(self: SplitVits, prior: np.ndarray, mask: np.ndarray) -> np.ndarray:
        seen.append(prior.shape[2])
        return original(self, prior, mask)

    monkeypatch.setattr(SplitVits, "_run_flow", counted)
    chunks: Iterator[tuple[np.ndarray, bool]] = voice.decode(encoded)
    next(chunks)
    assert seen == [vits.FIRST_CHUNK_FRAMES + vits.DECODER_CONTEXT_FRAMES + vits.FLOW_CONTEXT_FRAMES]
    assert seen[0] < encoded.frames


def test_split_is_made_once_and_repaired_when_damaged(tmp_path: Path) -> None:
    model = find_voice().model
    made = ensure_split(model, tmp_path)
    stamp = made.decoder.stat().st_mtime_ns
    assert ensure_split(model, tmp_path).decoder.stat().st_mtime_ns == stamp
    made.decoder.write_bytes(b"cut off")
    repaired = ensure_split(model, tmp_path)
    assert repaired.decoder.stat().st_size > 1_000_000
    assert [path.name for path in (tmp_path / "voices").iterdir()] == [repaired.decoder.parent.name]


def test_a_file_that_is_no_voice_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a graph")
    with pytest.raises(MissingModelError, match=r"broken\.onnx"):
        ensure_split(broken, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache" / "voices").iterdir() if path.name.startswith(".")]


def test_a_graph_without_the_seams_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingModelError, match="can't be split"):
        ensure_split(ensure_split(find_voice().model).decoder, tmp_path)


def test_a_missing_voice_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingModelError, match=r"nothing\.onnx"):
        find_voice(tmp_path / "nothing.onnx")
