"""Forms that start a training or a race, and the jobs that came of them: their output, stop, resume."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import tasks
from ..core.language import VARIABLE, answering, localize
from ..core.settings import known
from ..core.typed import show
from ..data.known.sets import KNOWN
from ..serve.bodies import read_request
from ..serve.refusals import Json, Refusal
from ..serve.waiting import EventStream
from ..training.meanings import SHARED
from .jobs import form, race_form
from .jobs.jobs import JobError
from .reader import language_of
from .records.places import list_files
from .records.shared import Records, read_query

SHOWN = [SHARED[name] for name in form.FIRST if name in SHARED]
MESSAGES = (*form.GROUPS.values(), form.PARAMS, "Task", *race_form.FIELDS.values(), *SHOWN)
MODULE = [sys.executable, "-P", "-m", "recollect"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One of the two forms."""

    training: form.Training | None = None
    race: race_form.Racing | None = None


@dataclass(frozen=True, kw_only=True)
class Named:
    """A job, or a run that is gone on with; `steps` is a longer budget."""

    id: str
    steps: int | None = None


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/start."""
    records: Records = studio.records

    def find_files() -> dict[str, Path]:
        return {name: path for name, path in list_files(records.roots) if not path.is_symlink()}

    def compose(asked: Asked) -> form.Command:
        home, files = records.home, find_files()
        if asked.training is not None:
            return form.compose(asked.training, files.get, home.path, home.label)
        if asked.race is not None:
            return race_form.compose(asked.race, files.get, home.path, home.label)
        raise Refusal(400, "body: expected a training or a race, found neither")

    async def describe_training(request: Request) -> Response:
        task, model = read_query(request, "task", 100) or "text", read_query(request, "model", 100) or None
        known("task", task, tasks.names())

        def describe() -> dict[str, Any]:
            with answering(language_of(request)):
                found = form.describe(task, model)
                found["about"] = localize(found["about"])
                for field in found["fields"]:
                    field["help"], field["group"] = localize(field["help"]), localize(field["group"])
                found["params"] = localize(found["params"])
                if records.roots:
                    found["out"] = form.free_name(found["out"], records.home.path)
                return found

        return Json(await asyncio.to_thread(describe))

    async def describe_race(request: Request) -> Response:
        def describe() -> dict[str, Any]:
            with answering(language_of(request)):
                found = race_form.describe()
                for field in found["fields"]:
                    field["help"] = localize(field["help"])
                for heat in [*found["heats"], *found["ladders"]]:
                    heat["title"], heat["question"] = localize(heat["title"]), localize(heat["question"])
                    heat["metric"] = localize(heat["metric"])
                    if records.roots:
                        heat["out"] = form.free_name(f"race-{heat['name']}", records.home.path)
                return found

        return Json(await asyncio.to_thread(describe))

    async def list_data(request: Request) -> Response:
        files = await asyncio.to_thread(find_files)
        return Json({"known": sorted(KNOWN), "files": list(files), "folders": [root.label for root in records.roots]})

    async def check(request: Request) -> Response:
        asked = await read_request(request, Asked, studio.limits)
        lang = language_of(request)
        return Json(await asyncio.to_thread(check_form, asked, lang))

    def check_form(asked: Asked, lang: str) -> dict[str, Any]:
        with answering(lang):
            found = compose(asked)
            return {
                "command": found.shown,
                "problems": [{"field": field, "message": localize(message)} for field, message in found.problems],
                "out": found.out,
            }

    async def start(request: Request) -> Response:
        asked = await read_request(request, Asked, studio.limits)
        lang = language_of(request)
        return Json(await asyncio.to_thread(start_form, asked, lang))

    def start_form(asked: Asked, lang: str) -> dict[str, Any]:
        found = compose(asked)
        if found.problems:
            raise JobError(found.problems[0][1])
        records.home.path.mkdir(parents=True, exist_ok=True)
        kind: Literal["train", "race"] = "train" if asked.training is not None else "race"
        resumes = {"task": asked.training.task} if asked.training is not None else {}
        return launch(kind, found.words, found.shown, found.out, lang, resumes)

    def launch(
        kind: Literal["train", "race"], words: list[str], shown: str, out: str, lang: str, resumes: dict[str, Any]
    ) -> dict[str, Any]:
        job = records.jobs.start(
            kind, [*MODULE, *words], shown=shown, title=out.rpartition("/")[2], out=out, env={VARIABLE: lang},
            resumes=resumes,
        )  # fmt: skip
        return records.jobs.describe(job)

    async def resume(request: Request) -> Response:
        asked = await read_request(request, Named, studio.limits)
        lang = language_of(request)
        return Json(await asyncio.to_thread(resume_run, asked, lang))

    def resume_run(asked: Named, lang: str) -> dict[str, Any]:
        """Go on with a run that was stopped, or with a race of ours by its own command."""
        earlier = next((job for job in records.jobs.read_all() if job.out == asked.id and job.kind == "race"), None)
        if earlier is not None:
            return launch("race", earlier.words[len(MODULE) :], earlier.shown, asked.id, lang, {})
        records.watch.look(now=True)
        if records.watch.race(asked.id) is not None:
            raise JobError(
                f"race: expected one that was started here, found {asked.id}, begun elsewhere; type its command again"
            )
        run, path = records.find_run(asked.id)
        if run.state == "running":
            raise JobError(f"run: expected one that nobody trains, found {asked.id} in training; wait, or stop it")
        if run.race is not None:
            raise JobError(f"run: expected one that was trained alone, found an entry of the race {run.race}")
        words = ["train", known("task", run.task, tasks.names()), "--resume", "--out", str(path)]
        if asked.steps is not None:
            if asked.steps < 1:
                raise JobError(f"steps: expected at least 1, found {asked.steps}")
            words += ["--steps", str(asked.steps)]
        return launch("train", words, form.Command(words, []).shown, asked.id, lang, {"task": run.task})

    async def stop(request: Request) -> Response:
        asked = await read_request(request, Named, studio.limits)
        await asyncio.to_thread(records.jobs.stop, asked.id)
        return Json({"id": asked.id})

    async def list_jobs(request: Request) -> Response:
        return Json({"jobs": await asyncio.to_thread(read_jobs, language_of(request))})

    def read_jobs(lang: str) -> list[dict[str, Any]]:
        with answering(lang):
            return [job | {"error": job["error"] and localize(job["error"])} for job in records.jobs.list_jobs()]

    async def follow(request: Request) -> Any:
        before: Any = None
        lang = language_of(request)

        def news() -> Any:
            nonlocal before
            found = read_jobs(lang)
            is_new = found != before
            before = found
            return {"jobs": found} if is_new else None

        return EventStream(request, records.follow(news))

    async def show_output(request: Request) -> Response:
        name = read_query(request, "id", 100)
        job = await asyncio.to_thread(records.jobs.find, name)
        if job is None:
            raise Refusal(404, f"job: expected one of this studio, found {show(name)}", param="id")
        return Json({"job": records.jobs.describe(job), "output": records.jobs.tail(name)})

    return [
        Route("/studio/start/training", describe_training, methods=["GET"]),
        Route("/studio/start/race", describe_race, methods=["GET"]),
        Route("/studio/start/data", list_data, methods=["GET"]),
        Route("/studio/start/check", check, methods=["POST"]),
        Route("/studio/start/run", start, methods=["POST"]),
        Route("/studio/start/resume", resume, methods=["POST"]),
        Route("/studio/start/stop", stop, methods=["POST"]),
        Route("/studio/start/jobs", list_jobs, methods=["GET"]),
        Route("/studio/start/events", follow, methods=["GET"]),
        Route("/studio/start/output", show_output, methods=["GET"]),
    ]
