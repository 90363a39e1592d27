"""A grid of numbers as a picture: stronger where they are farther from 0, with a scale that says how much that is.

What lies above 0 is blue, what lies below it is orange; a map without numbers below 0 is blue alone.
"""

from collections.abc import Sequence
from typing import Any

from ...core import numbers
from ...core.language import localize
from .colour import SIGNS
from .pixels import png
from .svg import fitted, picture, tag, width, words, wrapped

LARGEST_CELL, TALLEST = 34.0, 560.0
LONGEST = 125.0  # of the slanted names
LINE = 16.0


def draw(chart: dict[str, Any], wide: float) -> str:
    """A map, `wide` pixels across: cells are square where they can be."""
    values = chart["values"]
    down, across = len(values), max((len(row) for row in values), default=0)
    if not any(numbers.known(value) for row in values for value in row):
        nothing = localize("nothing was measured")
        return picture(words(0, 20, nothing, "soft"), width=wide, height=30, title=chart["title"], description=nothing)
    low, high = limits(chart)
    rows, columns = chart.get("rows"), chart.get("columns")
    left = 31.0 + (min(0.3 * wide, max((width(name) for name in rows), default=0.0)) if rows else width(str(down)))
    longest = max((min(LONGEST, width(name)) for name in columns), default=0.0) if columns else 0.0
    flat = columns is None or longest <= min(LARGEST_CELL, (wide - left - 10) / across) - 1 or longest < 14
    lean = 0.0 if flat or not columns else max(min(LONGEST, width(name)) for name in columns[-2:]) * 0.57
    cell_x = min(LARGEST_CELL, (wide - left - 10 - lean) / across)
    cell_y = min(max(cell_x, 13.0 if rows and down <= 40 else 0.5), max(TALLEST, 13.0 * down if rows else 0.0) / down)
    top = 18.0 if flat else 12.0 + min(110.0, longest * 0.8 + 10)
    right, bottom = left + cell_x * across, top + cell_y * down
    place = {"x": left, "y": top, "width": cell_x * across, "height": cell_y * down}
    parts = [
        tag("image", href=png(_shades(values, low, high)), preserveAspectRatio="none", **place),
        tag("rect", **place, class_="frame"),
        *_beside(rows, down, left, top, cell_y),
        *_above(columns, across, left, top, cell_x, flat),
        words(12, (top + bottom) / 2, fitted(chart["y"], max(80.0, bottom - top)), "soft", "middle", turn=-90),
    ]
    y = bottom + 4
    for line in wrapped(chart["x"], wide - 20) if chart["x"] else ():
        y += LINE
        half = width(line) / 2
        parts.append(words(min(max((left + right) / 2, half), wide - half), y, line, "soft", "middle"))
    drawn, foot = scale_bar(low, high, chart.get("unit") or "", min(left, max(0.0, wide - 240)), y + 12, wide)
    parts += drawn
    said = f"{down} rows, {across} columns, on a scale from {numbers.short(low)} to {numbers.short(high)}"
    said = localize(said.replace(numbers.BLANK, " "))
    return picture(*parts, width=wide, height=foot, title=chart["title"], description=said)


def limits(*charts: dict[str, Any]) -> tuple[float, float]:
    """What the scale of maps goes from and to: as declared, at least from 0, and as far below 0 as above it."""
    known = [value for chart in charts for row in chart["values"] for value in row if numbers.known(value)]
    declared = [chart[key] for chart in charts for key in ("low", "high") if numbers.known(chart.get(key))]
    low, high = min([0.0, *known, *declared]), max([0.0, *known, *declared])
    if low < 0:
        low, high = -max(-low, high), max(-low, high)
    return low, high if high > low else low + 1


def scale_bar(low: float, high: float, unit: str, x: float, y: float, wide: float) -> tuple[list[str], float]:
    """The scale with its two ends and what is counted, and where it ends below."""
    ends = numbers.short(low).replace("-", "−"), numbers.short(high)
    ramp = [[low + (high - low) * i / 63 for i in range(64)]]
    at = x + width(ends[0]) + 8
    place = {"x": at, "y": y, "width": 120.0, "height": 10.0}
    after = at + 128 + width(ends[1]) + 8
    parts = [
        words(x, y + 9, ends[0], "soft"),
        tag("image", href=png(_shades(ramp, low, high)), preserveAspectRatio="none", **place),
        tag("rect", **place, class_="frame scale"),
        words(at + 128, y + 9, ends[1], "soft"),
    ]
    if low < 0:
        parts.append(tag("line", x1=at + 60, x2=at + 60, y1=y - 2, y2=y + 12, class_="axis"))
    lines = wrapped(unit, wide - after) if unit and wide - after > 90 else []
    if unit and not lines:
        lines, after, y = wrapped(unit, wide - x), x, y + LINE
    parts += [words(after, y + 9 + LINE * i, line, "soft") for i, line in enumerate(lines)]
    return parts, y + 18 + LINE * max(0, len(lines) - 1)


def _beside(rows: Sequence[str] | None, down: int, left: float, top: float, cell: float) -> list[str]:
    every = -(-13 // max(1, int(cell)))
    names = rows or [str(i + 1) for i in range(down)]
    return [
        words(left - 5, top + (i + 0.5) * cell + 4, fitted(names[i], left - 30.5), "word", "end")
        for i in range(0, down, every if rows else max(every, -(-down // 8)))
    ]


def _above(columns: Sequence[str] | None, across: int, left: float, top: float, cell: float, flat: bool) -> list[str]:
    if columns is None or flat:
        named = columns or [str(i + 1) for i in range(across)]
        widest = max(width(name) for name in named)
        every = max(1 if columns else -(-across // 8), -(-round(widest + 2) // max(1, int(cell))))
        return [words(left + (i + 0.5) * cell, top - 6, named[i], "word", "middle") for i in range(0, across, every)]
    every = -(-16 // max(1, int(cell)))
    return [
        words(left + (i + 0.5) * cell + 3, top - 5, fitted(columns[i], LONGEST), turn=-55)
        for i in range(0, across, every)
    ]


def _shades(values: Sequence[Sequence[Any]], low: float, high: float) -> list[list[tuple[int, int, int, int]]]:
    """A pixel for each cell: the farther a value is from 0, the less see-through."""
    across = max(len(row) for row in values)
    return [[shade(value, low, high) for value in [*row, *[None] * (across - len(row))]] for row in values]


def shade(value: Any, low: float, high: float) -> tuple[int, int, int, int]:
    """Red, green, blue and how much is seen of it, each up to 255."""
    if not numbers.known(value):
        return (*SIGNS["above"], 0)
    most = max(-low, high)
    seen = min(255, round(255 * abs(value) / most))
    return (*SIGNS["below" if value < 0 else "above"], seen)
