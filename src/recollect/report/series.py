"""A forecast as a figure: what was measured and where it was not, what is expected, and what plain rules would say."""

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..core import numbers
from .drawing import chart, figure
from .drawing.looks import BLACK, BLUE, BROWN, TEAL, Keys, Look
from .drawing.scale import even_ticks
from .drawing.times import date_ticks, seconds

MOST = 12  # series in one figure
WIDE = 860.0  # pixels
TICKS = 6
MISSING = 1.5  # usual steps between two times, beyond which rows are missing
MEASURED, EXPECTED, LAST, SEASON = "measured", "forecast", "last value", "one season before"
LOOKS = {MEASURED: Look(BLACK, 0), EXPECTED: Look(BLUE, 0), LAST: Look(BROWN, 4), SEASON: Look(TEAL, 3)}
Rows = Sequence[Sequence[Any]]


def plot(
    history: Iterable[Sequence[Any]],
    forecast: Iterable[Sequence[Any]],
    path: str | Path,
    style: str = "iso",
    *,
    period: int | None = None,
    baselines: bool = True,
) -> list[str]:
    """Draw rows (time, series, value) and (time, series, mean, lower, upper, …) into a file; returns notes.

    Times are numbers, ISO dates, or dates in a `style` of strftime. One panel for each series that is forecast, the
    first 12 of them. With `baselines` there stand beside the forecast the last value and, with a `period`, the values
    of one season before.
    """
    figure.check_path(str(path))
    past, ahead = _by_series(history), _by_series(forecast)
    if not ahead:
        raise ValueError(f"{path}: expected a forecast to draw, found no rows")
    names = list(ahead)[:MOST]
    notes = [] if len(ahead) <= MOST else [f"the figure shows {MOST} of {len(ahead)} series"]
    grid = [[describe(name, past.get(name, []), ahead[name], style, period if baselines else None)] for name in names]
    if not baselines:
        grid = [[one | {"lines": one["lines"][:2]}] for (one,) in grid]
    keys = Keys()
    keys.names = dict(LOOKS)
    drawn = chart.compose(grid, WIDE, keys=keys)
    try:
        chart.save(drawn, str(path))
    except figure.FigureError as missing:
        if "glyphs" not in str(missing):
            raise
        chart.save(drawn, str(path), anyway=True)
        notes.append(str(missing).removeprefix("figure: "))
    return notes


def describe(name: str, before: Rows, rows: Rows, style: str, period: int | None) -> dict[str, Any]:
    """The chart of one series."""
    times = [row[0] for row in (*before, *rows)]
    places = _places(times, style)
    dates = bool(places) and isinstance(places[0], datetime)
    at = [seconds(place) for place in places] if dates else [float(place) for place in places]
    then, now = at[: len(before)], at[len(before) :]
    measured, gaps = _with_gaps(then, [row[2] for row in before])
    lines = [
        {"name": MEASURED, "style": "plain", "x": [x for x, _ in measured], "y": [y for _, y in measured]},
        {"name": EXPECTED, "x": now, "y": [_known(row[2]) for row in rows], "style": "plain" if len(rows) > 1 else ""}
        | {side: [_known(row[place]) for row in rows] for place, side in ((3, "low"), (4, "high"))},
        *_plain_rules(before, now, period),
    ]
    low, high = (min(at), max(at)) if at else (0.0, 1.0)
    kind: dict[str, Any] = {"ticks": date_ticks(low, high, TICKS)}
    if not dates and _are_numbers(times):
        whole = all(place == round(place) for place in at)
        kind = {"ticks": [(x, text.replace(",", "")) for x, text in even_ticks(low, high, TICKS, whole=whole)]}
    elif not dates:
        every = -(-len(times) // TICKS)
        kind = {"ticks": [(at[i], times[i]) for i in range(0, len(times), every)]}
    title, unit = split_unit(name)
    axis = (f"{title}, {unit}" if unit else f"{title}, as in the table") + ("; grey: nothing measured" if gaps else "")
    return {
        "title": title, "x": "" if dates else "time", "y": axis, "kept": ("title",),
        "lines": lines, "spans": [(a, b, "nothing measured") for a, b in gaps], **kind,
    }  # fmt: skip


def split_unit(name: str) -> tuple[str, str]:
    """`load [MW]` or `load (MW)`: a name, and the unit in its brackets."""
    found = re.fullmatch(r"(.+?)[\s_]*[\[(]([^\[\]()]{1,24})[\])]", name.strip())
    return (found[1], found[2]) if found else (name, "")


def _plain_rules(before: Rows, now: Sequence[float], period: int | None) -> list[dict[str, Any]]:
    """The last value for all that follows, and the values of one season before."""
    values = [_known(row[2]) for row in before]
    last = next((value for value in reversed(values) if value is not None), None)
    if last is None or not now:
        return []
    found: list[dict[str, Any]] = [{"name": LAST, "style": "quiet", "x": list(now), "y": [last] * len(now)}]
    if period and 1 < period <= len(values):
        season = values[-period:]
        found.append(
            {"name": SEASON, "style": "quiet", "x": list(now), "y": [season[i % period] for i in range(len(now))]}
        )
    return found


def _with_gaps(
    times: Sequence[float], values: Sequence[Any]
) -> tuple[list[tuple[float, float | None]], list[tuple[float, float]]]:
    """The points of what was measured, None where nothing was; and from where to where that goes."""
    steps = [b - a for a, b in pairwise(times) if b > a]
    usual = statistics.median(steps) if steps else 0.0
    points: list[tuple[float, float | None]] = []
    for time, value in zip(times, values, strict=True):
        if points and usual and time - points[-1][0] > MISSING * usual:
            points.append((points[-1][0] + usual, None))
        points.append((time, _known(value)))
    known = [i for i, (_, value) in enumerate(points) if value is not None]
    gaps = [(points[a][0], points[b][0]) for a, b in pairwise(known) if b > a + 1]
    return points, gaps


def _known(value: Any) -> float | None:
    return float(value) if numbers.known(value) and math.isfinite(value) else None


def _by_series(rows: Iterable[Sequence[Any]]) -> dict[str, list[Sequence[Any]]]:
    found: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(row[1], []).append(row)
    return found


def _are_numbers(texts: Sequence[str]) -> bool:
    try:
        list(map(float, texts))
    except ValueError:
        return False
    return True


def _places(texts: list[str], style: str) -> list[Any]:
    """Where times stand on the axis: numbers, ISO dates, dates as `style` has them, else one after the other."""
    for read in (float, datetime.fromisoformat, lambda text: datetime.strptime(text.strip(), style)):
        try:
            return [read(text) for text in texts]
        except ValueError:
            continue
    return list(range(len(texts)))
