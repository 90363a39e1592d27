"""Races of the folders: where each stands, and its page, which fills while it runs."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.typed import show
from ..serve.refusals import Json, Refusal
from ..serve.waiting import EventStream
from .reader import language_of
from .records.shared import Records, read_query


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/races."""
    records: Records = studio.records

    async def list_races(request: Request) -> Response:
        return Json({"races": await asyncio.to_thread(records.races.list_races)})

    async def follow(request: Request) -> Any:
        before: Any = None

        def news() -> Any:
            nonlocal before
            found = records.races.list_races()
            is_new = found != before
            before = found
            return {"races": found} if is_new else None

        return EventStream(request, records.follow(news))

    async def show_race(request: Request) -> Response:
        name, lang = read_query(request, "race"), language_of(request)
        await asyncio.to_thread(records.watch.look)
        found = await asyncio.to_thread(records.races.render, name, lang)
        if found is None:
            raise Refusal(404, f"race: expected one that this studio sees, found {show(name)}", param="race")
        drawn, sign = found
        return Json({"page": drawn, "sign": sign, "race": await asyncio.to_thread(records.races.describe, name)})

    return [
        Route("/studio/races/list", list_races, methods=["GET"]),
        Route("/studio/races/events", follow, methods=["GET"]),
        Route("/studio/races/page", show_race, methods=["GET"]),
    ]
