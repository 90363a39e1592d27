"""Charts as data: measured values and labels of axes, drawn by `report`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NotRequired, TypedDict

from .typed import TypeMismatch, read


@dataclass(frozen=True)
class Line:
    """One curve (or one group of bars): y over x, with the range over seeds where there are several."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float | None]  # None: not measured there
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    model: str | None = None  # whose colour and mark it has


@dataclass(frozen=True)
class Chart:
    """Curves or bars over one pair of axes. A text as x makes places beside each other, in the order given.

    Charts of several runs that have the same `group` (else the same title) stand side by side.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    kind: Literal["lines", "bars"] = "lines"
    log_x: bool = False
    log_y: bool = False
    level: float | None = None  # a line across: chance, a baseline
    level_name: str = ""
    group: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Map:
    """A grid of numbers, stronger where they are farther from 0: rows from top to bottom.

    The scale goes at least from `low` to `high`, so that shares that are spread evenly stay pale; `unit` stands
    beside it.
    """

    title: str
    x: str
    y: str
    values: Sequence[Sequence[float]]
    columns: Sequence[str] | None = None
    rows: Sequence[str] | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    group: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


SHARES: dict[str, Any] = {"low": 0.0, "high": 1.0, "unit": "share of each row"}  # of maps whose rows sum to 1

# As they stand in files


class LineShape(TypedDict):
    name: str
    x: list[float | str]
    y: list[float | None]
    low: NotRequired[list[float | None] | None]
    high: NotRequired[list[float | None] | None]
    model: NotRequired[str | None]


class ChartShape(TypedDict):
    title: str
    x: str
    y: str
    lines: list[LineShape]
    kind: NotRequired[Literal["lines", "bars"]]
    log_x: NotRequired[bool]
    log_y: NotRequired[bool]
    level: NotRequired[float | None]
    level_name: NotRequired[str]
    group: NotRequired[str]


class MapShape(TypedDict):
    title: str
    x: str
    y: str
    values: list[list[float | None]]
    columns: NotRequired[list[str] | None]
    rows: NotRequired[list[str] | None]
    low: NotRequired[float | None]
    high: NotRequired[float | None]
    unit: NotRequired[str]
    group: NotRequired[str]


def check_chart(chart: Any, where: str) -> None:
    """Refuse what is no chart or map as `to_json` gives it, or one whose lists differ in length."""
    if isinstance(chart, dict) and "values" in chart:
        read(chart, MapShape, where)
        values = chart["values"]
        _check_lengths(where, columns=chart.get("columns"), expected=max(map(len, values), default=0))
        _check_lengths(where, rows=chart.get("rows"), expected=len(values))
        return
    read(chart, ChartShape, where)
    for number, line in enumerate(chart["lines"]):
        sides = {side: line.get(side) for side in ("y", "low", "high")}
        _check_lengths(f"{where}.lines[{number}]", **sides, expected=len(line["x"]))
    if len({isinstance(x, str) for line in chart["lines"] for x in line["x"]}) > 1:
        raise TypeMismatch(f"{where}.lines: expected numbers or texts as x, found both")
    if chart.get("level") is not None and "level_name" not in chart:
        raise TypeMismatch(f"{where}: expected level_name beside level, found none")


def _check_lengths(where: str, *, expected: int, **lists: Any) -> None:
    for name, values in lists.items():
        if values is not None and len(values) != expected:
            raise TypeMismatch(f"{where}.{name}: expected {expected:,} values, found {len(values):,}")
