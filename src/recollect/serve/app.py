"""The application: the routes over the models that are served, behind their guard.

    served = Service(["demo-text"], Limits())
    app = served.application(hosts=host_names("127.0.0.1", 8017), token=make_token())

A studio gives `application` the routes of its pages: they stand behind the same guard, over the same models, sessions
and batches (`served.models`, `served.store`, `served.worker`).
"""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router

from .. import __version__
from .completions import complete
from .guard import Guard
from .limits import Limits
from .models import Models
from .refusals import Json
from .session_routes import SessionRoutes
from .sessions import Store
from .task_routes import TaskRoutes
from .worker import Worker

COOKIE = "recollect"


class Service:
    """What a server answers with: models (`lazy`: loaded when first asked for), sessions, and the thread for calls."""

    def __init__(self, runs: Sequence[str], limits: Limits | None = None, *, lazy: bool = False) -> None:
        self.limits = limits or Limits()
        self.models = Models(runs, self.limits, lazy=lazy)
        self.store = Store(self.models, self.limits)
        self.worker = Worker(self.limits)

    def application(
        self, *, hosts: frozenset[str], token: str, routes: Sequence[BaseRoute] = (), cookie: str = COOKIE
    ) -> Guard:
        """The ASGI application; further `routes` come first, so that a page may stand at /."""
        router = Router([*routes, *self.routes()], redirect_slashes=False)
        return Guard(router, hosts=hosts, token=token, requests=self.limits.requests, cookie=cookie)

    def routes(self) -> list[BaseRoute]:
        """The routes of the API."""
        return [
            Route("/", self.index, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/v1/models", self.list_models, methods=["GET"]),
            Route("/v1/models/{model}", self.show_model, methods=["GET"]),
            Route("/v1/completions", self.complete, methods=["POST"]),
            *SessionRoutes(self.store, self.limits).routes(),
            *TaskRoutes(self.models, self.worker, self.limits).routes(),
        ]

    async def index(self, request: Request) -> Response:
        return Json({"recollect": __version__, "models": [served.name for served in self.models]})

    async def health(self, request: Request) -> Response:
        return Json({"status": "ok"})

    async def list_models(self, request: Request) -> Response:
        return Json({"object": "list", "data": [served.describe() for served in self.models]})

    async def show_model(self, request: Request) -> Response:
        return Json(self.models.find(request.path_params["model"]).describe())

    async def complete(self, request: Request) -> Any:
        return await complete(request, self.models, self.limits)

    def close(self) -> bool:
        """End all work; whether every thread has ended."""
        return all([self.models.close(), self.worker.close()])
