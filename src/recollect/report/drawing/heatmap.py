"""A grid of numbers as a picture: stronger where they are larger, with a scale that says how much that is."""

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from ...core import numbers
from .svg import fitted, picture, tag, width, words

HUE = (46, 120, 200)  # reads on light and on dark paper
LARGEST_CELL, TALLEST = 34.0, 560.0
LONGEST = 125.0  # of the slanted names


def draw(chart: dict[str, Any], wide: float) -> str:
    """A map, `wide` pixels across: cells are square where they can be."""
    values = chart["values"]
    down, across = len(values), max((len(row) for row in values), default=0)
    known = [value for row in values for value in row if numbers.known(value)]
    if not known:
        nothing = words(0, 20, "nothing was measured", "soft")
        return picture(nothing, width=wide, height=30, title=chart["title"], description="nothing was measured")
    low, high = min([0.0, *known]), max(known)
    high = high if high > low else low + 1
    rows, columns = chart.get("rows"), chart.get("columns")
    left = 30.0 + (min(0.3 * wide, max((width(name) for name in rows), default=0.0)) if rows else width(str(down)))
    lean = max((min(LONGEST, width(name)) for name in columns[-2:]), default=0.0) * 0.57 if columns else 0.0
    cell_x = min(LARGEST_CELL, (wide - left - 10 - lean) / across)
    cell_y = min(max(cell_x, 13.0 if rows and down <= 40 else 0.5), TALLEST / down)
    top = 12.0 + (_slanted(columns) if columns else 18.0)
    right, bottom = left + cell_x * across, top + cell_y * down
    place = {"x": left, "y": top, "width": cell_x * across, "height": cell_y * down}
    parts = [
        tag("image", href=png(values, low, high), preserveAspectRatio="none", **place),
        tag("rect", **place, class_="frame"),
        *_beside(rows, down, left, top, cell_y),
        *_above(columns, across, left, top, cell_x),
        words((left + right) / 2, bottom + 18, fitted(chart["x"], wide - 20), "soft", "middle"),
        words(12, (top + bottom) / 2, fitted(chart["y"], max(80.0, bottom - top)), "soft", "middle", turn=-90),
    ]
    y = bottom + 34
    names = numbers.short(low), numbers.short(high)
    ramp = png([[i / 63 for i in range(64)]], 0, 1)
    x = left + width(names[0]) + 8
    parts += [
        words(left, y + 9, names[0], "soft"),
        tag("image", href=ramp, x=x, y=y, width=120.0, height=10.0, preserveAspectRatio="none"),
        tag("rect", x=x, y=y, width=120.0, height=10.0, class_="frame"),
        words(x + 128, y + 9, names[1], "soft"),
    ]
    said = f"{down} rows, {across} columns, from {names[0]} to {names[1]}".replace(numbers.BLANK, " ")
    return picture(*parts, width=wide, height=y + 18, title=chart["title"], description=said)


def _slanted(columns: Sequence[str]) -> float:
    return min(110.0, max((width(name) for name in columns), default=0.0) * 0.8 + 10)


def _beside(rows: Sequence[str] | None, down: int, left: float, top: float, cell: float) -> list[str]:
    every = max(1, -(-13 // max(1, round(cell))))
    names = rows or [str(i + 1) for i in range(down)]
    return [
        words(left - 5, top + (i + 0.5) * cell + 4, fitted(names[i], left - 30), "word", "end")
        for i in range(0, down, every if rows else max(every, -(-down // 8)))
    ]


def _above(columns: Sequence[str] | None, across: int, left: float, top: float, cell: float) -> list[str]:
    every = max(1, -(-15 // max(1, round(cell))))
    if columns is None:
        every = max(-(-across // 8), -(-30 // max(1, round(cell))))
        return [words(left + (i + 0.5) * cell, top - 6, str(i + 1), "word", "middle") for i in range(0, across, every)]
    return [
        words(left + (i + 0.5) * cell + 3, top - 5, fitted(columns[i], LONGEST), turn=-55)
        for i in range(0, across, every)
    ]


def png(values: Sequence[Sequence[Any]], low: float, high: float) -> str:
    """The grid as an image of one pixel a cell, inside its own address: the larger a value, the less see-through."""
    across = max(len(row) for row in values)
    lines = bytearray()
    for row in values:
        lines.append(0)
        for value in [*row, *[None] * (across - len(row))]:
            seen = round(255 * (value - low) / (high - low)) if numbers.known(value) else 0
            lines += bytes((*HUE, max(0, min(255, seen))))
    header = struct.pack(">IIBBBBB", across, len(values), 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(lines), 9)), (b"IEND", b""))
    found = b"\x89PNG\r\n\x1a\n"
    for name, content in chunks:
        found += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return "data:image/png;base64," + base64.b64encode(found).decode()
