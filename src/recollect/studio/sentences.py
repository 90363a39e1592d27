"""Sentence to sentence: a line, its translations by several translators, and where each word of them came from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..serve.bodies import check_count, read_request
from ..training.folder import RunFolder
from .arrays import Arrays
from .task_runs import TaskRuns, check_number

LONGEST = 400  # characters of a line: each token that is written is traced back to each that was read
BEAM = 8


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A line for one translator."""

    run: str
    text: str
    beam: int | None = None
    nbest: int = 1

    def check(self) -> None:
        check_count(len(self.text), LONGEST, "characters", "text")
        check_number(self.beam, 1, BEAM, "beam")
        check_number(self.nbest, 1, BEAM, "nbest")


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/sentences."""
    runs = TaskRuns(studio, "sentences", "translation", describe=describe)

    async def trace(request: Request) -> Response:
        asked = await read_request(request, Trace, studio.limits)
        asked.check()
        about, arrays = await runs.call(request, asked.run, lambda model: answer(model, asked))
        return Arrays(about, arrays)

    return [runs.route(), Route("/studio/sentences/trace", trace, methods=["POST"])]


def describe(folder: RunFolder, config: dict[str, Any]) -> dict[str, Any]:
    """The languages of a translator, where its data name them."""
    data = config.get("data") or {}
    pair = data.get("pair") if isinstance(data, dict) else None
    return {"pair": pair[:40] if isinstance(pair, str) else None}


def answer(model: Any, asked: Trace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The translations of a line, best first, and of each its maps, M T S."""
    text = " ".join(asked.text.split())
    beam = None if asked.beam is None else max(asked.beam, asked.nbest)
    found, traces = model.trace(text, beam=beam, nbest=asked.nbest)
    about: dict[str, Any] = {"run": asked.run, "model": model.model, "text": text, "unknown": found.unknown}
    about["translations"] = [
        {
            "text": translation,
            "score": score,
            "finished": finished,
            "tokens": trace.target,
            "words": trace.target_words,
            "maps": list(trace.maps),
        }
        for translation, score, finished, trace in zip(found.texts, found.scores, found.finished, traces, strict=True)
    ]
    about["tokens"], about["words"] = (traces[0].source, traces[0].source_words) if traces else ((), ())
    arrays = {
        str(number): np.stack(list(trace.maps.values())).astype(np.float32) for number, trace in enumerate(traces)
    }
    return about, arrays
