"""What a chart holds, read once for all who draw it: points in order, gaps where nothing was measured."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...core import numbers
from ...core.language import localize

LEAST = 1e-300  # that a logarithmic axis can show: there is room for ticks below


class Point(NamedTuple):
    x: float
    y: float | None  # None: a gap
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Series:
    name: str
    points: list[Point]

    @property
    def shown(self) -> list[Point]:
        return [point for point in self.points if point.y is not None]

    def stretches(self) -> list[list[Point]]:
        """Points between gaps."""
        found: list[list[Point]] = [[]]
        for point in self.points:
            if point.y is None:
                found.append([])
            else:
                found[-1].append(point)
        return [stretch for stretch in found if stretch]


@dataclass(frozen=True)
class Read:
    """A chart's series; `places` are the texts along x, if it has texts there, which then counts 0, 1, 2, …"""

    series: list[Series]
    places: list[str] | None
    hidden: int  # points that a logarithmic axis cannot show

    def across(self) -> list[float]:
        return [point.x for series in self.series for point in series.shown]

    def heights(self) -> list[float]:
        points = [point for series in self.series for point in series.shown]
        return [v for point in points for v in (point.y, point.low, point.high) if v is not None]


def read(chart: dict[str, Any]) -> Read:
    given = [line["x"] for line in chart["lines"]]
    places = None
    if any(isinstance(x, str) for xs in given for x in xs):
        places = list(dict.fromkeys(str(x) for xs in given for x in xs))
    log_x, log_y = chart.get("log_x", False) and places is None, chart.get("log_y", False)
    hidden = 0

    def number(value: Any, log: bool) -> float | None:
        nonlocal hidden
        if not numbers.known(value):
            return None
        if log and value < LEAST:
            hidden += 1
            return None
        return float(value)

    found = []
    for line in chart["lines"]:
        points = []
        for i, (x, y) in enumerate(zip(line["x"], line["y"], strict=True)):
            at = float(places.index(str(x))) if places else number(x, log_x)
            y = number(y, log_y)
            low, high = (line[side][i] if line.get(side) else None for side in ("low", "high"))
            if at is not None:
                points.append(Point(at, y, *(_end(value, log_y) if y is not None else None for value in (low, high))))
        found.append(Series(str(line["name"]), points))
    return Read(found, places, hidden)


def _end(value: Any, log: bool) -> float | None:
    """An end of a range, where the axis can show it."""
    return float(value) if numbers.known(value) and not (log and value < LEAST) else None


def describe(read: Read) -> str:
    """The chart in words: where each series starts and ends."""
    parts = []
    for series in read.series:
        ys = [point.y for point in series.shown if point.y is not None]
        name = series.name or "value"
        if not ys:
            parts.append(localize(f"{name}: not measured"))
        elif len(ys) == 1:
            parts.append(f"{name}: {numbers.short(ys[0])}")
        else:
            parts.append(localize(f"{name}: from {numbers.short(ys[0])} to {numbers.short(ys[-1])}"))
    return "; ".join(parts).replace(numbers.BLANK, " ")
