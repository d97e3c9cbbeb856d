"""Errors in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException


class ApiError(Exception):
    """An answer that is an error.

    Attributes:
        status: HTTP status.
        message: for the person who wrote the request.
        param: the field at fault.
        code: for programs.
        retry_after_s: when trying again makes sense.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    @property
    def body(self) -> dict[str, object]:
        """The JSON body."""
        return {
            "error": {"message": self.message, "type": _TYPES.get(self.status, "server_error"), "param": self.param,
                      "code": self.code}
        }  # fmt: skip


_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    409: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


def first_fault(faults: Sequence[Mapping[str, Any]], body: object) -> tuple[Mapping[str, Any], list[str]]:
    """What to tell of all that pydantic found wrong.

    Args:
        faults: pydantic's errors, with places from the body on. Where a field may have several forms, there is one for
            each; the one that got furthest is about the form that was meant.
        body: that was sent.

    Returns:
        The error, and the path to its field, without pydantic's names for forms.
    """
    of_first_field = [fault for fault in faults if fault["loc"][:1] == faults[0]["loc"][:1]]
    placed = [(fault, _path(fault, body)) for fault in of_first_field]
    return max(placed, key=lambda each: len(each[1]))


def _path(fault: Mapping[str, Any], body: object) -> list[str]:
    path: list[str] = []
    missing = fault["loc"][-1] if fault["type"] == "missing" and fault["loc"] else None
    for part in fault["loc"]:
        if isinstance(body, dict) and (part in body or part == missing):
            body = body.get(part)
        elif isinstance(body, list) and isinstance(part, int):
            body = body[part]
        else:
            continue
        path.append(str(part))
    return path


async def answer_api_error(request: Request, error: Exception) -> JSONResponse:
    """Exception handler for `ApiError`."""
    assert isinstance(error, ApiError)
    request.app.state.metrics.refuse(error.status, error.code)
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s is not None else None
    return JSONResponse(error.body, error.status, headers)


async def answer_validation_error(request: Request, error: Exception) -> JSONResponse:
    """Exception handler: the first field that pydantic refuses, as a 400."""
    assert isinstance(error, RequestValidationError)
    faults = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
    first, place = first_fault(faults, error.body)
    reason = str(first["msg"]).removeprefix("Value error, ")
    if not place and first["type"] == "value_error":
        place = [reason.split(maxsplit=1)[0]]  # a rule about several fields begins with the one to change
        reason = reason.removeprefix(place[0]).strip()
    param = ".".join(place) or None
    if first["type"] == "extra_forbidden":
        message = f"{param} is not supported by this server"
    elif first["type"] == "json_invalid":
        param, message = None, f"the body is not valid JSON: {first.get('ctx', {}).get('error', first['msg'])}"
    elif not first["loc"] and not isinstance(error.body, dict):
        message = "the body must be a JSON object, sent with Content-Type: application/json"
    else:
        message = f"{param}: {reason}" if param else reason
    return await answer_api_error(request, ApiError(400, message, param=param, code=str(first["type"])))


async def answer_http_exception(request: Request, error: Exception) -> JSONResponse:
    """Exception handler for the framework's own errors, such as an unknown path."""
    assert isinstance(error, HTTPException)
    return await answer_api_error(
        request, ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    )
