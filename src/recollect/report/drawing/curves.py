"""Curves and upright bars over a pair of axes, as SVG: names beside their curves, or below where room is short."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...core import numbers
from ...core.language import localize
from .looks import Keys, Look
from .points import LEAST, Point, Read, Series, describe, read
from .scale import Scale, apart, roomy, span
from .svg import SIZE, escape, fitted, mark, picture, style_classes, tag, width, words, wrapped

ROOMY = 600  # below this, names stand under the chart
LINE = 17.0  # between two names
FEW = 14  # points of a curve that each get a mark
TOUCHING = 3.0  # pixels between curves that lie on each other
DEEPEST = 3  # curves under another that are each drawn wider


@dataclass(frozen=True)
class Frame:
    """Where the plot lies on its paper."""

    left: float
    right: float
    top: float
    bottom: float
    width: float


def draw(chart: dict[str, Any], wide: float, keys: Keys, *, names: bool = True) -> str:
    """A chart of kind lines or bars, `wide` pixels across; without `names` a legend elsewhere has them.

    Beside what `core.chart` declares, `range` is the least extent of the y axis and `tall` its least height, `ticks`
    are (x, text) pairs along x, `spans` are (from, to, text) along x where something is missing, and a line of `style`
    plain has no marks.
    """
    laid = _lay_out(chart, wide, names=names)
    found, frame, along, up = laid.found, laid.frame, laid.along, laid.up
    parts = laid.parts
    parts += _bars(found, along, up, keys) if laid.bars else _curves(chart, found, along, up, keys)
    titles, below = _title_below(chart, frame)
    parts += titles
    if laid.beside:
        parts += _names_beside(chart, found, frame, along, up, keys, laid.room)
    elif names:
        rows, below = _names_below(entries(chart, keys), frame.width, below, laid.bars)
        parts += rows
    if found.hidden:
        said = f"{found.hidden} {'point is' if found.hidden == 1 else 'points are'} not shown: not above 0"
        parts.append(words(0, below + 16, localize(said), "soft"))
        below += LINE + 8
    return picture(*parts, width=wide, height=below, title=chart["title"], description=describe(found))


def draw_frame(chart: dict[str, Any], wide: float) -> tuple[str, dict[str, Any]]:
    """A chart of kind lines without its curves, for whoever draws them as they grow; and where they go.

    Of the points of its lines only the extent counts. `x` and `y` of the second part are the ends of both scales, at
    the pixels `left` to `right` and `bottom` to `top`, by their logarithm where `log_x` and `log_y` say so.
    """
    laid = _lay_out(chart, wide, names=False)
    titles, below = _title_below(chart, laid.frame)
    drawn = picture(*laid.parts, *titles, width=wide, height=below, title=chart["title"], description=chart["title"])
    assert isinstance(laid.along, Scale)
    across, up, frame = laid.along, laid.up, laid.frame
    area = {
        "x": [across.low, across.high], "left": across.start, "right": across.end, "log_x": across.log,
        "y": [up.low, up.high], "bottom": up.start, "top": up.end, "log_y": up.log,
        "width": frame.width, "height": below,
    }  # fmt: skip
    return drawn, area


@dataclass(frozen=True)
class Layout:
    """A chart with its scales and axes, before anything is drawn between them."""

    found: Read
    frame: Frame
    along: Callable[[float], float]
    up: Scale
    bars: bool
    beside: bool  # names stand beside the curves
    room: float  # for them
    parts: list[str]


def _lay_out(chart: dict[str, Any], wide: float, *, names: bool) -> Layout:
    found = read(chart)
    bars = chart.get("kind") == "bars"
    level = _level(chart) is not None
    named = [series.name for series in found.series] + ([chart["level_name"]] if level else [])
    beside = wide >= ROOMY and names
    values = found.heights() + ([chart["level"]] if level else []) + list(chart.get("range") or ())
    log = bool(chart.get("log_y"))
    low, high = roomy(*span(values, log=log, zero=bars), log=log)
    height = max(200.0 if wide < ROOMY else 260.0, chart.get("tall", 0.0), LINE * (len(named) + 1) if beside else 0.0)
    title = wrapped(chart["y"], wide)
    top = 14 + LINE * len(title)
    room = min(240.0, max((width(name) for name in named), default=0.0)) if beside else 0.0
    up = Scale(low, high, top + height, top, log)
    left = 12 + max(width(label) for _, label in up.ticks())
    frame = Frame(left, wide - (room + 40 if beside else 14), top, top + height, wide)
    along, ticks = _along(chart, found, frame, bars)
    parts = [words(0, 14 + LINE * i, line, "soft") for i, line in enumerate(title)]
    parts += _spans(chart, frame, along)
    parts += _axes(frame, up, along, ticks)
    if level:
        y = up(chart["level"])
        parts.append(tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="level"))
    return Layout(found, frame, along, up, bars, beside, room, parts)


def _title_below(chart: dict[str, Any], frame: Frame) -> tuple[list[str], float]:
    """What the x axis shows, below it; says where that ends."""
    parts, below = [], frame.bottom + 18
    middle = (frame.left + frame.right) / 2
    for line in wrapped(chart["x"], frame.width - 20) if chart["x"] else ():
        below += LINE
        half = width(line) / 2
        parts.append(words(min(max(middle, half), frame.width - half), below, line, "soft", "middle"))
    return parts, below + 9


def legend(charts: Sequence[dict[str, Any]], wide: float, keys: Keys) -> str:
    """The names of several charts that share them, once."""
    named: dict[str, Look | None] = {}
    for chart in charts:
        named |= dict(entries(chart, keys))
    bars = all(chart.get("kind") == "bars" for chart in charts)
    parts, below = _names_below(list(named.items()), wide, 0.0, bars)
    return picture(*parts, width=wide, height=below, title=localize("Names"), description=", ".join(named))


def entries(chart: dict[str, Any], keys: Keys) -> list[tuple[str, Look | None]]:
    """What a legend of a chart names: its lines with their looks, and its level."""
    found: list[tuple[str, Look | None]] = [(str(line["name"]), keys.of(str(line["name"]))) for line in chart["lines"]]
    return [*found, *([(chart["level_name"], None)] if _level(chart) is not None else [])]


def _level(chart: dict[str, Any]) -> float | None:
    level = chart.get("level")
    shown = level is not None and numbers.known(level) and (level >= LEAST or not chart.get("log_y"))
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
    if chart.get("ticks") is not None:
        return scale, list(chart["ticks"])
    whole = all(x == round(x) for x in found.across())
    return scale, scale.ticks(7 if frame.right - frame.left > 380 else 5, whole=whole)


def _axes(frame: Frame, up: Scale, along: Callable[[float], float], ticks: list[tuple[float, str]]) -> Iterator[str]:
    for value, label in up.ticks():
        y = up(value)
        yield tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="grid")
        yield words(frame.left - 6, y + 4, label, "soft", "end")
    yield tag("line", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom, class_="axis")
    taken = -1.0
    for value, label in ticks:
        x, half = along(value), width(label) / 2
        yield tag("line", x1=x, x2=x, y1=frame.bottom, y2=frame.bottom + 4, class_="axis")
        middle = min(x, frame.width - half)
        if middle - half > taken:
            yield words(middle, frame.bottom + 17, label, "soft", "middle")
            taken = middle + half + 4


def _spans(chart: dict[str, Any], frame: Frame, along: Callable[[float], float]) -> Iterator[str]:
    """Stretches of x where something is missing, each with its text where there is room for it."""
    for start, end, text in chart.get("spans") or ():
        left, right = along(start), along(end)
        box = {"x": left, "y": frame.top, "width": max(right - left, 1.5), "height": frame.bottom - frame.top}
        yield tag("rect", tag("title", escape(text)), **box, class_="lost")
        if width(text) < right - left:
            yield words((left + right) / 2, frame.top + 14, text, "soft", "middle")


def _covers(found: Read, along: Callable[[float], float], up: Scale) -> list[list[set[float]]]:
    """For each series, of each later one, at what places it lies on it: what is below is drawn wider there."""
    drawn = [{round(along(p.x), 1): up(p.y) for p in series.shown if p.y is not None} for series in found.series]
    return [
        [{x for x, y in own.items() if abs(other.get(x, math.inf) - y) < TOUCHING} for other in drawn[i + 1 :]]
        for i, own in enumerate(drawn)
    ]


def _curves(
    chart: dict[str, Any], found: Read, along: Callable[[float], float], up: Scale, keys: Keys
) -> Iterator[str]:
    covers = _covers(found, along, up)
    styles = [str(line.get("style") or "") for line in chart["lines"]]
    for series, cover, style in zip(found.series, covers, styles, strict=True):
        key = keys.of(series.name)
        for stretch in series.stretches():
            for there, run in itertools.groupby(stretch, _has_range):
                if there:
                    yield _band(list(run), along, up, style_classes(key))
            places = [(along(p.x), up(p.y)) for p in stretch if p.y is not None]
            for deep, shared in _covered(places, cover):
                yield tag("polyline", points=_path(shared), class_=f"under{deep} {style_classes(key)}")
            if len(places) > 1:
                classes = f"line {style_classes(key)}" + (f" {style}" if style else "")
                yield tag("polyline", points=_path(places), class_=classes)
    for series, cover, style in zip(found.series, covers, styles, strict=True):
        shown = series.shown
        lone = {id(stretch[0]) for stretch in series.stretches() if len(stretch) == 1}
        for p in shown:
            few = (len(shown) <= FEW or p is shown[-1]) and style != "plain"
            if p.y is not None and (few or id(p) in lone):
                deep = min(DEEPEST, sum(round(along(p.x), 1) in places for places in cover))
                text = f"{series.name}: {numbers.short(p.y)}"
                yield mark(along(p.x), up(p.y), keys.of(series.name), text, 1 + 0.3 * deep)


def _has_range(point: Point) -> bool:
    return point.low is not None and point.high is not None and point.high > point.low


def _band(points: list[Point], along: Callable[[float], float], up: Scale, classes: str) -> str:
    """The range of neighbouring points, of a single one a whisker."""
    if len(points) == 1:
        return _whisker(along(points[0].x), points[0], up, f"reach {classes}")
    there = [(along(p.x), up(p.high)) for p in points if p.high is not None]
    back = [(along(p.x), up(p.low)) for p in reversed(points) if p.low is not None]
    return tag("polygon", points=_path([*there, *back]), class_=f"band {classes}")


def _covered(
    places: list[tuple[float, float]], cover: Sequence[set[float]]
) -> Iterator[tuple[int, list[tuple[float, float]]]]:
    """The stretches of a curve that lie under others, each with how many those are."""
    pairs = [
        (min(DEEPEST, sum({round(a[0], 1), round(b[0], 1)} <= there for there in cover)), a, b)
        for a, b in itertools.pairwise(places)
    ]
    for deep, run in itertools.groupby(pairs, lambda pair: pair[0]):
        joined = list(run)
        if deep:
            yield deep, [joined[0][1], *(b for _, _, b in joined)]


def _path(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


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


def _swatch(x: float, y: float, key: Look, bars: bool, *, marked: bool = True) -> str:
    if bars:
        return tag("rect", x=x + 5, y=y - 5, width=10.0, height=10.0, class_=f"bar {style_classes(key)}")
    return tag("line", x1=x, x2=x + 20, y1=y, y2=y, class_=f"line {style_classes(key)}") + (
        mark(x + 10, y, key) if marked else ""
    )


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
    plain = {str(line["name"]) for line in chart["lines"] if line.get("style") == "plain"}
    for series, end, place in zip(found.series, ends, places, strict=False):
        key = keys.of(series.name)
        marked = series.name not in plain
        yield _swatch(x, place, key, chart.get("kind") == "bars", marked=marked) + _name(x + 26, place, series, room)
        if chart.get("kind") != "bars" and end and end.y is not None and along(end.x) > frame.right - 14:
            line = f"{along(end.x) + 4:.1f},{up(end.y):.1f} {x:.1f},{place:.1f}"
            yield tag("polyline", points=line, class_=f"lead {style_classes(key)}")
    if level is not None:
        yield _dashes(x, places[-1]) + words(x + 26, places[-1] + 4, fitted(chart["level_name"], room), "soft")


def _name(x: float, y: float, series: Series, room: float) -> str:
    text = fitted(series.name, room)
    return words(x, y + 4, text if series.shown else fitted(localize(f"{series.name}: none"), room))


def _names_below(
    named: Sequence[tuple[str, Look | None]], wide: float, top: float, bars: bool
) -> tuple[list[str], float]:
    """In rows, as many as are needed; says where they end."""
    parts, x, y = [], 0.0, top + 10
    for name, look in named:
        text = fitted(name, wide - 30)
        needed = 26 + width(text) + 14
        if x and x + needed - 14 > wide:
            x, y = 0.0, y + LINE + 2
        parts += [_dashes(x, y) if look is None else _swatch(x, y, look, bars), words(x + 26, y + 4, text)]
        x += needed
    return parts, y + 10 + SIZE / 2
