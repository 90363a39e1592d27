"""The metric of a heat: its place in a row, which direction is better, and how its values are written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import floor, log10
from typing import Any, Literal

from . import numbers

MOST_DIGITS = 7  # behind the decimal point
TIE = 0.005  # of a share, or of the winner's figure: a smaller difference is a tie


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The figure by which a heat ranks its entries: its place in a row, its direction, and how it is written.

    The unit `share` is written in percent, and a difference between shares in points. `rule` says how the figure is
    computed where that is not the task's own rule.
    """

    name: str
    label: str
    place: tuple[str, ...] = ("metric", "value")
    better: Literal["higher", "lower"] = "lower"
    unit: str = ""
    rule: str = ""
    digits: int = 3  # behind the decimal point

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Metric":
        """From race.json."""
        name = str(given.get("name") or "value")
        return cls(
            name=name,
            label=str(given.get("label") or name),
            better="lower" if given.get("better") == "lower" else "higher",
            unit=str(given.get("unit") or ""),
        )

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "label": self.label, "better": self.better, "unit": self.unit}

    def of(self, row: Mapping[str, Any]) -> float:
        """The value in a row."""
        found: Any = row
        for key in self.place:
            found = found[key]
        return float(found)

    @property
    def sign(self) -> int:
        """1 where more is better, −1 where less is."""
        return 1 if self.better == "higher" else -1

    @property
    def factor(self) -> float:
        """From a value to the number that is written."""
        return 100.0 if self.unit == "share" else 1.0

    @property
    def symbol(self) -> str:
        """What is written behind the number."""
        return "%" if self.unit == "share" else self.unit

    @property
    def axis(self) -> str:
        return f"{self.label}, {self.symbol}" if self.symbol else self.label

    def fit_digits(self, values: Iterable[float]) -> "Metric":
        """The metric with digits that serve all of these; where less is better, two of the least are shown."""
        found = [self.factor * value for value in values]
        digits = min(numbers.decimals(found), 2) if self.unit == "share" else numbers.decimals(found)
        least = min((value for value in found if value > 0), default=1.0)
        if self.better == "lower":
            digits = max(digits, min(MOST_DIGITS, 1 - floor(log10(least))))
        return replace(self, digits=digits)

    def is_tie(self, one: float, other: float) -> bool:
        """Whether two means are too near to name a winner."""
        return abs(one - other) < TIE * (1.0 if self.unit == "share" else abs(one)) or one == other

    def write(self, number: Any, *, sign: bool = False) -> str:
        """A value with its unit."""
        text = numbers.fixed(self.factor * number if numbers.known(number) else None, self.digits, sign=sign)
        return f"{text}{numbers.BLANK}{self.symbol}" if self.symbol and text != numbers.MISSING else text

    def write_range(self, low: float, high: float) -> str:
        return f"{numbers.fixed(self.factor * low, self.digits)} to {self.write(high)}"

    def write_difference(self, number: float, *, sign: bool = False) -> str:
        text = self.write(number, sign=sign)
        return text.replace("%", "points") if self.unit == "share" else text

    def write_differences(self, low: float, high: float) -> str:
        """A range of differences."""
        return f"{numbers.fixed(self.factor * low, self.digits, sign=True)} to {self.write_difference(high, sign=True)}"

    def write_cell(self, value: float) -> str:
        """A value in the terminal's table: three digits, of small errors in powers of ten."""
        if self.unit == "share":
            return f"{100 * value:.1f} %"
        small = self.better == "lower" and 0 < abs(value) < 0.01
        return f"{value:.2e}" if small else f"{value:.3f}"
