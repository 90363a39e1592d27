"""The same charts and maps as files, through matplotlib: PNG, SVG and PDF."""

from typing import Any

from ...core import numbers
from . import figure
from .colour import INKS, SERIES
from .points import Read, read

MARKERS = "osD^"
FEW = 14  # points of a curve that each get a mark


def draw(chart: dict[str, Any], path: str) -> None:
    figure.check_path(path)
    names = figure.families(texts(chart))
    page = _map(chart, names) if "values" in chart else _chart(chart, read(chart), names)
    figure.save(page, path)


def texts(chart: dict[str, Any]) -> list[str]:
    """Everything that is written in a chart: its fonts must have the glyphs."""
    found = [chart["title"], chart["x"], chart["y"], chart.get("level_name") or ""]
    found += [*(chart.get("rows") or []), *(chart.get("columns") or [])]
    for line in chart.get("lines", []):
        found += [str(line["name"]), *(x for x in line["x"] if isinstance(x, str))]
    return found


def _chart(chart: dict[str, Any], found: Read, names: list[str]) -> Any:
    page, axes = figure.canvas(7.2, 4.2)
    (_bars if chart.get("kind") == "bars" else _curves)(axes, found)
    plain = {"fontfamily": names, "parse_math": False}  # a word with two $ in it is no formula
    if chart.get("log_x") and found.places is None:
        axes.set_xscale("log")
        seen = sorted({x for line in chart["lines"] for x in line["x"]})
        if len(seen) <= 8:  # what was measured reads better than powers of ten
            axes.set_xticks(seen, [f"{x:,g}" for x in seen])
            axes.set_xticks([], minor=True)
    if chart.get("log_y"):
        axes.set_yscale("log")
    if numbers.known(chart.get("level")):
        axes.axhline(chart["level"], color=INKS["soft"][0], linestyle="--", linewidth=1, label=chart["level_name"])
    if found.places is not None:
        long = sum(map(len, found.places)) > 60
        turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if long else {}
        axes.set_xticks(range(len(found.places)), found.places, **turned, **plain)
    axes.set_title(chart["title"], loc="left", fontsize=11, **plain)
    axes.set_xlabel(chart["x"], **plain)
    axes.set_ylabel(chart["y"], **plain)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=INKS["grid"][0], linewidth=0.8)
    axes.set_axisbelow(True)
    handles, labels = axes.get_legend_handles_labels()
    if handles and (len(handles) > 1 or labels[0]):
        legend = page.legend(
            handles, labels, loc="outside right upper", frameon=False, prop={"family": names, "size": 9}
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    return page


def _style(i: int) -> dict[str, Any]:
    again = i >= len(SERIES)
    return {"color": SERIES[i % len(SERIES)][0], "marker": MARKERS[i % len(MARKERS)]} | (
        {"linestyle": "--", "markerfacecolor": "white"} if again else {}
    )


def _curves(axes: Any, found: Read) -> None:
    for i, series in enumerate(found.series):
        style = _style(i)
        stretches = series.stretches() or [[]]
        for j, stretch in enumerate(stretches):
            many = len(series.shown) > FEW and len(stretch) > 1
            xs, ys = [point.x for point in stretch], [point.y for point in stretch]
            marks = {"markevery": [len(xs) - 1]} if many else {}
            axes.plot(
                xs, ys, linewidth=1.6, markersize=4.5, label=(series.name if j == 0 else f"_{i}"), **style, **marks
            )
            ends = [(p.x, p.low, p.high) for p in stretch if p.low is not None and p.high is not None]
            if len(ends) > 1:
                axes.fill_between(*zip(*ends, strict=True), color=style["color"], alpha=0.15, linewidth=0)
            for x, low, high in ends[:1] if len(ends) == 1 else []:
                axes.vlines(x, low, high, color=style["color"], linewidth=1.6)


def _bars(axes: Any, found: Read) -> None:
    if found.places is None:
        xs = sorted(set(found.across()))
        axes.set_xticks(range(len(xs)), [numbers.brief(x) for x in xs])
        place = {x: float(i) for i, x in enumerate(xs)}
    else:
        place = {float(i): float(i) for i in range(len(found.places))}
    each = 0.8 / max(1, len(found.series))
    for i, series in enumerate(found.series):
        colour = SERIES[i % len(SERIES)][0]
        at = [place[p.x] + (i + 0.5) * each - 0.4 for p in series.shown]
        hatch = {"hatch": "////", "edgecolor": "white"} if i >= len(SERIES) else {}
        axes.bar(at, [p.y for p in series.shown], width=each * 0.92, color=colour, label=series.name, **hatch)
        for x, p in zip(at, series.shown, strict=True):
            if p.low is not None and p.high is not None:
                axes.vlines(x, p.low, p.high, color=INKS["ink"][0], linewidth=1.2)


def _map(chart: dict[str, Any], names: list[str]) -> Any:
    values = [[value if numbers.known(value) else float("nan") for value in row] for row in chart["values"]]
    known = [value for row in values for value in row if numbers.known(value)]
    if not known:
        raise figure.FigureError(f"{chart['title']}: expected a grid with numbers in it, found none")
    down, across = len(values), max(len(row) for row in values)
    page, axes = figure.canvas(min(14, 3.6 + 0.3 * across), min(12, 2.2 + 0.3 * down))
    shape = "auto" if max(down, across) > 40 else "equal"
    place = (0.5, across + 0.5, down + 0.5, 0.5)  # cells are counted from 1
    seen = axes.imshow(values, cmap="Greys", vmin=min([0.0, *known]), aspect=shape, extent=place)
    plain = {"fontfamily": names, "parse_math": False}
    if chart.get("columns"):
        axes.set_xticks(
            range(1, across + 1), chart["columns"], rotation=55, ha="right", rotation_mode="anchor", **plain
        )
    if chart.get("rows"):
        axes.set_yticks(range(1, down + 1), chart["rows"], **plain)
    page.suptitle(chart["title"], x=0.02, ha="left", fontsize=11, wrap=True, **plain)
    axes.set_xlabel(chart["x"], **plain)
    axes.set_ylabel(chart["y"], **plain)
    page.colorbar(seen, ax=axes, shrink=0.8)
    return page
