"""Curves of several runs as one chart: its axes drawn by the report's own code, its lines as points.

A page that has the axes already, and some of the lines, is sent those lines alone that grew since: the others are
named in `same`. Where a new point lies outside the axes, all is sent anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

import numpy as np

from ...core.settings import ContractError, check_settings
from ...report.drawing import chart as charts
from ...report.drawing.curves import draw_frame
from ...report.drawing.looks import KNOWN, Keys
from ...report.drawing.panel import localized
from ...report.drawing.svg import mark, style_classes, tag
from .curves import Curve
from .thinning import Numbers, select, smooth, thin
from .watch import Run

Axis = Literal["step", "tokens", "seconds", "flops"]
Figure = Literal["valid", "loss", "lr", "norm", "tokens_per_second", "memory"]
AXES = {"step": "steps", "tokens": "tokens learned from", "seconds": "seconds of training", "flops": "FLOPs"}
FIGURES = {
    "valid": "validation", "loss": "training loss", "lr": "learning rate", "norm": "norm of the gradient",
    "tokens_per_second": "tokens a second", "memory": "bytes of memory",
}  # fmt: skip
MOST_POINTS = 48_000  # of a chart
MOST_LINES = 1_000
FEW = 12  # lines that show what they are smoothed from
WIDEST = 2_000


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a page wants drawn: `rows` says for each run how many rows of its log the page has seen."""

    runs: list[str]
    x: Axis = "tokens"
    y: Figure = "valid"
    smooth: float = 0.0
    log_x: bool = False
    log_y: bool = False
    width: int = 860
    scale: str = ""
    rows: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 <= self.smooth < 1:
            raise ContractError(f"smooth: expected a share from 0 to below 1, found {self.smooth}")
        if not 200 <= self.width <= WIDEST:
            raise ContractError(f"width: expected 200 to {WIDEST:,} pixels, found {self.width:,}")
        if len(self.runs) > MOST_LINES:
            raise ContractError(f"runs: expected at most {MOST_LINES:,}, found {len(self.runs):,}")


Line = tuple[Numbers, Numbers]


