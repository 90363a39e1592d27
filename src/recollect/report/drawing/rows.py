"""Bars that lie, and dots with their range: a row for each name, which can be as long as it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...core import numbers
from ...core.language import localize
from .looks import Keys, Look
from .points import LEAST, describe, read
from .scale import Scale, roomy, span
from .svg import BOLD, SIZE, escape, fitted, mark, picture, style_classes, tag, width, words, wrapped

NARROW = 400  # below this, a name stands above its row
TIER = 15.0  # between the names of two levels
MANY = 10  # rows from which on they stand closer, so that a screen holds them


@dataclass(frozen=True)
class Row:
    name: str
    key: Look
    value: float | None
    low: float | None
    high: float | None
    seeds: list[float]
    heading: str = ""  # stands above the row: what a group of rows has in common


def draw(chart: dict[str, Any], wide: float, keys: Keys) -> str:
    """A chart of kind dots (one line a name, its seeds under `seeds`) or bars, `wide` pixels across."""
    rows, dots = _rows(chart, keys), chart.get("kind") == "dots"
    log = bool(chart.get("log_y")) and not dots
    levels = [(name, value) for name, value in _levels(chart) if numbers.known(value) and not (log and value < LEAST)]
    values = [v for row in rows for v in (row.value, row.low, row.high, *row.seeds) if v is not None]
    values += [value for _, value in levels]
    most = 6 if wide >= NARROW else 4
    low, high = roomy(*span(values, log=log, zero=not dots), log=log, most=most)
    above = wide < NARROW
    said = _end_labels(chart, rows)
    names = 0.0 if above else min(0.3 * wide, max((width(row.name) for row in rows), default=0.0)) + 12
    side = 8.0 if above else max((width(text) for text in said), default=0.0) + 14
    scale = Scale(low, high, names + 12, wide - side - 12, log)
    labels = _place_levels(levels, scale, wide)
    top = 8 + TIER * (max((label.tier for label in labels), default=-1) + 1)
    many = len(rows) > MANY
    pitch = (30.0 if many else 36.0) if above else (20.0 if many else 26.0)
    parts, bands, y = [], [], top + pitch / 2
    for row, text in zip(rows, said, strict=True):
        if row.heading:
            parts.append(words(0, y + 4, fitted(row.heading, wide, SIZE * BOLD), "strong"))
            y += 22
        parts += _row(row, text, scale, y, wide, names, above, dots)
        bands.append((y - 1, y + pitch / 2) if above else (y - pitch / 2, y + pitch / 2))
        y += pitch
    bottom = y - pitch / 2
    frame = list(_frame(scale, most, top, bottom))
    frame += _level_lines(labels, top, bands)
    title = wrapped(chart["x"] if dots else chart["y"], wide)
    middle = (scale.start + scale.end) / 2
    for i, line in enumerate(title):
        half = width(line) / 2
        parts.append(words(min(max(middle, half), wide - half), bottom + 34 + 16 * i, line, "soft", "middle"))
    height = bottom + 24 + 16 * len(title)
    return picture(*frame, *parts, width=wide, height=height, title=chart["title"], description=describe(read(chart)))


def _rows(chart: dict[str, Any], keys: Keys) -> list[Row]:
    found = read(chart)
    single = len(found.series) == 1
    rows = []
    if chart.get("kind") == "dots":
        for line, series in zip(chart["lines"], found.series, strict=True):
            point = series.points[0]
            seeds = [seed for seed in line.get("seeds") or [] if numbers.known(seed)]
            rows.append(Row(series.name, keys.of(series.name), point.y, point.low, point.high, seeds))
        return rows
    for i, place in enumerate(found.places or []):
        for j, series in enumerate(found.series):
            point = next((p for p in series.points if p.x == i), None)
            value, low, high = (point.y, point.low, point.high) if point else (None, None, None)
            name = place if single else series.name
            key = keys.of(place if single and place in keys else series.name)
            rows.append(Row(name, key, value, low, high, [], "" if single or j else place))
    return rows


def _end_labels(chart: dict[str, Any], rows: list[Row]) -> list[str]:
    """The number at the end of each row: as the chart's own lines say it, or with the same digits for all."""
    if chart.get("kind") == "dots" and all("said" in line for line in chart["lines"]):
        return [line["said"] for line in chart["lines"]]
    digits = numbers.decimals(row.value for row in rows)
    written = numbers.short if chart.get("log_y") else lambda value: numbers.fixed(value, digits)
    return [written(row.value) if row.value is not None else localize("no result") for row in rows]


