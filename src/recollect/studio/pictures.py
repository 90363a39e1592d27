"""Picture to words: a picture or film dropped in, or a scene drawn here; its caption, and where each word looked."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.errors import RecollectError
from ..core.language import localize, speaking
from ..serve.bodies import check_count, check_type, read_body, read_request
from ..serve.refusals import Json, Refusal
from ..serve.task_routes import check_picture
from .arrays import Arrays
from .task_runs import TaskRuns, check_number, language_of, read_numbers

BEAM = 8
FILM = 4  # axes of an array of a film: frames, rows, columns, colours
SEEDS = 999_999_999
WORDS = 200  # characters of a scene's words


@dataclass(frozen=True, kw_only=True)
class SceneRequest:
    """A scene: any, by its number, or one that shows what these words say."""

    run: str
    number: int = 0
    words: str = ""
    beam: int | None = None


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/pictures."""
    runs = TaskRuns(studio, "pictures", "captions", "films")

    async def describe(request: Request) -> Response:
        check_type(request, "image/", "application/octet-stream")
        beam = read_numbers(request, "beam")
        check_number(beam, 1, BEAM, "beam")
        content = await read_body(request, studio.limits.picture, studio.limits.body_seconds)
        check_picture(content, studio.limits.pixels)
        own = language_of(request)

        def work(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            return answer(model, content, beam, own)

        return Arrays(*await runs.call(request, request.query_params.get("run"), work))

    async def draw(request: Request) -> Response:
        asked = await read_request(request, SceneRequest, studio.limits)
        check_number(asked.number, 0, SEEDS, "number")
        check_number(asked.beam, 1, BEAM, "beam")
        check_count(len(asked.words), WORDS, "characters", "words")
        own = language_of(request)

        def work(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            image, captions = draw_film(asked.number) if model.axes == FILM else draw_scene(asked.number, asked.words)
            about, arrays = answer(model, image if model.axes == FILM else as_png(image), asked.beam, own)
            return about | {"captions": captions}, arrays

        return Arrays(*await runs.call(request, asked.run, work))

    async def grammar(request: Request) -> Response:
        from ..tasks.captions import scenes

        relations = [relation for pair in scenes.RELATIONS for relation in pair]
        parts = {"sizes": list(scenes.SIZES), "colours": list(scenes.COLOURS), "shapes": scenes.SHAPES}
        return Json(parts | {"relations": relations})

    return [
        runs.route(),
        Route("/studio/pictures/describe", describe, methods=["POST"]),
        Route("/studio/pictures/scene", draw, methods=["POST"]),
        Route("/studio/pictures/grammar", grammar, methods=["GET"]),
    ]


def answer(model: Any, content: Any, beam: int | None, code: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The captions of a picture or film, the best one's words, and arrays: it itself, as it was seen, and the gaze."""
    options = {} if beam is None else {"beam": beam}
    found = model.caption(content, nbest=min(3, beam or 3), gaze=True, **options)
    shown, seen = model.view(content), model.seen(content)
    with speaking(code):  # no longer than it takes to say it: other threads hear it too
        kind, notes = localize(found.kind), [localize(note) for note in found.notes]
    about = {
        "texts": found.texts,
        "scores": found.scores,
        "finished": found.finished,
        "words": found.words,
        "kind": kind,
        "notes": notes,
    }
    gaze = np.zeros((0, 1, 1)) if found.gaze is None else found.gaze
    return about, {"picture": shown, "seen": seen, "gaze": gaze.astype(np.float32)}


def draw_scene(number: int, words: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """A scene of the test part by its number, or one drawn after its words, with all captions that are true of it."""
    from ..tasks.captions import scenes

    if not words.strip():
        found = scenes.scene("test", number)
        return found.image, found.captions
    try:
        return scenes.draw_words(words, number)
    except RecollectError as error:
        raise Refusal(400, str(error), param="words") from None


def draw_film(number: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """A film of the test part by its number, with its caption: what happens stands in it in order."""
    from ..tasks.captions.films import scenes

    found = scenes.film("test", number)
    return found.frames, (found.caption,)


def as_png(image: np.ndarray) -> bytes:
    """The bytes of a picture as a file."""
    from io import BytesIO

    from PIL import Image

    content = BytesIO()
    Image.fromarray(image).save(content, "PNG")
    return content.getvalue()
