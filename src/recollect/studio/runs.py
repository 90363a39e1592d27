"""Runs of the folders: a table that stays up to date, curves of those that are chosen, settings that differ."""

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.errors import RecollectError
from ..core.files import read_json
from ..core.language import answering
from ..serve.bodies import read_request
from ..serve.refusals import Json, Refusal
from ..serve.waiting import EventStream
from .reader import language_of
from .records import chart
from .records.shared import Records, read_query
from .records.watch import MOST_CONFIG

METRICS = "metrics.jsonl"
MOST_COMPARED = 40
MESSAGES = ("running", "finished", "stopped", "begun", *chart.AXES.values(), *chart.FIGURES.values())


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The runs whose settings are asked for."""

    runs: list[str]


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/runs."""
    records: Records = studio.records

    async def list_runs(request: Request) -> Response:
        cursor = read_query(request, "cursor", 100)
        return Json((await asyncio.to_thread(records.watch.changes, cursor)).to_json())

    async def follow(request: Request) -> Any:
        cursor = read_query(request, "cursor", 100)

        def news() -> Any:
            nonlocal cursor
            found = records.watch.changes(cursor)
            is_new = found.cursor != cursor
            cursor = found.cursor
            return found.to_json() if is_new else None

        return EventStream(request, records.follow(news))

    async def draw(request: Request) -> Response:
        asked = await read_request(request, chart.Asked, studio.limits)
        lang = language_of(request)
        return Json(await asyncio.to_thread(draw_chart, asked, lang, whole=False))

    async def draw_whole(request: Request) -> Response:
        asked = await read_request(request, chart.Asked, studio.limits)
        drawn = await asyncio.to_thread(draw_chart, asked, language_of(request), whole=True)
        return Response(
            drawn, media_type="image/svg+xml", headers={"content-disposition": 'attachment; filename="runs.svg"'}
        )

    def draw_chart(asked: chart.Asked, lang: str, *, whole: bool) -> Any:
        found = [records.find_run(name) for name in dict.fromkeys(asked.runs)]
        drawn = [(run, records.watch.curves.read(path / METRICS)) for run, path in found]
        with answering(lang):
            return chart.whole(asked, drawn) if whole else chart.draw(asked, drawn)

    async def compare(request: Request) -> Response:
        asked = await read_request(request, Compared, studio.limits)
        if len(asked.runs) > MOST_COMPARED:
            raise Refusal(400, f"runs: expected at most {MOST_COMPARED}, found {len(asked.runs):,}", param="runs")
        return Json(await asyncio.to_thread(compare_settings, asked.runs))

    def compare_settings(names: list[str]) -> dict[str, Any]:
        configs, commands = {}, {}
        for name in dict.fromkeys(names):
            _, path = records.find_run(name)
            try:
                content = read_json(path / "config.json", MOST_CONFIG)
                configs[name] = content if isinstance(content, dict) else {}
                about = read_json(path / "manifest.json", MOST_CONFIG)
                commands[name] = str(about.get("command", ""))[:2_000] if isinstance(about, dict) else ""
            except (OSError, RecollectError):
                configs.setdefault(name, {})
        return {"differ": chart.differing_settings(configs), "commands": commands}

    return [
        Route("/studio/runs/list", list_runs, methods=["GET"]),
        Route("/studio/runs/events", follow, methods=["GET"]),
        Route("/studio/runs/chart", draw, methods=["POST"]),
        Route("/studio/runs/svg", draw_whole, methods=["POST"]),
        Route("/studio/runs/compare", compare, methods=["POST"]),
    ]
