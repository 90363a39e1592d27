"""What the views of runs, races and jobs have in common: one look at the folders for all pages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request

from ...core.typed import show
from ...serve.refusals import Refusal
from ..jobs.jobs import Jobs
from .places import Root, open_roots
from .races import Races
from .watch import Watch

PAUSE = 0.8  # seconds between two looks of a page that is open
STILL = 15.0  # seconds after which a page without news is sent an empty event, so that a dead one is noticed


class Records:
    """The folders of a studio: their runs and races, and the jobs that write there."""

    def __init__(self, folders: Any, *, jobs: int, pages: int) -> None:
        self.roots = open_roots(folders)
        self.watch = Watch(self.roots)
        self.races = Races(self.watch)
        self.jobs = Jobs(self.roots[0].path if self.roots else None, jobs)
        self.pages, self.open = pages, 0

    @property
    def home(self) -> Root:
        """The folder that jobs write to."""
        if not self.roots:
            raise Refusal(400, "start: expected a folder to write to, found none; open one: recollect studio FOLDER")
        return self.roots[0]

    def find_run(self, name: str) -> Any:
        """A run with its folder, by its name."""
        found = self.watch.run(name)
        if found is None:
            self.watch.look(now=True)
            found = self.watch.run(name)
        if found is None:
            raise Refusal(404, f"run: expected one that this studio sees, found {show(name)}", param="run")
        return found

    async def follow(self, read: Callable[[], Any], *, pause: float = PAUSE) -> AsyncIterator[Any]:
        """What `read` gives, each time that it is something new (None: it is not)."""
        if self.open >= self.pages:
            raise Refusal(503, f"server: expected at most {self.pages} pages that are kept up to date, found more")
        self.open += 1
        try:
            quiet = 0.0
            while True:
                news = await asyncio.to_thread(read)
                quiet = 0.0 if news is not None else quiet + pause
                if news is not None:
                    yield news
                elif quiet >= STILL:
                    quiet = 0.0
                    yield {}
                await asyncio.sleep(pause)
        finally:
            self.open -= 1


def read_query(request: Request, name: str, most: int = 2_000) -> str:
    """A text of the address of a request; empty where there is none."""
    found = request.query_params.get(name, "")
    if len(found) > most:
        raise Refusal(400, f"{name}: expected at most {most:,} characters, found more", param=name)
    return found
