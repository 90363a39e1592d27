"""Bodies of requests: bounded while they are read, then JSON that is checked against a declared type."""

import asyncio
import json
from typing import Any, TypeVar

from starlette.requests import Request

from ..core import typed
from ..core.errors import RecollectError
from ..core.typed import show
from .limits import Limits
from .refusals import ClientGone, Refusal

T = TypeVar("T")


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The body, of at most so many bytes and seconds."""
    too_large = Refusal(413, f"body: expected at most {most:,} bytes, found more; send less at once")
    declared = request.headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdigit()):
        raise Refusal(400, f"Content-Length: expected a whole number, found {show(declared)}")
    if len(declared) > 15 or int(declared) > most:
        raise too_large
    found = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                found += message.get("body", b"")
                if len(found) > most:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(found)
    except TimeoutError:
        raise Refusal(408, f"body: expected it whole within {seconds:g} seconds, found a part of it") from None


async def read_request(request: Request, kind: type[T], limits: Limits) -> T:
    """The JSON object of a request, with its keys and values as a dataclass declares them."""
    check_type(request, "application/json")
    body = await read_body(request, limits.body, limits.body_seconds)
    return read_fields(parse_json(body), kind)


def read_fields(value: Any, kind: type[T]) -> T:
    """The fields of a request; an error names the one that it is about."""
    try:
        return typed.read(value, kind)
    except RecollectError as error:
        name = str(error).partition(":")[0].partition("[")[0]
        raise Refusal(400, str(error), param=name if hasattr(kind, name) else None) from None


def check_type(request: Request, *wanted: str) -> None:
    """Refuse another Content-Type: a form of a foreign page can send text or a form, and no JSON."""
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not any(found == each or (each.endswith("/") and found.startswith(each)) for each in wanted):
        raise Refusal(415, f"Content-Type: expected {' or '.join(wanted)}, found {show(found) if found else 'none'}")


def parse_json(body: bytes) -> Any:
    """A JSON value in UTF-8 as the standard has it: no NaN, no key twice, few levels, numbers of a bounded length."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_read_object)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"body: expected UTF-8, found a byte that is none ({error.reason})") from None
    except RecursionError:
        raise Refusal(400, f"body: expected at most {typed.DEEPEST} levels, found more") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno:,}, column {error.colno:,}"
        raise Refusal(400, f"body: expected JSON, found something else at {where} ({error.msg})") from None
    except Refusal:
        raise
    except ValueError:  # of int(): more digits than it takes
        raise Refusal(400, "body: expected numbers of at most 4,300 digits, found more") from None
    typed.check_bounds(value, "body")
    _check_text(value)
    return value


def _refuse_constant(name: str) -> Any:
    raise Refusal(400, f"body: expected JSON, which has no {name}, found it; leave the value out")


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Refusal(400, f"body: expected each key once, found {show(twice)} twice")
    return found


def _check_text(value: Any) -> None:
    """Refuse halves of surrogate pairs, which are no characters: nothing could write them as UTF-8."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if not part.isascii() and any("\ud800" <= char <= "\udfff" for char in part):
                raise Refusal(400, "body: expected whole characters, found half of a surrogate pair")
        elif isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list):
            waiting += part


def check_count(found: int, most: int, what: str, name: str) -> None:
    """Refuse more of something than a limit allows."""
    if found > most:
        raise Refusal(400, f"{name}: expected at most {most:,} {what}, found {found:,}", param=name)
