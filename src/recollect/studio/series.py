"""Series: a table dropped in, or one that is built in; forecasts from every origin, beside what came."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.errors import RecollectError
from ..core.language import localize, speaking
from ..core.typed import show
from ..report.drawing import chart
from ..report.series import split_unit
from ..serve.bodies import check_count, check_type, read_body
from ..serve.refusals import Refusal
from ..training.folder import RunFolder
from .arrays import Arrays
from .task_runs import TaskRuns, check_number, language_of, read_numbers

BUILT_IN = ("sunspots", "sine")
NUMBERS = 200_000  # of all forecasts of a table together: how many origins that makes
ORIGINS = 400
HORIZON = 500
SHOWN = 24  # columns
MESSAGES = ("mean error by distance", "mean error")  # of the chart


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/series."""
    runs = TaskRuns(studio, "series", "series", describe=describe)

    async def backtest(request: Request) -> Response:
        name, horizon = request.query_params.get("run"), read_numbers(request, "horizon")
        check_number(horizon, 1, HORIZON, "horizon")
        wide = read_numbers(request, "wide", 640) or 640
        check_number(wide, 240, 2_000, "wide")
        built_in = request.query_params.get("source")
        if built_in is not None and built_in not in BUILT_IN:
            raise Refusal(400, f"source: expected {' or '.join(BUILT_IN)}, found {show(built_in[:80])}", param="source")
        content = b""
        if built_in is None:
            check_type(request, "text/csv", "text/", "application/vnd.ms-excel", "application/octet-stream")
            content = await read_body(request, studio.limits.body, studio.limits.body_seconds)
            check_content(content)
        own = language_of(request)

        def work(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            return answer(model, built_in, content, horizon, studio.limits.cells, wide, own)

        return Arrays(*await runs.call(request, name, work))

    return [runs.route(), Route("/studio/series/backtest", backtest, methods=["POST"])]


def describe(folder: RunFolder, config: dict[str, Any]) -> dict[str, Any]:
    """What a table must have for this run."""
    task, corpus = config.get("series") or {}, config.get("corpus") or {}
    columns: Any = corpus.get("columns")
    columns = columns if isinstance(columns, list) else []
    return {
        "columns": [str(column)[:80] for column in columns[:SHOWN]],
        "lookback": task.get("lookback"),
        "horizon": task.get("horizon"),
    }


def check_content(content: bytes) -> None:
    """Refuse what is no text before anything reads it."""
    if not content.strip():
        raise Refusal(400, "table: expected a CSV file with rows, found an empty one")
    if b"\0" in content[: 1 << 16] or content[:2] in (b"\x1f\x8b", b"PK") or content[:4] == b"%PDF":
        raise Refusal(400, "table: expected a CSV file as plain text, found something packed or binary; unpack it")


def read_table(model: Any, built_in: str | None, content: bytes) -> Any:
    """A built-in table, or that of an upload: it stands in a file of its own while it is read, and then nowhere."""
    if built_in is not None:
        return model.open(built_in)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(content)
        try:
            found = model.open(str(path))
        except RecollectError as error:
            raise Refusal(400, str(error).replace(str(path), "the table")) from None
        notes = tuple(note.replace(str(path), "the table") for note in found.notes)
        return replace(found, path="the table", notes=notes)


def answer(
    model: Any, built_in: str | None, content: bytes, horizon: int | None, cells: int, wide: int, code: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was measured, and the forecasts of every origin."""
    table = read_table(model, built_in, content)
    check_count(int(table.values.size), cells, "cells", "table")
    own = model.settings.get("series", {})
    ahead = horizon or int(own.get("horizon", 1))
    most = max(8, min(ORIGINS, NUMBERS // (ahead * len(table.columns))))
    found = model.backtest(table, ahead, most=most)
    seen = trained_rows(model, table, found)
    columns = [dict(zip(("name", "unit"), split_unit(column), strict=True)) for column in table.columns]
    with speaking(code):  # no longer than it takes to say it: other threads hear it too
        notes = [localize(note) for note in found.notes]
        charts = [error_chart(found, c, model.period, seen, wide) for c in range(min(len(columns), SHOWN))]
    about = {
        "columns": columns,
        "times": found.times,
        "origins": found.origins,
        "level": found.level,
        "horizon": ahead,
        "lookback": own.get("lookback"),
        "period": model.period,
        "trained": seen,
        "notes": notes,
        "error_charts": charts,
    }
    arrays = {"values": found.table.values, "mean": found.mean, "lower": found.lower, "upper": found.upper}
    return about, {name: array.astype(np.float32) for name, array in arrays.items()}


def trained_rows(model: Any, table: Any, found: Any) -> int | None:
    """The row of the run's own data where its test part begins; None for other data."""
    corpus = model.settings.get("corpus", {})
    if corpus.get("name") != table.path or not isinstance(corpus.get("train"), int):
        return None
    return min(corpus["train"] + int(corpus.get("valid", 0)), len(found.table.values))


def error_chart(found: Any, column: int, period: int, seen: int | None, wide: int) -> str:
    """The mean error at each distance ahead, beside that of two plain rules, of origins after what was trained on."""
    came, mean = found.came()[:, :, column], found.mean[:, :, column]
    values, horizon = found.table.values[:, column], found.mean.shape[1]
    counted = np.array([seen is None or origin >= seen for origin in found.origins])
    last = np.stack([np.full(horizon, values[origin - 1]) for origin in found.origins])
    rules = {"forecast": mean, "last value": last}
    if period > 1:
        places = np.array(
            [[origin - period + h % period for h in range(horizon)] for origin in found.origins]
        )  # the season before the origin, again and again
        rules["one season before"] = np.where(places >= 0, values[np.maximum(places, 0)], np.nan)
    lines = []
    steps = list(range(1, horizon + 1))
    for name, expected in rules.items():
        errors = np.abs(came - expected)[counted]
        with_some = ~np.isnan(errors).all(axis=0) if len(errors) else np.zeros(horizon, bool)
        y = [float(np.nanmean(errors[:, h])) if with_some[h] else None for h in range(horizon)]
        lines.append({"name": name, "x": steps, "y": y, "style": "plain" if horizon > 1 else ""})
    about = {"title": "mean error by distance", "x": "rows ahead", "y": "mean error", "lines": lines}
    return chart.inline(about, wide) if counted.any() else ""