def draw(asked: Asked, runs: Sequence[tuple[Run, Curve]]) -> dict[str, Any]:
    """What a page needs to show the chart, or to bring the one up to date that it has."""
    most = max(64, min(asked.width, MOST_POINTS // max(1, len(runs))))
    stamps = {run.id: f"{curve.restarts}.{curve.version}" for run, curve in runs}
    made: dict[str, tuple[Line, Line | None]] = {}

    def points(run: Run, curve: Curve) -> tuple[Line, Line | None]:
        if run.id not in made:
            made[run.id] = _points(asked, curve, most, raw=asked.smooth > 0 and len(runs) <= FEW)
        return made[run.id]

    extent = _extent(asked, [curve for _, curve in runs])
    svg, area = draw_frame(localized(_frame(asked, runs, extent), Keys()), asked.width)
    scale = sha256(repr((area, sorted(stamps), asked.smooth, asked.x, asked.y)).encode()).hexdigest()[:16]
    fresh = scale != asked.scale
    lines, same = [], []
    for run, curve in runs:
        if not fresh and asked.rows.get(run.id) == stamps[run.id]:
            same.append(run.id)
            continue
        (x, y), raw = points(run, curve)
        line = {"id": run.id, "rows": stamps[run.id], "x": _short(x), "y": _short(y)}
        if raw is not None:
            line["raw"] = [_short(raw[0]), _short(raw[1])]
        lines.append(line)
    found: dict[str, Any] = {"scale": scale, "lines": lines, "same": same}
    if fresh:
        found |= {"svg": svg, "area": area, "looks": looks([run for run, _ in runs])}
    return found


def _points(asked: Asked, curve: Curve, most: int, *, raw: bool) -> tuple[Line, Line | None]:
    columns = curve.columns
    x, y = select(columns[asked.x], columns[asked.y], log_x=asked.log_x, log_y=asked.log_y)
    smoothed = smooth(y, asked.smooth)
    return thin(x, smoothed, most, log_x=asked.log_x), thin(x, y, most, log_x=asked.log_x) if raw else None


def _extent(asked: Asked, curves: Sequence[Curve]) -> tuple[list[float], list[float]]:
    """The corners of what is drawn. The end of x has room to grow into, so that axes seldom change."""
    xs: list[float] = []
    ys: list[float] = []
    for curve in curves:
        x, y = select(curve.columns[asked.x], curve.columns[asked.y], log_x=asked.log_x, log_y=asked.log_y)
        if len(x):
            xs += [float(x[0]), float(x[-1])]
            ys += [float(y.min()), float(y.max())]
    return ([min(xs), max(xs)], [min(ys), max(ys)]) if xs else ([], [])


def _frame(asked: Asked, runs: Sequence[tuple[Run, Curve]], extent: tuple[list[float], list[float]]) -> dict[str, Any]:
    x, y = extent
    name = FIGURES[asked.y]
    if asked.y == "valid":
        metrics = sorted({run.metric.removeprefix("minus_") for run, _ in runs if run.metric})
        name = f"{name}: {metrics[0]}" if len(metrics) == 1 else name
        if metrics and all(run.metric and run.metric.startswith("minus_") for run, _ in runs):
            name += " (negative)"
    if x and not asked.log_x:
        x = [min(0.0, x[0]) if x[0] < 0.2 * x[1] else x[0], _round_up(x[0], x[1])]
    return {
        "title": FIGURES[asked.y], "x": AXES[asked.x], "y": name, "log_x": asked.log_x, "log_y": asked.log_y,
        "lines": [{"name": "", "x": x, "y": y}], "tall": 0.34 * asked.width if asked.width > 700 else 0.0,
    }  # fmt: skip


def _round_up(low: float, high: float) -> float:
    """The end of an axis, a little beyond the last point, at a round number: it stays for a while."""
    if not high > 0:
        return high
    step = 10 ** np.floor(np.log10(high)) / 4
    return float(np.ceil(high / step - 1e-9) * step)


def _short(values: Numbers) -> list[float]:
    """Numbers with six digits, which is more than a chart shows."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def looks(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """How each run is drawn, a swatch included: runs of one model look alike but for their marks and dashes."""
    models = sorted({run.model for run in runs})
    alone = len(models) == len(runs)
    keys = Keys()
    if alone or (len(models) > 1 and len(runs) <= FEW):
        keys = keys.of_chart({"lines": [{"name": run.id, "model": run.model} for run in runs]})
    else:
        keys.together([f"\0{run.id}" for run in runs])  # a name that is no model's
        keys.names |= {run.id: keys.names[f"\0{run.id}"] for run in runs}
    found = {}
    for run in runs:
        look = keys.of(run.id)
        classes = style_classes(look)
        drawn = tag("line", x1=0.0, x2=22.0, y1=7.0, y2=7.0, class_=f"line {classes}") + mark(11, 7, look)
        found[run.id] = {
            "classes": classes,
            "swatch": tag("svg", drawn, viewBox="0 0 22 14", width=22, height=14, class_="chart", aria_hidden="true"),
        }
    return found


def whole(asked: Asked, runs: Sequence[tuple[Run, Curve]]) -> str:
    """The chart as a file of SVG that stands alone."""
    most = max(64, min(asked.width, MOST_POINTS // max(1, len(runs))))
    lines = []
    for run, curve in runs:
        (x, y), _ = _points(asked, curve, most, raw=False)
        model = run.model if run.model in KNOWN else None
        lines.append({"name": run.id, "x": _short(x), "y": _short(y), "model": model, "style": "plain"})
    frame = _frame(asked, runs, ([], []))
    return charts.standalone(frame | {"lines": lines, "kept": ("names",)}, asked.width)


def differing_settings(configs: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The settings in which runs differ: name and value of each run, as config.json has them."""
    flat = {run: dict(_flatten({k: v for k, v in config.items() if k not in UNCOMPARED}))
            for run, config in configs.items()}  # fmt: skip
    names = list(dict.fromkeys(name for own in flat.values() for name in own))
    found = []
    for name in names:
        values = [own.get(name) for own in flat.values()]
        if any(value != values[0] for value in values[1:]):
            found.append({"name": name, "values": dict(zip(flat, values, strict=True))})
    return found


UNCOMPARED = ("format", "version", "corpus", "data_dir")


def _flatten(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        for key, own in value.items():
            yield from _flatten(own, f"{name}.{key}" if name else str(key))
    else:
        yield name, value
