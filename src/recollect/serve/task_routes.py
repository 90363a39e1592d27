"""The routes of what models do at once: translations, labels, forecasts, captions, ratings, scores."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.errors import RecollectError
from ..core.trained import TrainedModel
from ..core.typed import show
from .bodies import check_count, check_type, parse_json, read_body, read_fields, read_request
from .limits import Limits
from .models import Models, Served
from .refusals import Json, Refusal
from .waiting import while_connected
from .worker import Worker

TOGETHER = 8  # lines of a search between which it can be left
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # of pictures


@dataclass(frozen=True, kw_only=True)
class Search:
    """How texts are searched for."""

    beam: int | None = None
    nbest: int = 1
    length_penalty: float | None = None
    layer: int | None = None
    head: int | None = None

    def check(self, limits: Limits) -> None:
        for name in ("beam", "nbest"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= limits.beam:
                raise Refusal(400, f"{name}: expected from 1 to {limits.beam}, found {show(value)}", param=name)

    def options(self) -> dict[str, Any]:
        """The options that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Translate(Search):
    """Lines to translate."""

    text: str | tuple[str, ...]
    coverage: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    alignments: bool = False

    def make(self, model: Any, limits: Limits) -> Iterator[Any]:
        self.check(limits)
        texts = read_texts(self.text, limits)
        options = self.options()
        del options["text"]
        for found in model.stream(texts, together=TOGETHER, **options):
            alignment = None
            if found.alignment is not None:
                names = ("source_tokens", "target_tokens", "pairs", "kind")
                alignment = {"weights": found.alignment} | {name: getattr(found, name) for name in names}
            about = {name: getattr(found, name) for name in ("source", "texts", "scores", "finished", "unknown")}
            yield about | {"alignment": alignment}


@dataclass(frozen=True, kw_only=True)
class Classify:
    """Texts to label, or images as rows of numbers from 0 to 255."""

    text: str | tuple[str, ...] | None = None
    images: tuple[Any, ...] | None = None

    def make(self, model: Any, limits: Limits) -> Iterable[Any]:
        if (self.text is None) == (self.images is None):
            raise Refusal(400, "text: expected either text or images, found both or neither", param="text")
        if self.images is None:
            rows: Any = read_texts(self.text, limits)
        else:
            check_count(len(self.images), limits.rows, "images", "images")
            rows = list(self.images)
        return [None if found is None else found._asdict() for found in model.classify(rows)]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A table as columns by name, and how many rows are to follow it; or the gaps in it are to be filled."""

    table: dict[str, tuple[int | float | str | None, ...]]
    horizon: int | None = None
    fill: bool = False

    def make(self, model: Any, limits: Limits) -> Iterable[Any]:
        check_count(sum(map(len, self.table.values())), limits.cells, "cells", "table")
        if self.horizon is not None and not 1 <= self.horizon <= limits.tokens:
            raise Refusal(400, f"horizon: expected from 1 to {limits.tokens:,}, found {show(self.horizon)}")
        table = {name: list(column) for name, column in self.table.items()}
        if self.fill:
            return [{"rows": [row._asdict() for row in model.fill(table)], "notes": []}]
        ahead = model.forecast(table, self.horizon)
        rows = [row._asdict() for row in ahead.rows()]
        return [{"columns": ahead.columns, "times": ahead.times, "rows": rows, "notes": ahead.notes}]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Users and items by their names in the data: one of each, or lists of one length or of one element."""

    users: str | int | tuple[str | int, ...]
    items: str | int | tuple[str | int, ...]

    def make(self, model: Any, limits: Limits) -> Iterable[Any]:
        users, items = ([each] if isinstance(each, str | int) else list(each) for each in (self.users, self.items))
        check_count(max(len(users), len(items)), limits.cells, "pairs", "users")
        if len(users) != len(items) and 1 not in (len(users), len(items)):
            raise Refusal(400, f"users: expected as many as items, or one, found {len(users):,} and {len(items):,}")
        return [model.rate(users, items)]


@dataclass(frozen=True, kw_only=True)
class Recommend:
    """A user, for whom the best items are asked."""

    user: str | int
    count: int = 10

    def make(self, model: Any, limits: Limits) -> Iterable[Any]:
        if not 1 <= self.count <= limits.cells:
            raise Refusal(400, f"count: expected from 1 to {limits.cells:,}, found {show(self.count)}", param="count")
        return [{"title": title, "rating": rating} for title, rating in model.recommend(self.user, self.count)]


