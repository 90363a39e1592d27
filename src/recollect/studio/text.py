"""One text, read by every memory: the routes of its lanes."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..serve.refusals import Json


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/text."""

    async def list_lanes(request: Request) -> Response:
        return Json({"runs": list(studio.registry.list_runs())})

    return [Route("/studio/text/runs", list_lanes, methods=["GET"])]
