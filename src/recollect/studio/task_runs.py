"""What the views of tasks share: the runs of a task by name, and calls of their models in the studio's worker."""

import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.errors import RecollectError
from ..core.language import LANGUAGES, language
from ..core.trained import TrainedModel
from ..core.typed import show
from ..serve.refusals import Json, Refusal
from ..serve.waiting import while_connected
from ..training.folder import RunFolder, shipped

SMALL = 5_000_000  # numbers of a model up to which a second thread costs more than it brings
MOST = 500  # runs that a view lists


class TaskRuns:
    """The runs of some tasks. `describe` adds what a view shows of one, from its config.json alone."""

    def __init__(
        self, studio: Any, view: str, *tasks: str, describe: Callable[..., dict[str, Any]] | None = None
    ) -> None:
        self.studio, self.view, self.tasks, self.describe = studio, view, tasks, describe
        self.known: dict[str, tuple[int, dict[str, Any] | None]] = {}

    def route(self) -> Route:
        """The route that lists the runs."""

        async def list_runs(request: Request) -> Response:
            return Json({"runs": self.list()})

        return Route(f"/studio/{self.view}/runs", list_runs, methods=["GET"])

    def list(self) -> list[dict[str, Any]]:
        """The runs of these tasks, those that ship with the package first."""
        found = [
            {"name": name} | about
            for name, place in self.studio.registry.list_runs().items()
            if (about := self._read(place)) is not None
        ]
        return sorted(found, key=lambda run: not run["shipped"])[:MOST]

    def _read(self, place: str) -> dict[str, Any] | None:
        """What is known of a run without loading it; None for one of another task, or one that cannot be read."""
        try:
            folder = RunFolder.open(place)
            stamp = folder.config_path.stat().st_mtime_ns
            if place not in self.known or self.known[place][0] != stamp:
                self.known[place] = stamp, self._describe(place, folder)
        except (RecollectError, OSError):
            return None
        return self.known[place][1]

    def _describe(self, place: str, folder: RunFolder) -> dict[str, Any] | None:
        if not folder.model_path.is_file():  # nothing was trained yet
            return None
        config = folder.config()
        if config.get("task") not in self.tasks:
            return None
        model, corpus = (found if isinstance(found := config.get(key), dict) else {} for key in ("model", "corpus"))
        about = {
            "task": config["task"],
            "model": str(model.get("name", ""))[:100],
            "data": str(corpus.get("name", ""))[:200],
            "shipped": Path(place).name in shipped(),
        }
        return about if self.describe is None else about | self.describe(folder, config)

    async def call(self, request: Request, name: Any, function: Callable[[TrainedModel], Any]) -> Any:
        """What `function` gives of the run with this name, in the worker's thread."""
        if not isinstance(name, str) or not name:
            raise Refusal(400, "run: expected the name of a run, found none", param="run")
        place = self.studio.registry.find(name)

        def work() -> Any:
            if self._read(place) is None:
                raise Refusal(400, f"run: expected one of {' or '.join(self.tasks)}, found {show(name)}", param="run")
            model = self.studio.registry.load(name)
            with few_threads(model):
                return function(model)

        try:
            return await while_connected(request, self.studio.worker.call(work))
        except Refusal:
            raise
        except RecollectError as error:
            raise Refusal(400, str(error).replace(str(RunFolder.open(place).path), name)) from None


@contextmanager
def few_threads(model: TrainedModel) -> Any:
    """One thread for a small model: two that wait for each other on a busy machine take a hundred times as long."""
    torch = sys.modules.get("torch")
    size = 0 if torch is None else sum(part.numel() for part in model.module.state_dict().values())
    if torch is None or size > SMALL:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_number(value: int | None, least: int, most: int, name: str) -> None:
    """Refuse a number out of its range; None is none."""
    if value is not None and not least <= value <= most:
        raise Refusal(400, f"{name}: expected from {least:,} to {most:,}, found {show(value)}", param=name)


def read_numbers(request: Request, name: str, default: int | None = None) -> int | None:
    """A whole number of the query of an address."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise Refusal(400, f"{name}: expected a whole number, found {show(text[:40])}", param=name)
    return int(text)


def language_of(request: Request) -> str:
    """The language of the page that asks."""
    asked = request.headers.get("accept-language", "")[:2]
    return asked if asked in LANGUAGES else language()
