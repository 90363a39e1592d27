"""What an instrument found: sentences, numbers, and pictures as data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.chart import Chart, Map


@dataclass(frozen=True, kw_only=True)
class Reading:
    """`summary` says it in words, a line each; `figures` has every number; the first of the `charts` shows the most.

    `picture` is what a gaze lies over: H W 3, from 0 to 255. `notes` are about the data.
    """

    summary: Sequence[str]
    figures: dict[str, Any] = field(default_factory=dict)
    charts: Sequence[Chart | Map] = ()
    picture: Any = None
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        content = {"summary": list(self.summary), **self.figures, "charts": [chart.to_json() for chart in self.charts]}
        return finite(content)


def finite(content: Any) -> Any:
    """The same with null where a number is none that JSON has."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {str(name): finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return content


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the straight line that lies nearest to the points, by least squares; NaN for fewer than two."""
    if len(x) < 2:
        return math.nan
    a, b = sum(x) / len(x), sum(y) / len(y)
    return sum((u - a) * (v - b) for u, v in zip(x, y, strict=True)) / sum((u - a) ** 2 for u in x)
