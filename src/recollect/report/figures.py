"""Charts of a race for print: any chart of its page by name, as wide as a column, in the font of the text."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..racing.summary import Summary, load, summarize
from .drawing import chart, figure
from .drawing.looks import Keys
from .pages import charts
from .pages.heat import share_looks, split_baselines

INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}  # points of TeX
NARROWEST, WIDEST = 1.0, 40.0
POINTS = 4.0, 40.0
DOTS = 300  # of an inch of a PNG
EDGE = 3.0  # pixels around a figure for print


def name_charts(heat: Summary) -> dict[str, dict[str, Any]]:
    """Every chart of a heat's page by name; those with nothing to show are left out."""
    near, _ = split_baselines(heat)
    learning, costs = charts.draw_learning(heat), charts.draw_costs(heat)
    several = {
        "results": [charts.draw_results(heat, near)] if heat.standings else [],
        "learning": [one for one in learning if one["x"] == charts.TOKENS],
        "learning-time": [one for one in learning if one["x"] != charts.TOKENS],
        "positions": charts.draw_positions(heat),
        "work": [one for one in costs if one["y"] == charts.WORK],
        "state": [one for one in costs if one["y"] != charts.WORK],
        "gradient": charts.draw_gradients(heat),
        "worth-of-state": charts.draw_worth_of_state(heat),
        "seen-and-written": charts.draw_seen_and_written(heat),
    }
    return {name: found[0] for name, found in several.items() if found}


def write(
    folder: Path,
    path: str,
    *,
    names: str = "results",
    heat: str | None = None,
    width: str = "6in",
    font: str | None = None,
    size: float = chart.POINTS,
) -> None:
    """Charts (names with commas between) of a race into a .pdf, .svg or .png: one without its title, several with."""
    figure.check_path(path)
    inches = parse_width(width)
    if not POINTS[0] <= size <= POINTS[1]:
        raise figure.FigureError(f"--font-size: expected {POINTS[0]:g} to {POINTS[1]:g} points, found {size:g}")
    heats = select_heats(folder, heat)
    found, keys = heats[0], Keys()
    share_looks(found, keys)
    every = name_charts(found)
    chosen = [every[_known("--chart", name.strip(), list(every))] for name in names.split(",")]
    if len(chosen) == 1:
        chosen = [chosen[0] | {"title": ""}]
    drawn = chart.compose([[one] for one in chosen], chart.print_width(inches, size), keys=keys)
    chart.save(drawn, path, inches=inches, font=font, pad=EDGE, dots=DOTS)


def select_heats(folder: Path, name: str | None) -> list[Summary]:
    """The heats of a race, or the one of this name."""
    heats = summarize(*load(folder))
    if name is None:
        return heats
    _known("--heat", name, [heat.name for heat in heats])
    return [heat for heat in heats if heat.name == name]


def parse_width(text: str) -> float:
    """Inches of `3.25in`, `84mm`, `8.4cm` or `240pt`."""
    found = re.fullmatch(r"([0-9]*\.?[0-9]+) ?(in|cm|mm|pt)", text.strip())
    inches = float(found[1]) * INCHES[found[2]] if found else 0.0
    if not NARROWEST <= inches <= WIDEST:
        raise figure.FigureError(
            f"--width: expected {NARROWEST:g} to {WIDEST:g} inches with their unit, such as 3.25in, 84mm or 240pt, "
            f"found {text[:40]!r}"
        )
    return inches


def _known(flag: str, name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise figure.FigureError(f"{flag}: expected one of {', '.join(names)}, found {name[:60]!r}{hint}")
