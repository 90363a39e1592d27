"""A hypothesis strategy of HTTP requests: valid ones whose path, headers, JSON or bytes were altered."""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from faults.fuzzing.strategies import DEEP, NUMBERS, OTHERS, PATHS, TEXTS

VALID = {  # path → the body of a request that is answered
    "/v1/completions": {
        "model": "demo-text", "prompt": "KING:", "max_tokens": 4, "temperature": 0.8, "top_p": 0.9, "top_k": 5,
        "seed": 1, "stop": ["x", "yz"], "n": 2, "echo": True, "stream": False, "user": "a",
        "stream_options": {"include_usage": True}, "penalty": 1.1,
    },
    "/v1/sessions": {"model": "demo-text", "text": "the king"},
    "/v1/sessions/ID/feed": {"text": "and"},
    "/v1/sessions/ID/generate": {"max_tokens": 3, "seed": 2, "stop": "a", "stream": True},
    "/v1/sessions/ID/rewind": {"position": 2},
    "/v1/sessions/ID/fork": {"position": 1},
    "/v1/sessions/ID/keep": {},
    "/v1/models/demo-text/score": {"text": "the king"},
    "/v1/models/demo-series/forecast": {"table": {"sunspots": [1.5, 2, 3] * 30}, "horizon": 2, "fill": False},
}  # fmt: skip
TYPES = ("application/json", "application/json; charset=utf-8", "text/plain", "", "image/png", "a" * 5_000)
METHODS = ("POST", "POST", "POST", "GET", "PUT", "DELETE", "PATCH", "OPTIONS")
SOME = [*NUMBERS, *TEXTS, *(each for each in OTHERS if each != DEEP), *PATHS]


class Attempt(NamedTuple):
    """A request, and how it came about."""

    words: str
    method: str
    path: str
    body: bytes
    type: str


def values() -> st.SearchStrategy[Any]:
    """What may stand in place of any value."""
    plain = st.sampled_from(SOME) | st.integers() | st.floats() | st.text(max_size=20) | st.booleans()
    return st.recursive(
        plain, lambda own: st.lists(own, max_size=3) | st.dictionaries(st.text(max_size=5), own, max_size=3)
    )


@st.composite
def altered(draw: Any, value: Any) -> Any:
    """A JSON value with one part changed, taken out or put in."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(value)))
        kind = draw(st.sampled_from(["change", "change", "drop", "rename"]))
        rest = {key: part for key, part in value.items() if key != name}
        if kind == "drop":
            return rest
        if kind == "rename":
            return rest | {draw(st.text(max_size=10) | st.sampled_from(["__class__", name.upper(), ""])): value[name]}
        return rest | {name: draw(altered(value[name]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], draw(altered(value[at])), *value[at + 1 :]]
    return draw(values())


@st.composite
def attempts(draw: Any) -> Attempt:
    """An altered request."""
    path = draw(st.sampled_from(sorted(VALID)))
    kind = draw(st.sampled_from(["value", "value", "value", "bytes", "cut", "deep", "type", "method", "path"]))
    method, sent, body = "POST", "application/json", json.dumps(VALID[path]).encode()
    if kind == "value":
        body = json.dumps(draw(altered(VALID[path]))).encode()
    elif kind == "bytes":
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=8)) + body[at + draw(st.integers(0, 8)) :]
    elif kind == "cut":
        body = body[: draw(st.integers(0, len(body)))]
    elif kind == "deep":
        levels = draw(st.sampled_from([10, 49, 51, 1_000, 100_000]))
        body = b'{"text":' + b"[" * levels + b"1" + b"]" * levels + b"}"
    elif kind == "type":
        sent = draw(st.sampled_from(TYPES))
    elif kind == "method":
        method = draw(st.sampled_from(METHODS))
    else:
        alphabet = st.characters(codec="utf-8", exclude_characters="?#")
        path = path + draw(st.sampled_from(["/", "/..", "%00"]) | st.text(alphabet, max_size=10))
    return Attempt(kind, method, path, body, sent)
