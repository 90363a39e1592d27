"""Requests that are refused: the status, one line that says why, and that line as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from starlette.responses import Response

from ..core.errors import RecollectError
from ..core.limits import one_line

KINDS = {  # as OpenAI's clients know them
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
RETRY = {429: "1", 503: "1"}  # seconds after which trying again makes sense


class Refusal(RecollectError):
    """A request that is refused with an HTTP status; the message is one line."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def to_dict(self) -> dict[str, Any]:
        kind = KINDS.get(self.status, "server_error" if self.status >= 500 else KINDS[400])
        return {"error": {"message": one_line(str(self)), "type": kind, "param": self.param, "code": self.code}}


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


def to_json(value: Any) -> str:
    """A value as JSON: what is no finite number becomes null, tuples and arrays lists; `<` is safe in any page."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def plain(value: Any) -> Any:
    """A value in the types of JSON."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, Sequence):
        return [plain(part) for part in value]
    raise TypeError(f"expected a value for JSON, found {type(value).__name__}")


class Json(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content).encode("utf-8", "replace")  # half a surrogate pair is no UTF-8


def refuse(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Json:
    """The answer that refuses a request."""
    more = dict(headers or {})
    if refusal.status in RETRY:
        more["Retry-After"] = RETRY[refusal.status]
    if refusal.status == 401:
        more["WWW-Authenticate"] = "Bearer"
    return Json(refusal.to_dict(), refusal.status, more)
