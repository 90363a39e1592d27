"""Charts as data: measured values and labels of axes, drawn by `report`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Line:
    """One curve (or one group of bars): y over x, with the range over seeds where there are several."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float | None]  # None: not measured there
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Chart:
    """Curves or bars over one pair of axes. A text as x makes places beside each other, in the order given."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    kind: Literal["lines", "bars"] = "lines"
    log_x: bool = False
    log_y: bool = False
    level: float | None = None  # a line across: chance, a baseline
    level_name: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Map:
    """A grid of numbers, dark where they are large: rows from top to bottom."""

    title: str
    x: str
    y: str
    values: Sequence[Sequence[float]]
    columns: Sequence[str] | None = None
    rows: Sequence[str] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
