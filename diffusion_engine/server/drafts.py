"""A warm draft given as the message that an earlier response held."""

from __future__ import annotations

from diffusion_engine.chat.messages import MessageError, normalised
from diffusion_engine.chat.template import ChatTemplate, ChatTemplateError
from diffusion_engine.server.constraints import functions_of
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.schemas import ChatCompletionRequest


def draft_of_message(body: ChatCompletionRequest, template: ChatTemplate, prompt: str) -> str | None:
    """The text that the model would have to write to say the request's draft; None where there is no such text.

    Args:
        body: the request.
        template: of the checkpoint.
        prompt: the rendered messages of the request.

    Raises:
        ApiError: 400, the draft is no message of the assistant's.
    """
    draft = body.diffusion.draft
    if not isinstance(draft, dict):
        return draft
    try:
        (message,) = normalised([{"role": "assistant", **draft}])
    except MessageError as wrong:
        reason = str(wrong).replace("messages.0", "diffusion.draft")
        raise ApiError(400, reason, param=wrong.param.replace("messages.0", "diffusion.draft")) from wrong
    if message["role"] != "assistant":
        raise ApiError(400, "diffusion.draft.role: must be assistant", param="diffusion.draft.role")
    tools = [{"type": "function", "function": function} for function in functions_of(body)] or None
    try:
        whole = template.render([*normalised(body.messages), message], tools, generation_prompt=False)
    except ChatTemplateError:
        return None
    # A template may write what it has answered differently from what it asks for: then there is nothing to start from.
    return whole[len(prompt) :] if whole.startswith(prompt) else None
