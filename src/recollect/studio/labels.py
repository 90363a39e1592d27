"""Labels: a sentence, the probability of each label, and what each word contributed to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.artifacts import read_artifact
from ..core.errors import RecollectError
from ..serve.bodies import check_count, check_type, read_body, read_request
from ..serve.refusals import Json, Refusal
from ..training.folder import RunFolder
from .arrays import Arrays
from .task_runs import TaskRuns

LONGEST = 2_000  # characters of a text
LABELS = 50  # that a view lists of a run


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A text for one classifier, and the rule by which its words count."""

    run: str
    text: str
    rule: str = "without"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A run that is to be measured on its own data."""

    run: str


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/labels."""
    runs = TaskRuns(studio, "labels", "labels", describe=describe)

    async def contributions(request: Request) -> Response:
        asked = await read_request(request, Sentence, studio.limits)
        check_count(len(asked.text), LONGEST, "characters", "text")
        return Json(await runs.call(request, asked.run, lambda model: answer(model, asked.text, asked.rule)))

    async def measure(request: Request) -> Response:
        asked = await read_request(request, Measure, studio.limits)
        return Json(await runs.call(request, asked.run, measured))

    async def listen(request: Request) -> Response:
        check_type(request, "audio/", "application/octet-stream")
        content = await read_body(request, studio.limits.picture, studio.limits.body_seconds)
        if not content:
            raise Refusal(400, "recording: expected a WAV, FLAC or OGG file, found an empty one")
        return Arrays(*await runs.call(request, request.query_params.get("run"), lambda model: hear(model, content)))

    return [
        runs.route(),
        Route("/studio/labels/recording", listen, methods=["POST"]),
        Route("/studio/labels/contributions", contributions, methods=["POST"]),
        Route("/studio/labels/measure", measure, methods=["POST"]),
    ]


def describe(folder: RunFolder, config: dict[str, Any]) -> dict[str, Any]:
    """What a run reads, and its labels."""
    content = read_artifact(folder.path, "labels.json")
    classes = content.get("classes") if isinstance(content, dict) else None
    kind = "texts" if (folder.path / "tokenizer.json").is_file() else "images" if content.get("shape") else "recordings"
    return {"kind": kind, "labels": [str(name)[:80] for name in (classes or [])[:LABELS]]}


def answer(model: Any, text: str, rule: str) -> dict[str, Any]:
    """The probabilities of a text, and what its words contribute."""
    found = model.contributions(text, rule)
    names = ("words", "known", "probabilities", "odds", "values", "start", "rule", "so_far")
    return {"labels": model.labels, "model": model.model} | {name: getattr(found, name) for name in names}


def measured(model: Any) -> dict[str, Any]:
    """How often the run is right on its own data, and how far its probabilities are off; on the test, if it has one."""
    try:
        found, split = model.evaluate("test"), "test"
    except RecollectError:
        found, split = model.evaluate("valid"), "valid"
    kept = ("accuracy", "calibration_error", "rows", "baseline_accuracy")
    return {"split": split} | {name: found.get(name) for name in kept}


def hear(model: Any, content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The probabilities of a recording's labels, after each frame too, and its spectrogram."""
    frames = model.frames(content)
    (whole,) = model.probabilities([content])
    after = model.follow(content)
    about = {"labels": model.labels, "model": model.model, "probabilities": whole, "hop": model.hop}
    arrays = {"frames": frames.astype(np.float32)}
    return about, arrays if after is None else arrays | {"after": after.astype(np.float32)}
