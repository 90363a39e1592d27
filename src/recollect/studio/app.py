"""The application: the pages of all views before the API of `recollect serve`, behind its guard.

    studio = Studio([Path("runs")], ["lane-lstm"], Limits())
    app = studio.application(hosts=host_names("127.0.0.1", 8018), token=make_token())

A view gets the studio: `registry` (runs by name), `service` with its models, sessions and worker, `limits`, and
`on_close` for what has to end with it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import __version__
from ..core.language import LANGUAGES, language
from ..report.drawing import colour, looks
from ..serve.app import Service
from ..serve.guard import Guard
from ..serve.refusals import Json
from .assets import Assets
from .limits import Limits
from .records.shared import Records
from .registry import Registry
from .views import VIEWS

COOKIE = "recollect_studio"


class Studio:
    """What the pages stand on."""

    text_pages: Any = None  # the open pages of the text view

    def __init__(
        self,
        folders: Sequence[Path] = (),
        runs: Sequence[str] = (),
        limits: Limits | None = None,
        *,
        stop_jobs: bool = False,
    ) -> None:
        self.limits = limits or Limits()
        self.registry = Registry(folders, runs)
        self.folders = self.registry.folders
        self.service = Service(tuple(self.registry.named.values()), self.limits, lazy=True)
        self.worker = self.service.worker
        self.assets = Assets()
        self._ends: list[Callable[[], Any]] = []
        self.records = Records(self.folders, jobs=self.limits.jobs, pages=self.limits.pages)
        self.on_close(lambda: self.records.jobs.close(stop=stop_jobs))

    def on_close(self, end: Callable[[], Any]) -> None:
        """Call `end` when the studio ends; it returns whether all has ended (None: yes)."""
        self._ends.append(end)

    def application(self, *, hosts: frozenset[str], token: str, cookie: str = COOKIE) -> Guard:
        """The ASGI application."""
        own = [*self.assets.routes(), Route("/studio/about", self.about, methods=["GET"])]
        views = [route for view in VIEWS for route in view.module.routes(self)]
        return self.service.application(hosts=hosts, token=token, routes=[*own, *views], cookie=cookie)

    async def about(self, request: Request) -> Response:
        """What the shell of the page needs to know at its start."""
        return Json(
            {
                "version": __version__,
                "lang": language(),
                "languages": LANGUAGES,
                "views": [{"name": view.name, "title": view.title} for view in VIEWS],
                "colours": colour.COLOURS,
                "signs": colour.SIGNS,
                "looks": {name: list(look) for name, look in looks.KNOWN.items()},
            }
        )

    def close(self) -> bool:
        """End all work; whether every thread has ended."""
        return all([self.service.close(), *(end() is not False for end in self._ends)])
