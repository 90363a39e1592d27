"""The files of the pages: read once at the start; a request names one of them and never a path."""

import hashlib
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.language import LANGUAGES
from ..report.drawing import chart, colour
from ..serve.refusals import Refusal, to_json
from . import messages
from .messages import STATIC
from .views import VIEWS

PATH = "/studio/static/"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
}
POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:",
        "connect-src 'self'", "font-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    )
)  # fmt: skip


class Asset(NamedTuple):
    """The bytes of a file, its type and its fingerprint."""

    content: bytes
    type: str
    tag: str

    @classmethod
    def make(cls, content: bytes, suffix: str) -> "Asset":
        return cls(content, TYPES[suffix], f'"{hashlib.sha256(content).hexdigest()[:24]}"')


class Assets:
    """Everything that a page loads, by name."""

    def __init__(self) -> None:
        self.files = {
            path.relative_to(STATIC).as_posix(): Asset.make(path.read_bytes(), path.suffix)
            for path in sorted(STATIC.rglob("*"))
            if path.suffix in TYPES
        }
        colours = f":root{{{colour.variables()}}}\n{chart.stylesheet()}"
        self.files["colours.css"] = Asset.make(colours.encode(), ".css")
        for code in LANGUAGES:
            text = to_json(messages.translations(code) if code != "en" else {})
            self.files[f"messages.{code}.json"] = Asset.make(text.encode(), ".json")
        self.page = Asset.make(self._render().encode(), ".html")

    def _render(self) -> str:
        templates = Environment(
            loader=PackageLoader("recollect.studio"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        own = {
            sheet: [view.name for view in VIEWS if sheet in view.sheets]
            for sheet in sorted({sheet for view in VIEWS for sheet in view.sheets})
            if f"views/{sheet}.css" in self.files
        }
        sheets = ["colours.css", "studio.css"]
        return templates.get_template("studio.html").render(sheets=sheets, own_sheets=own, path=PATH)

    def routes(self) -> list[Route]:
        return [
            Route("/", self.send_page, methods=["GET"]),
            Route(PATH + "{name:path}", self.send_file, methods=["GET"]),
        ]

    async def send_page(self, request: Request) -> Response:
        return answer(request, self.page, {"content-security-policy": POLICY})

    async def send_file(self, request: Request) -> Response:
        found = self.files.get(request.path_params["name"])
        if found is None:
            raise Refusal(404, "path: expected a file of the pages, found another")
        return answer(request, found, {})


def answer(request: Request, asset: Asset, headers: dict[str, str]) -> Response:
    """A file, or that the browser has it already."""
    headers = {"etag": asset.tag, "cache-control": "no-cache"} | headers
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.type, headers=headers)
