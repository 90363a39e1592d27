"""The routes of sessions: texts that are read, gone on with, forked and rewound, and states that are kept by an id."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core import typed
from ..core.settings import at_least
from ..runtime.sampling import logsumexp
from .bodies import read_request
from .limits import Limits
from .options import WritingOptions
from .refusals import Json, Refusal
from .sessions import Kept, Store, Text
from .waiting import EventStream, while_connected
from .writing import Writing

MOST_COUNT = 1_000_000


@dataclass(frozen=True, kw_only=True)
class New:
    """What a session begins with: a model, and a text or a state that was kept."""

    model: str | None = None
    text: str = ""
    state: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fed:
    """A text to be read."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """A position; None: the end."""

    position: int | None = at_least(0, default=None)


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """A body without fields."""


class SessionRoutes:
    """The routes over one store."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store, self.limits = store, limits

    def routes(self) -> list[Route]:
        def post(path: str, handler: Callable[[Request], Awaitable[Any]]) -> Route:
            return Route(f"/v1/sessions{path}", handler, methods=["POST"])

        return [
            post("", self.create),
            Route("/v1/sessions", self.list_sessions, methods=["GET"]),
            Route("/v1/sessions/{id}", self.show, methods=["GET"]),
            Route("/v1/sessions/{id}", self.remove_session, methods=["DELETE"]),
            post("/{id}/feed", self.feed),
            Route("/v1/sessions/{id}/next", self.next_tokens, methods=["GET"]),
            post("/{id}/generate", self.generate),
            post("/{id}/fork", self.fork),
            post("/{id}/rewind", self.rewind),
            post("/{id}/keep", self.keep),
            Route("/v1/states", self.list_states, methods=["GET"]),
            Route("/v1/states/{id}", self.remove_state, methods=["DELETE"]),
        ]

    def session(self, request: Request) -> Kept:
        return self.store.find("sessions", request.path_params["id"])

    async def create(self, request: Request) -> Response:
        asked = await read_request(request, New, self.limits)
        if asked.state is not None:
            if asked.model is not None or asked.text:
                raise Refusal(400, "state: expected it alone, found a model or a text beside it", param="state")
            kept = self.store.find("states", asked.state)
            return Json(self.store.add("sessions", kept.served, kept.text).describe(), 201)
        served = self.store.models.find(asked.model, "generate")
        tokens = served.encode(asked.text)
        session = self.store.add("sessions", served, Text())
        try:
            with session.turn():
                await while_connected(request, self.store.feed(session, tokens))
        except BaseException:
            self.store.sessions.pop(session.id, None)
            raise
        return Json(session.describe(), 201)

    async def list_sessions(self, request: Request) -> Response:
        self.store.drop_old()
        return Json({"object": "list", "data": [kept.describe() for kept in self.store.sessions.values()]})

    async def show(self, request: Request) -> Response:
        session = self.session(request)
        return Json({**session.describe(), "text": session.served.tokenizer.decode(session.text.tokens)})

    async def remove_session(self, request: Request) -> Response:
        self.store.remove("sessions", request.path_params["id"])
        return Response(status_code=204)

    async def feed(self, request: Request) -> Response:
        session = self.session(request)
        asked = await read_request(request, Fed, self.limits)
        with session.turn():
            await while_connected(request, self.store.feed(session, session.served.encode(asked.text)))
        return Json(session.describe())

    async def next_tokens(self, request: Request) -> Response:
        """The likeliest next tokens, with the probabilities that the model gives them."""
        session = self.session(request)
        found = request.query_params.get("count", "10")
        if not (found.isascii() and found.isdigit() and 0 < int(found[:9]) <= MOST_COUNT and len(found) < 9):
            raise Refusal(400, f"count: expected from 1 to {MOST_COUNT:,}, found {typed.show(found)}", param="count")
        end = session.text.end
        if end is None:
            raise Refusal(409, "session: expected a text of at least one token, found an empty one; feed it first")
        logits = end.logits.astype(np.float64)
        shares = np.exp(logits - logsumexp(logits[None])[0])
        best = np.argsort(-shares, kind="stable")[: int(found)]
        name = session.served.tokenizer.token
        tokens = [{"id": int(each), "token": name(int(each)), "probability": float(shares[each])} for each in best]
        return Json({"position": session.text.position, "tokens": tokens})

    async def generate(self, request: Request) -> Any:
        """Go on with the text, which then is part of the session."""
        session = self.session(request)
        asked = await read_request(request, WritingOptions, self.limits)
        text, config = session.text, asked.config(self.limits)
        if not text.position:
            raise Refusal(409, "session: expected a text of at least one token, found an empty one; feed it first")
        session.served.check_length(text.position + config.length, "max_tokens")
        if asked.stream:
            if session.busy:
                raise Refusal(409, "session: expected one request at a time, found another one under way")
            return EventStream(request, self._stream(session, asked))
        return Json(await while_connected(request, self._whole(session, asked)))

    def _job(self, session: Kept, asked: WritingOptions) -> Any:
        text, config = session.text, asked.config(self.limits)
        drawn = text.drawn(text.position)
        writing = Writing(session.served.tokenizer, config, stops=asked.stops(), before=text.tokens, drawn=drawn)
        return self.store.submit(session, self.store.job(session, writing=writing))

    def _commit(self, session: Kept, job: Any) -> dict[str, Any]:
        done, greedy = job.finished, job.writing.config.greedy
        self.store.put(session, session.text.extended(done, draws=not greedy))
        tokens = len(done.written)
        return {"finish_reason": done.reason, "tokens": tokens, "position": session.text.position}

    async def _whole(self, session: Kept, asked: WritingOptions) -> dict[str, Any]:
        with session.turn():
            job = self._job(session, asked)
            done = await job.wait()
            return {"text": done.text, **self._commit(session, job)}

    async def _stream(self, session: Kept, asked: WritingOptions) -> AsyncIterator[dict[str, Any]]:
        with session.turn():
            job = self._job(session, asked)
            try:
                async for piece in job.pieces():
                    yield {"text": piece}
            finally:
                job.ended = True
            yield {"text": "", **self._commit(session, job)}

    async def fork(self, request: Request) -> Response:
        """Another session with the same text, up to a position."""
        session = self.session(request)
        asked = await read_request(request, Place, self.limits)
        made = self.store.add("sessions", session.served, session.text)
        try:
            if asked.position is not None:
                with made.turn():
                    await while_connected(request, self.store.rewind(made, asked.position))
        except BaseException:
            self.store.sessions.pop(made.id, None)
            raise
        return Json({**made.describe(), "parent": session.id}, 201)

    async def rewind(self, request: Request) -> Response:
        """Take a session back to a position."""
        session = self.session(request)
        asked = await read_request(request, Place, self.limits)
        if asked.position is None:
            raise Refusal(400, "position: expected one to go back to, found none", param="position")
        with session.turn():
            await while_connected(request, self.store.rewind(session, asked.position))
        return Json(session.describe())

    async def keep(self, request: Request) -> Response:
        """Keep where a session stands now, under an id, however the session goes on."""
        session = self.session(request)
        await read_request(request, Nothing, self.limits)
        with session.turn():
            made = self.store.add("states", session.served, session.text.cut(session.text.position))
        return Json(made.describe(), 201)

    async def list_states(self, request: Request) -> Response:
        self.store.drop_old()
        return Json({"object": "list", "data": [kept.describe() for kept in self.store.states.values()]})

    async def remove_state(self, request: Request) -> Response:
        self.store.remove("states", request.path_params["id"])
        return Response(status_code=204)
