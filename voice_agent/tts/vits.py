"""A split piper voice at work: encode an utterance once, then decode it in overlapping chunks that join exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from voice_agent.speech.errors import MissingModelError
from voice_agent.tts.split import SplitVoice

FIRST_CHUNK_FRAMES = 24
"""0.28 s at 22.05 kHz: long enough that the next chunk is ready before it has been played, on one slow thread."""
CHUNK_FRAMES = 48
DECODER_CONTEXT_FRAMES = 12
"""12 frames: equal to the unsplit decoder to about 120 dB; 8: 61 dB; 4: 28 dB; none: 7 dB."""
FLOW_CONTEXT_FRAMES = 32
"""The flow's receptive field: 4 couplings of 4 convolutions of width 5. 32: exact; 24: 118 dB; 12: 44 dB."""
FLOW_BLOCK_FRAMES = 192

Float = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scales:
    """VITS's three knobs: prior noise, length (slower above 1), duration noise."""

    noise: float = 0.667
    length: float = 1.0
    duration_noise: float = 0.8


@dataclass(frozen=True)
class EncodedUtterance:
    """What the encoder made of an utterance.

    Attributes:
        prior: Shape [1, channels, frames].
        mask: Shape [1, 1, frames], all ones for a single utterance.
        durations: Frames of each phoneme id, shape [ids].
    """

    prior: Float
    mask: Float
    durations: npt.NDArray[np.int64]

    @property
    def frames(self) -> int:
        """Length of the utterance in frames (of `SplitVits.hop_length` samples)."""
        return int(self.prior.shape[2])


def chunk_spans(frames: int, first: int = FIRST_CHUNK_FRAMES, rest: int = CHUNK_FRAMES) -> Iterator[tuple[int, int]]:
    """Cut `frames` into chunks: a short first one, then longer ones; a stub is left to the last.

    A chunk shorter than the decoder's context would cost more than it saves, so the last chunk takes it in.
    """
    start, size = 0, first
    while start < frames:
        end = start + size
        if frames - end < DECODER_CONTEXT_FRAMES:
            end = frames
        yield start, end
        start, size = end, rest


class SplitVits:
    """The three graphs, loaded. Not for two threads at once.

    Args:
        voice: The split voice, see `ensure_split`.
        hop_length: Samples a frame.
        threads: Threads of each graph. They never spin while they wait: spinning threads take the cores from the other
            processes, and were slower than one thread under load.

    Raises:
        MissingModelError: A graph can't be loaded.
    """

    def __init__(self, voice: SplitVoice, hop_length: int = 256, threads: int = 1) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._encoder, self._flow, self._decoder = (
                ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
                for path in (voice.encoder, voice.flow, voice.decoder)
            )
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise MissingModelError(
                f"The split voice in {voice.encoder.parent} can't be loaded ({error}): delete that folder and start "
                "again"
            ) from error
        self._voice = voice
        self.hop_length = hop_length

    def encode(self, phoneme_ids: Sequence[int], scales: Scales | None = None) -> EncodedUtterance:
        """Run the encoder over a whole utterance; all random draws happen here."""
        scales = scales or Scales()
        prior, mask, durations = self._encoder.run(
            [self._voice.prior, self._voice.mask, self._voice.durations],
            {
                "input": np.array([phoneme_ids], dtype=np.int64),
                "input_lengths": np.array([len(phoneme_ids)], dtype=np.int64),
                "scales": np.array([scales.noise, scales.length, scales.duration_noise], dtype=np.float32),
            },
        )
        return EncodedUtterance(prior, mask, durations.reshape(-1).astype(np.int64))

    def decode(self, utterance: EncodedUtterance) -> Iterator[tuple[Float, bool]]:
        """Yield the utterance's waveform in chunks, each float32 [samples], as soon as each is computed.

        The second value says whether it is the last one.
        """
        latent = np.empty_like(utterance.prior)
        ready = 0
        for start, end in chunk_spans(utterance.frames):
            low, high = max(0, start - DECODER_CONTEXT_FRAMES), min(utterance.frames, end + DECODER_CONTEXT_FRAMES)
            while ready < high:
                # The first block is just what the first chunk needs: the listener waits for it.
                stop = min(utterance.frames, high if ready == 0 else max(high, ready + FLOW_BLOCK_FRAMES))
                latent[:, :, ready:stop] = self._flow_block(utterance, ready, stop)
                ready = stop
            audio = self._decode_window(latent[:, :, low:high])
            yield audio[(start - low) * self.hop_length : (end - low) * self.hop_length], end == utterance.frames

    def decode_whole(self, utterance: EncodedUtterance) -> Float:
        """The waveform in one run, float32 [samples]: the reference that `decode` is measured against."""
        return self._decode_window(self._run_flow(utterance.prior, utterance.mask))

    def _flow_block(self, utterance: EncodedUtterance, start: int, stop: int) -> Float:
        low, high = max(0, start - FLOW_CONTEXT_FRAMES), min(utterance.frames, stop + FLOW_CONTEXT_FRAMES)
        block = self._run_flow(utterance.prior[:, :, low:high], utterance.mask[:, :, low:high])
        return block[:, :, start - low : stop - low]

    def _run_flow(self, prior: Float, mask: Float) -> Float:
        latent: Float = self._flow.run([self._voice.latent], {self._voice.prior: prior, self._voice.mask: mask})[0]
        return latent

    def _decode_window(self, latent: Float) -> Float:
        audio: Float = self._decoder.run(None, {self._voice.latent: latent})[0]
        return audio.reshape(-1)
