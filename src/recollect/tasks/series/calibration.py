"""Split conformal calibration: how far an interval must reach to hold its share of what comes, by horizon.

The score of an error is its size in units of the distance that the model gives to that end of its interval. The
interval then reaches as many distances as the quantile of the scores on validation says. Windows overlap, so that
their errors repeat each other: h points ahead only every h-th counts as one of its own, and where too few of these
are there no interval is given. Widths never shrink with the horizon, since what is further ahead is not better known:
where quantiles fall, their mean is taken, but for what an earlier one surely needs.
"""

import math

import numpy as np

MISSES = 2  # that are expected beyond an interval among windows that do not overlap, at the least
SMALLEST = float(np.finfo(np.float32).tiny)  # multiplier: 0 would be no calibration
SURE = 2  # standard errors of a share by which a quantile may lie lower


def windows_needed(level: float) -> int:
    """Windows that do not overlap from which an interval can be calibrated."""
    return math.ceil(round(MISSES / (1 - level), 6))


def calibrate(scores: np.ndarray, counts: np.ndarray, level: float) -> np.ndarray:
    """The multiplier of each horizon and series (H C) from scores (N H C) where they count; NaN where too few do."""
    order = np.sort(np.where(counts, scores.astype(np.float64), np.inf), axis=0)
    usable = counts.sum(axis=0)  # H C
    apart = usable // np.arange(1, scores.shape[1] + 1)[:, None]  # windows that do not overlap
    share = np.minimum(np.ceil(np.round(level * (apart + 1), 9)) / np.maximum(apart, 1), 1)
    found = np.where(apart < windows_needed(level), np.nan, quantile(order, usable, share))
    doubt = SURE * np.sqrt(level * (1 - level) / np.maximum(apart, 1))
    least = np.where(np.isnan(found), -np.inf, quantile(order, usable, np.maximum(share - doubt, 0)))
    flat = np.stack([never_falling(own) for own in found.T], axis=1)
    return np.maximum(np.maximum(flat, np.maximum.accumulate(least, axis=0)), SMALLEST)


def quantile(order: np.ndarray, usable: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The score below which a share of the usable ones lies (H C), from sorted ones (N H C)."""
    place = np.maximum(np.ceil(np.round(share * usable, 9)).astype(int), 1) - 1
    return np.take_along_axis(order, place[None], axis=0)[0]


def never_falling(values: np.ndarray) -> np.ndarray:
    """The nearest values, by squares, that never fall (pools of adjacent violators); NaN stays where it is."""
    pools: list[list[float]] = []  # sum and number
    for value in values[np.isfinite(values)]:
        pools.append([float(value), 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, number = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += number
    found = values.copy()
    found[np.isfinite(values)] = [total / number for total, number in pools for _ in range(int(number))]
    return found


def explain_missing(first: int, level: float) -> str:
    """Why there is no interval from the `first` point ahead on."""
    from_there = "no intervals" if first == 1 else f"no intervals from {first:,} points ahead on"
    return (
        f"{from_there}: to calibrate them at {level:.0%} takes {windows_needed(level)} windows of validation that do "
        "not overlap, and there are fewer; give more rows, a larger valid_share, a shorter horizon or a lower level"
    )


def explain_uncalibrated(bare: bool) -> str:
    """Why intervals are not given, or are the model's own, by a run that was stopped before its first validation."""
    own = "no intervals" if bare else "intervals are the model's own, not calibrated"
    return f"{own}: the run was stopped before its first validation, which calibrates them; go on with --resume"
