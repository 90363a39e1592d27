"""From numbers to places on paper, and where an axis has its ticks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core import numbers

NICE = (1, 2, 2.5, 5, 10)
LEAST_STEP = 1e-300  # between two ticks


@dataclass(frozen=True)
class Scale:
    """Maps low … high onto start … end, evenly or by the logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int = 6, *, whole: bool = False) -> list[tuple[float, str]]:
        """At most about so many, each with what is written there."""
        if self.log:
            return log_ticks(self.low, self.high, most)
        return even_ticks(self.low, self.high, most, whole=whole)


def span(values: Iterable[float], *, log: bool = False, zero: bool = False) -> tuple[float, float]:
    """The least and the greatest, held apart where they are one."""
    found = [*values, *([0.0] if zero and not log else [])]
    low, high = (min(found), max(found)) if found else (1.0, 10.0) if log else (0.0, 1.0)
    if high > low:
        return low, high
    return (low / 2, high * 2) if log else (low - abs(low) * 0.1 - 0.05, high + abs(high) * 0.1 + 0.05)


def roomy(low: float, high: float, *, log: bool = False, most: int = 6) -> tuple[float, float]:
    """A little wider, out to the next tick, so that the first and the last line of a grid hold all points."""
    if log:
        slack = (math.log10(high) - math.log10(low)) * 0.04
        return low * 10**-slack, high * 10**slack
    step = nice_step(low, high, most)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def nice_step(low: float, high: float, most: int, nice: Sequence[float] = NICE) -> float:
    rough = max((high - low) / max(1, most - 1), LEAST_STEP)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in nice if step * power >= rough * (1 - 1e-9))


def even_ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[tuple[float, str]]:
    """At round numbers; at whole ones only, where there is nothing between them."""
    step = max(1.0, nice_step(low, high, most, (1, 2, 5, 10))) if whole else nice_step(low, high, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [i * step for i in range(first, last + 1)]
    return list(zip(values, numbers.ticks(values, step), strict=True))


def log_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Whole powers of ten, every second or third of them where there are many; 1, 2, 5 where there are few."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 2:
        every = -(-(last - first + 1) // most)
        values = [10.0**e for e in range(first, last + 1) if e % every == 0]
    else:
        some = [factor * 10.0**e for e in range(first - 1, last + 1) for factor in (1, 2, 5)]
        values = [value for value in some if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    if 2 <= len(values) <= most + 2:
        return [(value, numbers.ticks([value, values[-1], values[0]], min(1.0, value))[0]) for value in values]
    return [found for found in even_ticks(low, high, most) if found[0] > 0]


def apart(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near to those wanted as can be, in the same order, none nearer to another than `gap`."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [min(max(wanted[i], low), high) for i in order]
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + gap)
    bound = max(high, low + gap * (len(placed) - 1))
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], bound)
        bound = placed[i] - gap
    found = [0.0] * len(wanted)
    for place, i in zip(placed, order, strict=True):
        found[i] = place
    return found