@dataclass(frozen=True, kw_only=True)
class Score:
    """A text: how likely is it?"""

    text: str

    def make(self, model: Any, limits: Limits) -> Iterable[Any]:
        check_count(len(self.text), limits.tokens, "characters", "text")
        found = model.score(self.text)
        names = ("nats", "tokens", "nats_per_token", "perplexity", "bits")
        by_token = [{"token": token, "nats": nats} for token, nats in found.by_token]
        return [{name: getattr(found, name) for name in names} | {"by_token": by_token}]


@dataclass(frozen=True, kw_only=True)
class Caption(Search):
    """What is asked of a picture, which is the body itself."""

    gaze: bool = False


CALLS: dict[str, tuple[type[Any], str]] = {  # method of a model → the body of its request, the name of its results
    "translate": (Translate, "translations"),
    "classify": (Classify, "answers"),
    "forecast": (Forecast, "forecasts"),
    "rate": (Rate, "ratings"),
    "recommend": (Recommend, "items"),
    "score": (Score, "scores"),
}


class TaskRoutes:
    """The routes over the models; all calls go through one worker."""

    def __init__(self, models: Models, worker: Worker, limits: Limits) -> None:
        self.models, self.worker, self.limits = models, worker, limits

    def routes(self) -> list[Route]:
        calls = [Route(f"/v1/models/{{model}}/{name}", self.call(name), methods=["POST"]) for name in CALLS]
        return [*calls, Route("/v1/models/{model}/caption", self.caption, methods=["POST"])]

    def call(self, name: str) -> Callable[[Request], Any]:
        kind, results = CALLS[name]

        async def handler(request: Request) -> Response:
            served = self.models.find(request.path_params["model"], name)
            asked = await read_request(request, kind, self.limits)
            found = await self.collect(request, served, lambda model: asked.make(model, self.limits))
            return Json({"model": served.name, results: found})

        return handler

    async def collect(
        self, request: Request, served: Served, make: Callable[[TrainedModel], Iterable[Any]]
    ) -> list[Any]:
        """The results of a call; what it says of its folder stays here."""
        try:
            return await while_connected(request, self.worker.collect(lambda: make(served.model)))
        except Refusal:
            raise
        except RecollectError as error:
            raise Refusal(400, str(error).replace(str(served.model.path), served.name)) from None

    async def caption(self, request: Request) -> Response:
        served = self.models.find(request.path_params["model"], "caption")
        asked = read_query(request, Caption)
        asked.check(self.limits)
        check_type(request, "image/", "application/octet-stream")
        content = await read_body(request, self.limits.picture, self.limits.body_seconds)

        def make(model: Any) -> Iterable[Any]:
            check_picture(content, self.limits.pixels)
            for found in model.stream([content], **asked.options()):
                names = ("texts", "scores", "finished", "words", "gaze", "kind", "notes")
                yield {name: getattr(found, name) for name in names}

        return Json({"model": served.name, "captions": await self.collect(request, served, make)})


def read_texts(given: Any, limits: Limits) -> list[str]:
    """Texts of a bounded number and length."""
    texts = [given] if isinstance(given, str) else list(given)
    check_count(len(texts), limits.rows, "texts", "text")
    check_count(max(map(len, texts), default=0), limits.characters, "characters", "text")
    return texts


def read_query(request: Request, kind: type[Any]) -> Any:
    """A dataclass from the query of an address, whose values are written as in JSON."""
    given = request.query_params.multi_items()
    check_count(len(given), 20, "fields", "query")
    return read_fields({name: parse_json(value[:100].encode("utf-8", "replace")) for name, value in given}, kind)


def check_picture(content: bytes, most: int) -> None:
    """Refuse pictures of other formats than the web's, and those of too many pixels before they are unpacked."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's limit is another one
            with Image.open(BytesIO(content), formats=FORMATS) as image:
                width, height = image.size
    except Image.DecompressionBombError:
        raise Refusal(413, f"picture: expected at most {most:,} pixels, found far more; make it smaller") from None
    except Exception:  # a decoder may raise anything on bytes that are not what they say
        raise Refusal(400, f"picture: expected one as {', '.join(FORMATS)}, found something else") from None
    if width * height > most:
        raise Refusal(413, f"picture: expected at most {most:,} pixels, found {width:,} × {height:,}; make it smaller")
