"""Long curves made short enough for a picture: least and greatest of each stretch stay, so that no peak is lost."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
LEAST = 1e-300  # that a logarithmic axis can show


def select(
    xs: Sequence[float], ys: Sequence[float], *, log_x: bool = False, log_y: bool = False
) -> tuple[Numbers, Numbers]:
    """The points that can be drawn, by x."""
    x, y = np.array(xs, dtype=np.float64), np.array(ys, dtype=np.float64)
    good = np.isfinite(x) & np.isfinite(y)
    if log_x:
        good &= x >= LEAST
    if log_y:
        good &= y >= LEAST
    x, y = x[good], y[good]
    if len(x) > 1 and (np.diff(x) < 0).any():  # a clock that was set back
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    return x, y


def smooth(ys: Numbers, share: float) -> Numbers:
    """A running mean in which each value counts `share` as much as the one after it; it starts at the first value."""
    if not 0 < share < 1 or len(ys) < 2:
        return ys
    found, mean, weight = np.empty_like(ys), 0.0, 0.0
    for i, value in enumerate(ys.tolist()):
        mean = share * mean + (1 - share) * value
        weight = share * weight + (1 - share)
        found[i] = mean / weight
    return found


def thin(x: Numbers, y: Numbers, most: int, *, log_x: bool = False) -> tuple[Numbers, Numbers]:
    """At most about `most` points: the first, the last, and of each stretch of x the least and the greatest."""
    if len(x) <= max(most, 4):
        return x, y
    places = np.log(x) if log_x else x
    low, high = float(places[0]), float(places[-1])
    stretches = max(1, (most - 2) // 2)
    if not high > low or not math.isfinite(high - low):
        kept = np.linspace(0, len(x) - 1, most).astype(np.int64)
        return x[kept], y[kept]
    number = np.minimum(((places - low) / (high - low) * stretches).astype(np.int64), stretches - 1)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    order = np.lexsort((y, number))  # by stretch, then by height
    ends = np.append(starts[1:], len(x)) - 1
    kept = np.unique(np.concatenate(([0, len(x) - 1], order[starts], order[ends])))
    return x[kept], y[kept]
