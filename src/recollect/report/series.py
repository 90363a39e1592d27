"""A forecast as a figure: what was measured, what is expected, and between which bounds."""

import warnings
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

SUFFIXES = (".png", ".svg", ".pdf")
MOST = 12  # series in one figure
WIDE_FONTS = ("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "SimHei", "PingFang SC")


def plot(
    history: Iterable[Sequence[Any]], forecast: Iterable[Sequence[Any]], path: str | Path, style: str = "iso"
) -> list[str]:
    """Draw rows (time, series, value) and (time, series, mean, lower, upper, …) into a file; returns notes.

    Times are numbers, ISO dates, or dates in a `style` of strftime.
    One panel for each series that is forecast, the first 12 of them. The suffix says the format: .png, .svg or .pdf.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: expected a figure's name to end in {', '.join(SUFFIXES)}, found {path.suffix!r}")
    past, ahead = _by_series(history), _by_series(forecast)
    if not ahead:
        raise ValueError(f"{path}: expected a forecast to draw, found no rows")
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(ahead)[:MOST]
    notes = [] if len(ahead) <= MOST else [f"the figure shows {MOST} of {len(ahead)} series"]
    installed = set(font_manager.get_font_names())
    families = ["DejaVu Sans", *(font for font in WIDE_FONTS if font in installed)]
    with matplotlib.rc_context({"font.family": families, "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("error", message="Glyph .* missing")
        try:
            _draw(Figure, FigureCanvasAgg, names, past, ahead, path, style)
        except UserWarning as missing:
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            _draw(Figure, FigureCanvasAgg, names, past, ahead, path, style)
            notes.append(f"no font here has every letter ({missing}); install Noto Sans CJK")
    return notes


def _by_series(rows: Iterable[Sequence[Any]]) -> dict[str, list[Sequence[Any]]]:
    found: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(row[1], []).append(row)
    return found


def _draw(figure_of: Any, canvas_of: Any, names: list[str], past: Any, ahead: Any, path: Path, style: str) -> None:
    figure = figure_of(figsize=(9, 1 + 2.2 * len(names)), layout="constrained")
    canvas_of(figure)
    panels = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    for panel, name in zip(panels, names, strict=True):
        rows, before = ahead[name], past.get(name, [])
        places = _places([row[0] for row in (*before, *rows)], style)
        then, now = places[: len(before)], places[len(before) :]
        panel.plot(then, [row[2] for row in before], color="0.25", linewidth=1, label="measured")
        bounded = [(t, row[3], row[4]) for t, row in zip(now, rows, strict=True) if row[3] is not None]
        if len(bounded) == 1:  # a band needs two points
            (time, *ends) = bounded[0]
            panel.plot([time, time], ends, color="C0", alpha=0.5, marker="_", markersize=9, label="interval")
        elif bounded:
            times, lower, upper = zip(*bounded, strict=True)
            panel.fill_between(times, lower, upper, color="C0", alpha=0.25, linewidth=0, label="interval")
        marker = "." if len(rows) == 1 else None
        panel.plot(now, [row[2] for row in rows], color="C0", linewidth=1.4, marker=marker, label="forecast")
        panel.set_title(name, loc="left", fontsize=10, parse_math=False)
        panel.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, ncols=3, loc="outside upper right")
    figure.savefig(path, dpi=120)


def _places(texts: list[str], style: str) -> list[Any]:
    """Where times stand on the axis: numbers, ISO dates, dates as `style` has them, else one after the other."""
    for read in (float, datetime.fromisoformat, lambda text: datetime.strptime(text.strip(), style)):
        try:
            return [read(text) for text in texts]
        except ValueError:
            continue
    return list(range(len(texts)))
