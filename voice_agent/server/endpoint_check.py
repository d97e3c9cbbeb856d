"""Ask an endpoint for its models, so that a wrong name or address is told at start."""

from __future__ import annotations

import logging

import httpx

from voice_agent.llm import Endpoint
from voice_agent.server.process import StartError

logger = logging.getLogger(__name__)


async def served_models(base_url: str, key: str = "", *, proxies: bool = True) -> list[str]:
    """The names of the models that an endpoint serves; ``proxies``: heed the environment's HTTP proxies."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(timeout=5.0, trust_env=proxies) as http:
        response = await http.get(f"{base_url}/models", headers=headers)
        response.raise_for_status()
        return [str(model["id"]) for model in response.json()["data"]]


async def check_model(endpoint: Endpoint) -> None:
    """Tell a wrong name or address before the first caller does.

    Raises:
        StartError: the endpoint can't be reached, refuses the key, or doesn't know the model.
    """
    try:
        names = await served_models(endpoint.base_url, endpoint.api_key)
    except httpx.HTTPStatusError as error:
        if error.response.status_code in (401, 403):
            raise StartError(
                f"{endpoint.base_url} refuses the key: set VOICE_AGENT_LLM_API_KEY to a valid one"
            ) from error
        logger.warning("%s lists no models (%s)", endpoint.base_url, error.response.status_code)
        return
    except httpx.TransportError as error:
        raise StartError(f"{endpoint.base_url} can't be reached ({error}): check --llm-url") from error
    except (ValueError, KeyError, TypeError):
        logger.warning("%s lists no models that can be read", endpoint.base_url)
        return
    if names and endpoint.model not in names:
        raise StartError(
            f"{endpoint.base_url} has no model {endpoint.model!r}: choose --llm-model from {', '.join(names[:10])}"
        )
