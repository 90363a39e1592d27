"""Curves and upright bars over a pair of axes, as SVG: names beside their curves, or below where room is short."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...core import numbers
from .colour import Keys
from .points import Point, Read, Series, describe, read
from .scale import Scale, apart, roomy, span
from .svg import SIZE, escape, fitted, mark, picture, style_classes, tag, width, words

ROOMY = 600  # below this, names stand under the chart
LINE = 17.0  # between two names
FEW = 14  # points of a curve that each get a mark


@dataclass(frozen=True)
class Frame:
    """Where the plot lies on its paper."""

    left: float
    right: float
    top: float
    bottom: float
    width: float


def draw(chart: dict[str, Any], wide: float, keys: Keys) -> str:
    """A chart of kind lines or bars, `wide` pixels across."""
    found = read(chart)
    bars = chart.get("kind") == "bars"
    named = [series.name for series in found.series] + ([chart["level_name"]] if _level(chart) is not None else [])
    beside = wide >= ROOMY
    values = found.heights() + ([chart["level"]] if _level(chart) is not None else [])
    log = bool(chart.get("log_y"))
    low, high = roomy(*span(values, log=log, zero=bars), log=log)
    height = max(200.0 if wide < ROOMY else 260.0, LINE * (len(named) + 1) if beside else 0.0)
    top = 30.0
    room = min(240.0, max((width(name) for name in named), default=0.0)) if beside else 0.0
    up = Scale(low, high, top + height, top, log)
    left = 12 + max(width(label) for _, label in up.ticks())
    frame = Frame(left, wide - (room + 40 if beside else 14), top, top + height, wide)
    along, ticks = _along(chart, found, frame, bars)
    parts = list(_axes(chart, frame, up, along, ticks))
    if _level(chart) is not None:
        y = up(chart["level"])
        parts.append(tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="level"))
    body = _bars if bars else _curves
    parts += body(found, along, up, keys)
    below = frame.bottom + 44
    if beside:
        parts += _names_beside(chart, found, frame, along, up, keys, room)
    else:
        rows, below = _names_below(chart, found, frame, keys, below)
        parts += rows
    if found.hidden:
        what = "point is" if found.hidden == 1 else "points are"
        parts.append(words(0, below + 16, f"{found.hidden} {what} not shown: not above 0", "soft"))
        below += LINE + 8
    return picture(*parts, width=wide, height=below, title=chart["title"], description=describe(found))


def _level(chart: dict[str, Any]) -> float | None:
    level = chart.get("level")
    shown = level is not None and numbers.known(level) and (level > 0 or not chart.get("log_y"))
    return level if shown else None


def upright(chart: dict[str, Any], wide: float) -> bool:
    """Whether the texts below upright bars would fit there."""
    places = read(chart).places
    room = (wide - (230 if wide >= ROOMY else 60)) / max(1, len(places or ()))
    return places is None or all(width(place) < room - 6 for place in places)


def _along(
    chart: dict[str, Any], found: Read, frame: Frame, bars: bool
) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    """The way along x, and what is written there."""
    if found.places is None and bars:
        xs = sorted(set(found.across()))
        found_at = {x: float(i) for i, x in enumerate(xs)}
        scale = Scale(-0.5, max(len(xs), 1) - 0.5, frame.left, frame.right)
        return lambda x: scale(found_at[x]), [(x, numbers.brief(x)) for x in xs]
    if found.places is not None:
        scale = Scale(-0.5, len(found.places) - 0.5, frame.left, frame.right)
        room = (frame.right - frame.left) / len(found.places)
        every = max(1, -(-max(round(width(place)) + 8 for place in found.places) // max(1, round(room))))
        every = min(every, -(-70 // max(1, round(room))))
        labels = [(float(i), fitted(p, room * every - 6)) for i, p in enumerate(found.places) if i % every == 0]
        return scale, labels
    log = bool(chart.get("log_x"))
    scale = Scale(*span(found.across(), log=log), frame.left + 8, frame.right - 8, log)
    whole = all(x == round(x) for x in found.across())
    return scale, scale.ticks(7 if frame.right - frame.left > 380 else 5, whole=whole)


def _axes(
    chart: dict[str, Any], frame: Frame, up: Scale, along: Callable[[float], float], ticks: list[tuple[float, str]]
) -> Iterator[str]:
    yield words(0, 14, fitted(chart["y"], frame.width), "soft")
    for value, label in up.ticks():
        y = up(value)
        yield tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="grid")
        yield words(frame.left - 6, y + 4, label, "soft", "end")
    yield tag("line", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom, class_="axis")
    for value, label in ticks:
        x = along(value)
        yield tag("line", x1=x, x2=x, y1=frame.bottom, y2=frame.bottom + 4, class_="axis")
        yield words(x, frame.bottom + 17, label, "soft", "middle")
    middle = (frame.left + frame.right) / 2
    yield words(middle, frame.bottom + 35, fitted(chart["x"], frame.width - 20), "soft", "middle")


def _curves(found: Read, along: Callable[[float], float], up: Scale, keys: Keys) -> Iterator[str]:
    for series in found.series:
        key = keys.of(series.name)
        for stretch in series.stretches():
            banded = [p for p in stretch if p.low is not None and p.high is not None and p.high > p.low]
            if len(banded) == len(stretch) > 1:
                there = " ".join(f"{along(p.x):.1f},{up(p.high):.1f}" for p in banded if p.high is not None)
                back = " ".join(f"{along(p.x):.1f},{up(p.low):.1f}" for p in reversed(banded) if p.low is not None)
                yield tag("polygon", points=f"{there} {back}", class_=f"band {style_classes(key)}")
            else:
                yield from (_whisker(along(p.x), p, up, f"reach {style_classes(key)}") for p in banded)
            if len(stretch) > 1:
                path = " ".join(f"{along(p.x):.1f},{up(p.y):.1f}" for p in stretch if p.y is not None)
                yield tag("polyline", points=path, class_=f"line {style_classes(key)}")
    for series in found.series:
        shown = series.shown
        lone = {id(stretch[0]) for stretch in series.stretches() if len(stretch) == 1}
        for p in shown:
            if p.y is not None and (len(shown) <= FEW or id(p) in lone or p is shown[-1]):
                yield mark(along(p.x), up(p.y), keys.of(series.name), f"{series.name}: {numbers.short(p.y)}")


def _bars(found: Read, along: Callable[[float], float], up: Scale, keys: Keys) -> Iterator[str]:
    at = sorted({along(x) for x in found.across()})
    slot = min((b - a for a, b in itertools.pairwise(at)), default=120.0)
    each = min(46.0, slot * 0.8 / max(1, len(found.series)))
    foot = up(max(up.low, 0.0) if not up.log else up.low)
    for i, series in enumerate(found.series):
        key = keys.of(series.name)
        for p in series.shown:
            assert p.y is not None
            x = along(p.x) + (i - len(found.series) / 2) * each
            y = up(p.y)
            title = tag("title", escape(f"{series.name}: {numbers.short(p.y)}"))
            wide = max(each - 2, 1.0)
            box = {"x": x + 1, "y": min(y, foot), "width": wide, "height": abs(foot - y)}
            yield tag("rect", title, **box, class_=f"bar {style_classes(key)}")
            yield _whisker(x + each / 2, p, up, "whisker")


def _whisker(x: float, point: Point, up: Scale, class_: str) -> str:
    """The range over seeds of one value."""
    if point.low is None or point.high is None or point.high <= point.low:
        return ""
    return tag("line", x1=x, x2=x, y1=up(point.low), y2=up(point.high), class_=class_)


def _swatch(x: float, y: float, key: int, bars: bool) -> str:
    if bars:
        return tag("rect", x=x + 5, y=y - 5, width=10.0, height=10.0, class_=f"bar {style_classes(key)}")
    return tag("line", x1=x, x2=x + 20, y1=y, y2=y, class_=f"line {style_classes(key)}") + mark(x + 10, y, key)


def _dashes(x: float, y: float) -> str:
    return tag("line", x1=x, x2=x + 20, y1=y, y2=y, class_="level")


def _names_beside(
    chart: dict[str, Any],
    found: Read,
    frame: Frame,
    along: Callable[[float], float],
    up: Scale,
    keys: Keys,
    room: float,
) -> Iterator[str]:
    """At the height at which each curve ends, moved apart where they would lie on each other."""
    ends = [series.shown[-1] if series.shown else None for series in found.series]
    wanted = [up(end.y) if end and end.y is not None else frame.bottom for end in ends]
    level = _level(chart)
    if level is not None:
        wanted.append(up(level))
    places = apart(wanted, LINE, frame.top, frame.bottom)
    x = frame.right + 8
    for series, end, place in zip(found.series, ends, places, strict=False):
        key = keys.of(series.name)
        yield _swatch(x, place, key, chart.get("kind") == "bars") + _name(x + 26, place, series, room)
        if chart.get("kind") != "bars" and end and end.y is not None and along(end.x) > frame.right - 14:
            line = f"{along(end.x) + 4:.1f},{up(end.y):.1f} {x:.1f},{place:.1f}"
            yield tag("polyline", points=line, class_=f"lead {style_classes(key)}")
    if level is not None:
        yield _dashes(x, places[-1]) + words(x + 26, places[-1] + 4, fitted(chart["level_name"], room), "soft")


def _name(x: float, y: float, series: Series, room: float) -> str:
    text = fitted(series.name, room)
    return words(x, y + 4, text if series.shown else fitted(f"{series.name}: none", room))


def _names_below(chart: dict[str, Any], found: Read, frame: Frame, keys: Keys, top: float) -> tuple[list[str], float]:
    """In rows, as many as are needed; says where they end."""
    parts, x, y = [], 0.0, top + 10
    entries: list[tuple[str, int | None]] = [(series.name, keys.of(series.name)) for series in found.series]
    if _level(chart) is not None:
        entries.append((chart["level_name"], None))
    for name, key in entries:
        text = fitted(name, frame.width - 30)
        needed = 26 + width(text) + 14
        if x and x + needed - 14 > frame.width:
            x, y = 0.0, y + LINE + 2
        parts += [
            _dashes(x, y) if key is None else _swatch(x, y, key, chart.get("kind") == "bars"),
            words(x + 26, y + 4, text),
        ]
        x += needed
    return parts, y + 10 + SIZE / 2
