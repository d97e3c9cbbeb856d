"""Where in a prompt the probe looks: behind the user's words."""

from __future__ import annotations

from diffusion_engine.chat.messages import normalised
from diffusion_engine.models import Attention
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.schemas import ChatCompletionRequest
from diffusion_engine.server.served_model import ServedModel


def probe_position(body: ChatCompletionRequest, model: ServedModel, prompt: str) -> int | None:
    """The token of the prompt that follows the words asked about; None where the request asks for no probe.

    Raises:
        ApiError: 400, the model can't tell, the last message is not the user's, or does not begin with the words.
    """
    probe = body.diffusion.probe
    if probe is False:
        return None
    if model.config.attention is not Attention.CAUSAL:
        raise ApiError(
            400, "diffusion.probe: only models that are causal over clean text can tell", param="diffusion.probe"
        )
    last = normalised(body.messages)[-1]
    words = last["content"] if probe is True else probe
    at = prompt.rfind(last["content"])
    if last["role"] != "user" or not words or not last["content"].startswith(words) or at < 0:
        raise ApiError(
            400,
            "diffusion.probe: true, or the beginning of the last message, which must be the user's",
            param="diffusion.probe",
        )
    return model.tokenizer.token_behind(prompt, at + len(words))
