"""How the figure of a heat is called and written: its unit, its digits, and which way is better."""

import math
from collections.abc import Iterable
from typing import Any

from ...core import numbers

MOST = 7  # digits behind the point
LEVEL = 0.005  # of a share, or of the winner's figure: less apart is level


class Metric:
    """From the dict that a race writes. Shares are shown in hundredths, and differences between them in points."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.name = str(given.get("name") or "value")
        self.label = str(given.get("label") or self.name)
        self.better = str(given.get("better") or "higher")
        unit = str(given.get("unit") or "")
        self.factor, self.unit = (100.0, "%") if unit == "share" else (1.0, unit)
        self.digits = 3

    def fit(self, values: Iterable[float]) -> None:
        """Choose digits that serve all of these; where less is better, two of the least are shown."""
        found = [self.factor * value for value in values]
        self.digits = numbers.decimals(found)
        least = min((value for value in found if value > 0), default=1.0)
        if self.better == "lower":
            self.digits = max(self.digits, min(MOST, 1 - math.floor(math.log10(least))))

    @property
    def sign(self) -> int:
        """1 where more is better, −1 where less is."""
        return 1 if self.better == "higher" else -1

    def level(self, one: float, other: float) -> bool:
        """Whether two means are too near to speak of a winner."""
        return abs(one - other) < LEVEL * (1.0 if self.unit == "%" else abs(one)) or one == other

    @property
    def axis(self) -> str:
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def value(self, number: Any, *, sign: bool = False) -> str:
        text = numbers.fixed(self.factor * number if numbers.known(number) else None, self.digits, sign=sign)
        return f"{text}{numbers.BLANK}{self.unit}" if self.unit and text != numbers.MISSING else text

    def step(self, number: float, *, sign: bool = False) -> str:
        """A difference."""
        text = self.value(number, sign=sign)
        return text.replace("%", "points") if self.unit == "%" else text

    def range(self, low: float, high: float) -> str:
        return f"{numbers.fixed(self.factor * low, self.digits)} to {self.value(high)}"

    def steps(self, low: float, high: float) -> str:
        """A range of differences."""
        return f"{numbers.fixed(self.factor * low, self.digits, sign=True)} to {self.step(high, sign=True)}"
