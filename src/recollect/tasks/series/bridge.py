"""Gaps that end: how much the value after a gap tells of what lay in it, measured where nothing was missing.

A forecast from before a gap errs, and at the gap's end it is seen by how much. Where errors add up (a walk) that says
much of the errors inside, where each is its own (noise about a pattern) nothing. So both are measured: as if there were
gaps of that length at whole places of the table, the errors inside are predicted from the one at the end by least
squares, and the interval keeps the share of its width that then remains.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

PLACES = 128  # of a table at most, at which gaps of a length are tried
NOTHING = 1e-6  # of a deviation: errors below it are rounding


class Bridge(NamedTuple):
    """What is done in a gap (L C): NaN where too few places were whole."""

    weights: np.ndarray  # of the error at the end, taken from the forecast of each point
    shares: np.ndarray  # of the width of its interval that remain


def measure_bridges(
    lengths: Iterable[int],
    values: np.ndarray,
    start: int,
    forecast: Callable[[int, int], np.ndarray],
    *,
    level: float,
    needed: int,
    deviation: np.ndarray,
) -> dict[int, Bridge]:
    """A bridge for each length of gap, from `values` (N C, NaN where missing).

    `forecast` gives so many points (L C) from a row on, none before `start`. Errors are measured once for as
    many lengths as have enough whole places, the longest first.
    """
    found: dict[int, Bridge] = {}
    errors = np.empty((0, 0, values.shape[1]))
    for length in sorted(set(lengths), reverse=True):
        if not whole_windows(errors, length, needed).any():
            errors = measure_errors(values, start, length + 1, forecast)
        found[length] = fit_bridge(errors[:, : length + 1], level, needed, deviation)
    return found


def whole_windows(errors: np.ndarray, length: int, needed: int) -> np.ndarray:
    """Of which columns enough windows are whole up to the row after a gap."""
    if errors.shape[1] <= length:
        return np.zeros(errors.shape[2], dtype=bool)
    return np.isfinite(errors[:, : length + 1]).all(axis=1).sum(axis=0) >= needed


def measure_errors(
    values: np.ndarray, start: int, count: int, forecast: Callable[[int, int], np.ndarray]
) -> np.ndarray:
    """Errors of forecasts of `count` points, from places spread over the table: W count C; NaN where one is missing."""
    missing = np.cumsum(np.pad(np.isnan(values), ((1, 0), (0, 0))), axis=0)
    first = np.arange(start, max(start, len(values) - count + 1))
    whole = first[(missing[first + count] == missing[first]).any(axis=1)]
    places = whole[np.unique(np.linspace(0, len(whole) - 1, PLACES).astype(int))] if len(whole) else whole
    errors = [values[place : place + count] - forecast(int(place), count) for place in places]
    return np.stack(errors) if errors else np.empty((0, count, values.shape[1]))


def fit_bridge(errors: np.ndarray, level: float, needed: int, deviation: np.ndarray) -> Bridge:
    """The bridge of errors (W L+1 C) over a gap of L points."""
    length, columns = errors.shape[1] - 1, errors.shape[2]
    weights, shares = np.full((length, columns), np.nan), np.full((length, columns), np.nan)
    for column in range(columns):
        own = errors[:, :, column]
        own = own[np.isfinite(own).all(axis=1)]
        if len(own) < needed:
            continue
        inside, last = own[:, :-1], own[:, -1:]
        size = float(np.square(last).mean())
        if size <= (NOTHING * deviation[column]) ** 2:  # no error to learn from: as a walk has it
            weights[:, column] = np.arange(1, length + 1) / (length + 1)
            shares[:, column] = np.sqrt(1 - weights[:, column])
            continue
        weights[:, column] = (inside * last).mean(axis=0) / size
        left = np.quantile(np.abs(inside - last * weights[:, column]), level, axis=0)
        whole = np.quantile(np.abs(inside), level, axis=0)
        shares[:, column] = np.where(whole > 0, left / np.where(whole > 0, whole, 1), 1)
    return Bridge(weights, shares)
