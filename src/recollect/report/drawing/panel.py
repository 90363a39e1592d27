"""Several charts composed into one figure: rows of parts under their titles, one legend for those that share names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.language import language, localize
from . import curves, heatmap, rows
from .looks import Keys
from .svg import BOLD, escape, picture, tag, words, wrapped

Chart = dict[str, Any]
TEXTS = ("title", "x", "y", "unit", "level_name")  # of a chart, that are shown
GAP, HEAD = 26.0, 14.0  # between parts; size of the letters of a part's title
TITLE = 17.0  # and of the whole


@dataclass(frozen=True)
class Part:
    """A drawn chart with the lines of its title, at its place."""

    title: list[str]
    drawn: str
    width: float
    height: float

    @property
    def tall(self) -> float:
        return (HEAD + 5) * len(self.title) + (7 if self.title else 0) + self.height


def draw(chart: Chart, wide: float, keys: Keys, *, names: bool = True) -> str:
    """One chart or map without its title, as SVG."""
    if "panels" in chart:
        return chart["panels"](wide)
    keys = keys.of_chart(chart)
    chart = localized(chart, keys)
    if "values" in chart:
        return heatmap.draw(chart, wide)
    kind = chart.get("kind", "lines")
    if kind == "dots" or (kind == "bars" and not curves.upright(chart, wide)):
        return rows.draw(chart, wide, keys)
    return curves.draw(chart, wide, keys, names=names)


def localized(chart: Chart, keys: Keys) -> Chart:
    """A chart in the language of the reader, whose lines look as they do in English.

    What a chart lists under `kept` is from data: `names` (of its lines, and texts along x), or its `title`.
    """
    if language() == "en":
        return chart
    kept = chart.get("kept", ())
    found = chart | {key: localize(chart[key]) for key in TEXTS if chart.get(key) and key not in kept}
    if levels := chart.get("levels"):
        found["levels"] = [(localize(name), value) for name, value in levels]
    if spans := chart.get("spans"):
        found["spans"] = [(start, end, localize(text)) for start, end, text in spans]
    if "lines" in chart:
        found["lines"] = [_localized_line(line, keys, kept) for line in chart["lines"]]
    return found


def _localized_line(line: Chart, keys: Keys, kept: Sequence[str]) -> Chart:
    found = line | ({"said": localize(line["said"])} if "said" in line else {})
    if "names" in kept:
        return found
    name = localize(str(line["name"]))
    keys.names.setdefault(name, keys.of(str(line["name"])))
    places = [place for place in line["x"] if isinstance(place, str)]
    for place in places:
        if place in keys:
            keys.names.setdefault(localize(place), keys.of(place))
    return found | {"name": name, "x": [localize(x) for x in places] if places else line["x"]}


def legend(charts: Sequence[Chart], wide: float, keys: Keys) -> str:
    """The names that charts share, once, in the language of the reader."""
    return curves.legend([localized(chart, keys) for chart in charts], wide, keys)


def size(drawn: str) -> tuple[float, float]:
    """Width and height of a drawn SVG."""
    wide, high = drawn.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()
    return float(wide), float(high)


def part(chart: Chart, wide: float, keys: Keys, *, names: bool = True, title: bool = True) -> Part:
    drawn = draw(chart, wide, keys, names=names)
    name = chart["title"] if "title" in chart.get("kept", ()) else localize(chart["title"])
    return Part(wrapped(name, wide, HEAD * BOLD) if title and name else [], drawn, *size(drawn))


def compose(title: str, grid: Sequence[Sequence[Chart]], wide: float, keys: Keys | None = None, note: str = "") -> str:
    """Rows of charts under one title, each row over the whole width; a row whose charts share names has one legend."""
    keys = Keys() if keys is None else keys
    title, note = localize(title), localize(note)
    inside: list[str] = []
    y = 0.0
    for line in wrapped(title, wide, TITLE * BOLD) if title else ():
        y += TITLE + 5
        inside.append(tag("text", escape(line), x=0.0, y=y - 4, class_="strong", font_size=TITLE))
    for line in wrapped(note, wide) if note else ():
        y += 17
        inside.append(words(0, y, line, "soft"))
    y += 12 if title or note else 0
    for row in grid:
        each = (wide - GAP * (len(row) - 1)) / max(1, len(row))
        shared = share_names(row)
        drawn = [part(chart, each, keys, names=not shared) for chart in row]
        head = max(((HEAD + 5) * len(one.title) + (7 if one.title else 0) for one in drawn), default=0.0)
        for i, one in enumerate(drawn):
            x = i * (each + GAP)
            inside += [
                tag("text", escape(line), x=x, y=y + HEAD + (HEAD + 5) * j, class_="strong", font_size=HEAD)
                for j, line in enumerate(one.title)
            ]
            inside.append(one.drawn.replace("<svg ", f'<svg x="{x:.1f}" y="{y + head:.1f}" ', 1))
        y += head + max((one.height for one in drawn), default=0.0)
        if shared:
            names = legend(row, wide, keys.of_chart(row[0]))
            inside.append(names.replace("<svg ", f'<svg x="0" y="{y + 2:.1f}" ', 1))
            y += size(names)[1] + 2
        y += GAP
    described = "; ".join(localize(chart["title"]) for row in grid for chart in row)
    return picture(*inside, width=wide, height=max(y - GAP, 1.0) + 4, title=title, description=described)


def share_names(charts: Sequence[Chart]) -> bool:
    """Whether charts stand side by side with the same curves, so that one legend serves."""
    named = [tuple(line["name"] for line in chart.get("lines") or ()) for chart in charts]
    curved = all("lines" in chart and chart.get("kind", "lines") == "lines" for chart in charts)
    return len(charts) > 1 and curved and len(set(named)) == 1 and len(named[0]) > 1
