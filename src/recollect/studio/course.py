"""The course as pages: chapters in both languages, their commands as buttons, the place where one left off."""

import asyncio
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.language import VARIABLE
from ..core.settings import at_least
from ..core.typed import show
from ..learn.chapters import HEADINGS, LANGUAGES, Chapter, find_chapter, pages_folder, read_chapters
from ..learn.progress import read_progress, write_progress
from ..learn.walk import SCRIPT
from ..serve.bodies import read_request
from ..serve.refusals import Json, Refusal
from .documents.markdown import split_page
from .jobs.jobs import JobError
from .reader import language_of
from .records.shared import Records, read_query

WORK = Path(".studio", "course")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A piece of code of a chapter, by its place; `afresh` empties the chapter's folder first."""

    chapter: int
    section: str
    part: int = at_least(0, default=0)
    afresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Place:
    """How far a reader has come."""

    chapter: int
    section: str = ""
    finished: Literal["yes", "no", ""] = ""


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/course."""
    records: Records = studio.records
    figures = {path.name: path for path in (pages_folder() / "figures").glob("*.svg")}

    async def list_chapters(request: Request) -> Response:
        lang, progress = language_of(request), await asyncio.to_thread(read_progress)
        chapters = [
            {"number": each.number, "name": each.name, "title": each.title, "finished": each.name in progress.finished,
             "section": progress.section if each.name == progress.chapter else ""}
            for each in read_chapters(lang)
        ]  # fmt: skip
        return Json({"chapters": chapters})

    async def show_chapter(request: Request) -> Response:
        found, lang = find(read_query(request, "chapter", 100), language_of(request)), language_of(request)
        return Json(await asyncio.to_thread(describe, found, lang))

    def describe(chapter: Chapter, lang: str) -> dict[str, Any]:
        sections = []
        for key, text in chapter.sections.items():
            heading = HEADINGS[key][LANGUAGES.index(lang)]
            parts = [part | {"number": number} for number, part in enumerate(split_page(text, "course"))]
            sections.append({"key": key, "heading": heading, "parts": parts})
        return {"number": chapter.number, "name": chapter.name, "title": chapter.title, "sections": sections}

    def find(name: str, lang: str) -> Chapter:
        try:
            return find_chapter(name or "1", lang)
        except ValueError as error:
            raise Refusal(404, str(error), param="chapter") from None

    async def send_figure(request: Request) -> Response:
        path = figures.get(request.path_params["name"])
        if path is None:
            raise Refusal(404, "path: expected a figure of the course, found another")
        return Response(await asyncio.to_thread(path.read_bytes), media_type="image/svg+xml")

    async def run(request: Request) -> Response:
        asked = await read_request(request, Asked, studio.limits)
        return Json(await asyncio.to_thread(start, asked, language_of(request)))

    def start(asked: Asked, lang: str) -> dict[str, Any]:
        """Run a piece of code of our own pages: a request says which, and never what."""
        chapter = find(str(asked.chapter), lang)
        parts = split_page(chapter.sections.get(asked.section, ""), "course")
        if not (0 <= asked.part < len(parts)) or parts[asked.part]["kind"] not in ("python", "sh"):
            raise Refusal(
                404, f"part: expected a piece of code of this section, found {show(asked.part)}", param="part"
            )
        part = parts[asked.part]
        folder = make_folder(chapter, afresh=asked.afresh)
        if part["kind"] == "python":
            (folder / "chapter.py").write_text(part["text"], encoding="utf-8")
            words = [sys.executable, "chapter.py"]
        else:
            shell = shutil.which("sh")
            if shell is None:
                raise JobError("course: expected a shell, sh, to run these lines, found none; type them yourself")
            words = [shell, "-e", "-c", part["text"]]
        job = records.jobs.start(
            "course", words, shown=part["text"].strip(), title=f"{chapter.number}. {chapter.title}", folder=folder,
            env={VARIABLE: lang},
        )  # fmt: skip
        return records.jobs.describe(job)

    def make_folder(chapter: Chapter, *, afresh: bool) -> Path:
        """The folder where the code of a chapter runs, with a `./recollect` inside that is this installation."""
        folder = records.home.path / WORK / f"{chapter.number:02}"
        if afresh and folder.is_dir() and not folder.is_symlink():
            if any(
                job["kind"] == "course" and job["state"] in ("running", "stopping") for job in records.jobs.list_jobs()
            ):
                raise JobError("course: expected no command that runs, found one; wait for it, or stop it")
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / "recollect"
        script.write_text(SCRIPT.format(sys.executable), encoding="utf-8")
        os.chmod(script, 0o755)  # noqa: S103
        return folder

    async def keep(request: Request) -> Response:
        asked = await read_request(request, Place, studio.limits)
        return Json({"kept": await asyncio.to_thread(remember, asked, language_of(request))})

    def remember(asked: Place, lang: str) -> bool:
        chapter = find(str(asked.chapter), lang)
        before = read_progress()
        finished = dict.fromkeys(before.finished)
        if asked.finished == "yes":
            finished[chapter.name] = None
        elif asked.finished == "no":
            finished.pop(chapter.name, None)
        section = asked.section if asked.section in HEADINGS else ""
        return write_progress(before._replace(chapter=chapter.name, section=section, finished=tuple(finished)))

    return [
        Route("/studio/course/chapters", list_chapters, methods=["GET"]),
        Route("/studio/course/chapter", show_chapter, methods=["GET"]),
        Route("/studio/course/figure/{name}", send_figure, methods=["GET"]),
        Route("/studio/course/run", run, methods=["POST"]),
        Route("/studio/course/place", keep, methods=["POST"]),
    ]
