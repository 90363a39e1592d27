"""Who may come in: the Host and Origin of a request, the token, how many at once; and the headers of every answer.

TensorBoard, Streamlit and Gradio answered foreign hosts when they were tried: whatever page is open in a browser could
then read a server on 127.0.0.1 through a name that its owner points there. Here every method is refused before a route
is looked for.
"""

import hmac
import logging
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from ..core.errors import RecollectError
from ..core.limits import describe_shortage, is_out_of_memory
from .refusals import ClientGone, Refusal, refuse

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERY = ("", "0.0.0.0", "::")  # addresses to bind that are no names of a server  # noqa: S104
OPEN = ("/health",)  # without a token: it says that the server runs, and nothing else
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
HEAD = 1 << 16  # bytes of the head of a request
LOG = logging.getLogger("recollect.serve")


def make_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(32)


class Guard:
    """An ASGI application in front of another one. `hosts` are the values of Host that it answers, in small letters."""

    def __init__(self, app: Any, *, hosts: frozenset[str], token: str, requests: int, cookie: str) -> None:
        self.app, self.hosts, self.token, self.most, self.cookie = app, hosts, token.encode(), requests, cookie
        self.running = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.answer(scope, receive, Sender(send))

    async def answer(self, scope: Any, receive: Any, send: "Sender") -> None:
        """Pass on a request that may come in; what goes wrong on the way becomes one JSON error."""
        self.running += 1
        try:
            response = self.check(scope)
            if response is None:
                await self.app({**scope, "app": self}, receive, send)
            else:
                await response(scope, receive, send)
        except ClientGone:
            if not send.started:  # nobody reads it, but the connection has to end with an answer
                await refuse(Refusal(408, "request: expected it whole, found a part of it"))(scope, receive, send)
        except Exception as error:
            refusal, headers = explain(error), getattr(error, "headers", None)
            if send.started:
                raise
            await refuse(refusal, headers)(scope, receive, send)
        finally:
            self.running -= 1

    def check(self, scope: Any) -> Response | None:
        """None for a request that may come in; the answer to the link with the token; else a `Refusal`."""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD:
            raise Refusal(431, f"request: expected a head of at most {HEAD:,} bytes, found more")
        names = [name for name, _ in scope["headers"]]
        given = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if names.count(b"host") != 1 or (host := given[b"host"].lower()) not in self.hosts:
            raise Refusal(403, "Host: expected a name of this server, found another; see recollect serve --allow")
        origin = given.get(b"origin")
        if names.count(b"origin") > 1 or (origin is not None and not same_origin(origin, host)):
            raise Refusal(403, "Origin: expected this server's own pages, found another")
        if self.running > self.most:
            raise Refusal(503, f"server: expected at most {self.most:,} requests at once, found more; try again later")
        if scope["path"] in OPEN:
            return None
        shown = find_token(scope["query_string"]) if (scope["method"], scope["path"]) == ("GET", "/") else None
        if shown is not None:
            return self.enter(shown)
        if not self.knows(given):
            raise Refusal(401, "token: expected the one of the link, as Authorization: Bearer or as the link's cookie")
        return None

    def knows(self, given: dict[bytes, str]) -> bool:
        """Whether a request has the token."""
        kind, _, bearer = given.get(b"authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.matches(bearer.strip()):
            return True
        try:
            found = SimpleCookie(given.get(b"cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and self.matches(found.value)

    def matches(self, found: str) -> bool:
        return hmac.compare_digest(found.encode("utf-8", "replace"), self.token)

    def enter(self, shown: str) -> Response:
        """The answer to the link: its token becomes a cookie that scripts and other sites do not see."""
        if not self.matches(shown):
            raise Refusal(401, "token: expected the one of the link that was printed at the start, found another")
        response = RedirectResponse("/", 303)
        response.set_cookie(self.cookie, self.token.decode(), httponly=True, samesite="strict")
        return response


def find_token(query: bytes) -> str | None:
    """The token in the query of a link; None where there is none."""
    parts = query[:1_000].decode("latin-1").split("&")
    return next((part.removeprefix("token=") for part in parts if part.startswith("token=")), None)


def same_origin(origin: str, host: str) -> bool:
    """Whether an Origin names the very host and port that were asked."""
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc == host and not (parts.path or parts.query)


def explain(error: Exception) -> Refusal:
    """What went wrong, as a refusal: our own errors in their words, anything else without any."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):  # of the router
        words = {404: "path: expected one of docs/serve.md, found another", 405: "method: expected another one here"}
        return Refusal(error.status_code, words.get(error.status_code, error.detail))
    if is_out_of_memory(error):
        return Refusal(503, describe_shortage(error, "what the request asks for"))
    if isinstance(error, RecollectError):
        return Refusal(400, str(error))
    LOG.error("an error of the server's own", exc_info=error)
    return Refusal(500, "server: expected to answer, found an error of its own, which stands in its log")


class Sender:
    """`send` of a request, with the headers that every answer has."""

    def __init__(self, send: Any) -> None:
        self.send, self.started = send, False

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            own = {name.lower() for name, _ in message.get("headers", ())}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in own]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await self.send(message)


def host_names(host: str, port: int, allowed: tuple[str, ...] = ()) -> frozenset[str]:
    """The values of Host that a server answers: the loopback names with its port, and those that were allowed."""
    names = {*LOOPBACK, *([] if host in EVERY else [f"[{host}]" if ":" in host else host])}
    known = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())
    return frozenset(name.lower() for name in (*known, *allowed))