def _levels(chart: dict[str, Any]) -> list[tuple[str, Any]]:
    single = [(chart.get("level_name", ""), chart["level"])] if chart.get("level") is not None else []
    return [*single, *chart.get("levels", [])]


@dataclass(frozen=True)
class Label:
    """The name of a level: it begins (or, at the right edge, ends) at its line, which is `x`, in row `tier` above."""

    text: str
    x: float
    tier: int
    flipped: bool

    @property
    def span(self) -> tuple[float, float]:
        wide = width(self.text) + 8
        return (self.x - wide, self.x) if self.flipped else (self.x, self.x + wide)

    def clashes(self, other: "Label") -> bool:
        """Whether the two names touch, or the line of one, which begins at its name, goes through the other name."""
        (a, b), (c, d) = self.span, other.span
        if self.tier == other.tier:
            return a < d and c < b
        lower, higher = sorted((self, other), key=lambda label: label.tier)
        return lower.span[0] < higher.x < lower.span[1]


def _place_levels(levels: list[tuple[str, float]], scale: Scale, wide: float) -> list[Label]:
    """Above the plot, in as many rows as it takes: no name touches another, and no line goes through a name."""
    placed: list[Label] = []
    for name, value in sorted(levels, key=lambda level: -level[1]):
        text, x = fitted(name, wide / 2), scale(value)
        sides = [x + width(text) + 8 > wide] * 2 if x < wide / 2 else [x + width(text) + 8 > wide, True]
        tries = [Label(text, x, tier, side) for tier in range(len(levels) + 1) for side in sides]
        placed.append(next((t for t in tries if not any(t.clashes(p) for p in placed)), tries[-1]))
    return placed


def _row(
    row: Row, text: str, scale: Scale, y: float, wide: float, names: float, above: bool, dots: bool
) -> Iterator[str]:
    if above:
        yield words(0, y - 7, fitted(row.name, wide - width(text) - 16), "over")
        yield words(wide, y - 7, text, "strong over" if row.value is not None else "soft over", "end")
        y += 7
    else:
        yield words(0, y + 4, fitted(row.name, names - 10))
        yield words(wide, y + 4, text, "strong over" if row.value is not None else "soft over", "end")
    if row.value is None:
        return
    tooltip = tag("title", escape(f"{row.name}: {text}"))
    if dots:
        yield tag("line", x1=scale.start, x2=scale.end, y1=y, y2=y, class_="grid")
    else:
        foot = scale(scale.low if scale.log else min(max(scale.low, 0.0), scale.high))
        x = scale(row.value)
        box = {"x": min(x, foot), "y": y - 6, "width": abs(x - foot), "height": 12.0}
        yield tag("rect", tooltip, **box, class_=f"bar {style_classes(row.key)}")
    if row.low is not None and row.high is not None and row.high > row.low:
        reach = f"reach {style_classes(row.key)}" if dots else "whisker"
        yield tag("line", x1=scale(row.low), x2=scale(row.high), y1=y, y2=y, class_=reach)
    if dots:
        if len(row.seeds) > 1:
            yield from (
                tag("circle", cx=scale(seed), cy=float(y), r=2.5, class_=f"seed {style_classes(row.key)}")
                for seed in row.seeds
            )
        yield mark(scale(row.value), y, row.key, f"{row.name}: {text}")


def _frame(scale: Scale, most: int, top: float, bottom: float) -> Iterator[str]:
    for value, label in scale.ticks(most):
        x = scale(value)
        yield tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid")
        yield words(x, bottom + 15, label, "soft", "middle")


def _level_lines(labels: list[Label], top: float, bands: list[tuple[float, float]]) -> Iterator[str]:
    """Through the marks of the rows, not through names that stand above them."""
    for label in labels:
        foot = top - 3 - TIER * label.tier
        stretches = [(foot, top), *bands]
        joined = [stretches[0]]
        for a, b in stretches[1:]:
            joined[-1:] = [(joined[-1][0], b)] if a <= joined[-1][1] + 0.5 else [joined[-1], (a, b)]
        yield from (tag("line", x1=label.x, x2=label.x, y1=a, y2=b, class_="level") for a, b in joined)
    for label in labels:
        x = label.x - 4 if label.flipped else label.x + 4
        yield words(x, top - 6 - TIER * label.tier, label.text, "soft", "end" if label.flipped else None)
