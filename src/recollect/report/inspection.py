"""The figure of an inspection: the charts of one run on a page, or those of several runs side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core import numbers
from ..core.language import localize
from .drawing import heatmap, svg
from .drawing.looks import Keys
from .drawing.panel import compose

Chart = dict[str, Any]
WIDE = 980.0  # pixels of a page of charts
ALONE_WIDE = 620.0  # of one chart by itself
EACH = 430.0  # and of each run, beside others
ALONE = 1  # rows of what one run alone has
MANY = 20  # columns of a map that take a row of the page alone


@dataclass(frozen=True)
class Inspected:
    """What an instrument found in one run: its charts as JSON, and the picture that a gaze is drawn over."""

    name: str
    model: str
    charts: Sequence[Chart]
    inputs: Sequence[str] = ()


def draw(what: str, runs: Sequence[Inspected], *, given: bool = False) -> str:
    """One composed panel as SVG; `given`: whether all runs were given one text, picture or sound."""
    if len(runs) == 1:
        title = f"{localize(_sentence(what))}: {_label(runs[0], runs)}"
        grid = arrange([_titled(chart) for chart in runs[0].charts])
        alone = len(grid) == 1 and len(grid[0]) == 1 and not _is_wide(grid[0][0])
        return compose(title, grid, ALONE_WIDE if alone else WIDE, Keys())
    title = f"{localize(_sentence(what))}: {', '.join(_label(run, runs) for run in runs)}"
    wide = max(WIDE, EACH * len(runs))
    return compose(title, arrange(merge(runs)), wide, Keys(), describe_inputs(runs, given=given))


def describe_inputs(runs: Sequence[Inspected], *, given: bool = False) -> str:
    """Whether the runs read the same."""
    read = {tuple(run.inputs) for run in runs}
    if len(read) > 1 and given:
        return "All were given the same; inputs differ where a run cuts it up otherwise, or reads what it wrote itself."
    if len(read) > 1:
        return "The inputs differ: each run reads rows of its own data; --text gives all of them the same."
    shown = " ".join(next(iter(read))) if read else ""
    return f"The same input for all: {svg.fitted(shown, 600)}" if shown else ""


def arrange(charts: Sequence[Chart | Sequence[Chart]]) -> list[list[Chart]]:
    """Rows of the page: what belongs together in one, wide maps by themselves, other charts two by two."""
    grid: list[list[Chart]] = []
    room = 0
    for chart in charts:
        if not isinstance(chart, dict):
            grid.append(list(chart))
            room = 0
        elif room and not _is_wide(chart):
            grid[-1].append(chart)
            room -= 1
        else:
            grid.append([chart])
            room = 0 if _is_wide(chart) else 1
    return grid


def _is_wide(chart: Chart) -> bool:
    return "panels" in chart or ("values" in chart and max(map(len, chart["values"]), default=0) > MANY)


def merge(runs: Sequence[Inspected]) -> list[Chart | list[Chart]]:
    """The charts of several runs by what they show: curves of all in one chart, or a chart of each on one scale.

    Of what one run alone has, the first stands there: that the others have nothing of the kind is a finding too.
    """
    grouped = [_by_group(run.charts) for run in runs]
    found: list[Chart | list[Chart]] = []
    alone = 0
    for group in dict.fromkeys(group for own in grouped for group in own):
        there = [own.get(group) for own in grouped]
        have = [chart for chart in there if chart is not None]
        alone += len(have) == 1
        if len(have) == 1 and alone > ALONE:
            continue
        if all("lines" in chart and len(chart["lines"]) == 1 for chart in have) and len(have) > 1:
            found.append(_joined(runs, there))
        else:
            found.append(_side_by_side(runs, there))
    return found


def _joined(runs: Sequence[Inspected], charts: Sequence[Chart | None]) -> Chart:
    """One chart with the one curve of each run, which looks like its model."""
    lines = [
        chart["lines"][0] | {"name": _label(run, runs), "model": run.model}
        for run, chart in zip(runs, charts, strict=True)
        if chart is not None
    ]
    have = [chart for chart in charts if chart is not None]
    levels = {chart.get("level") for chart in have}
    one = _titled(have[0])
    return one | {"lines": lines, "level": one.get("level") if len(levels) == 1 else None}


def _side_by_side(runs: Sequence[Inspected], charts: Sequence[Chart | None]) -> list[Chart]:
    """A chart of each run, those that count the same on one scale."""
    have = [chart for chart in charts if chart is not None]
    return [
        _titled(chart) | _shared_scale(chart, have) | {"title": f"{_label(run, runs)}: {localize(chart['title'])}"}
        if chart is not None
        else {"title": _label(run, runs), "panels": _nothing}
        for run, chart in zip(runs, charts, strict=True)
    ]


def _shared_scale(chart: Chart, charts: Sequence[Chart]) -> Chart:
    """What gives a chart the scale of all that count the same."""
    if "values" in chart:
        low, high = heatmap.limits(*(c for c in charts if "values" in c and c.get("unit") == chart.get("unit")))
        return {"low": low, "high": high}
    if chart.get("kind", "lines") != "lines":
        return {}
    like = [c for c in charts if "lines" in c and c["y"] == chart["y"]]
    seen = [v for c in like for line in c["lines"] for side in ("y", "low", "high") for v in line.get(side) or ()]
    ends = [value for value in seen if numbers.known(value)]
    log = any(c.get("log_y") for c in like) and all(value > 0 for value in ends)
    return {"range": (min(ends), max(ends)), "log_y": log} if ends else {}


def _nothing(wide: float) -> str:
    text = localize("this memory has nothing of the kind")
    return svg.picture(svg.words(0, 20, text, "soft"), width=wide, height=30, title=text, description=text)


def _by_group(charts: Sequence[Chart]) -> dict[tuple[str, int], Chart]:
    """Each chart under its group (else its title) and its place in that group."""
    found: dict[tuple[str, int], Chart] = {}
    for chart in charts:
        group = str(chart.get("group") or chart["title"])
        place = sum(name == group for name, _ in found)
        found[group, place] = chart
    return found


def _label(run: Inspected, runs: Sequence[Inspected]) -> str:
    """The model's name, with the run's where several runs are of one model."""
    alone = sum(other.model == run.model for other in runs) == 1
    return run.model if alone and len(runs) > 1 else f"{run.model} ({run.name})" if run.model != run.name else run.name


def _titled(chart: Chart) -> Chart:
    return chart | {"title": _sentence(chart["title"])}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
