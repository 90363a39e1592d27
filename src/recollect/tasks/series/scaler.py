"""The scale of a series, taken from its training part: means, deviations, and the season that repeats in it."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...core import typed
from ...core.files import read_json, write_aside
from ...data.files import DataError
from .covariates import Covariates

SEASONS = 1_000  # the longest period that is looked for


@dataclass(frozen=True)
class Scaler:
    """The artifact of a run: mean and deviation of each column in the training part, and its season.

    `naive` is the mean absolute error of the seasonal naive forecast there, in scaled units: the unit of MASE; 0 in a
    column that never changes. `step` is the one of the table's times in words, where it has a column for them.
    """

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    naive: tuple[float, ...]
    period: int
    step: str | None = None
    covariates: Covariates = field(default_factory=Covariates)

    def shrink(self, values: np.ndarray) -> np.ndarray:
        """Raw → scaled; the last axis is the columns."""
        return (values - np.array(self.mean)) / np.array(self.deviation)

    def stretch(self, values: np.ndarray) -> np.ndarray:
        """Scaled → raw."""
        return values * np.array(self.deviation) + np.array(self.mean)

    def save(self, path: Path) -> None:
        write_aside(path, (json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> "Scaler":
        try:
            found = typed.read(read_json(path), cls)
            found.covariates.check()
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: expected a scaler in JSON, found something else ({error})") from error
        lists = (found.mean, found.deviation, found.naive)
        if not found.columns or not all(len(part) == len(found.columns) for part in lists):
            raise DataError(f"{path}: expected one entry for each column in every list of the scaler")
        if len(set(found.columns)) < len(found.columns):
            raise DataError(f"{path}: expected columns with different names in the scaler, found one twice")
        if min(found.deviation) <= 0 or min(found.naive) < 0:
            raise DataError(f"{path}: expected deviations above 0 and naive errors of at least 0 in the scaler")
        return found


def fit_scaler(
    columns: Sequence[str], train: np.ndarray, period: int | None, path: str, seen: np.ndarray | None = None
) -> tuple[Scaler, list[str]]:
    """The scale of the training part, of what was `seen` there alone; a constant column keeps its own."""
    counts = np.ones(train.shape, dtype=bool) if seen is None else seen
    for column, own in zip(columns, counts.T, strict=True):
        if not own.any():
            raise DataError(f"{path}: expected numbers of {column!r} in the training part, found none; give more rows")
    with np.errstate(all="ignore"):
        mean, deviation = train.mean(axis=0, where=_where(counts)), train.std(axis=0, where=_where(counts))
    wild = ~(np.isfinite(mean) & np.isfinite(deviation))
    if wild.any():
        column = columns[int(wild.argmax())]
        largest = float(np.abs(train[:, int(wild.argmax())]).max())
        raise DataError(
            f"{path}: expected numbers of a size that can be squared, found {largest:.3g} in {column!r}; mend it, or "
            "leave it empty if it is missing"
        )
    # what is left of a constant after rounding is no deviation
    still = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    notes = []
    if still.any():
        names = ", ".join(repr(column) for column, flat in zip(columns, still, strict=True) if flat)
        notes.append(f"{path}: constant in the training part, so left unscaled: {names}")
        deviation = np.where(still, 1.0, deviation)
    scaled = (train - mean) / deviation
    period = period or season(scaled)
    naive = np.zeros(len(columns))
    for lag in (min(period, len(scaled) - 1), 1):  # a season that repeats to the bit is no unit: then the last value's
        if 0 < lag < len(scaled):
            both = counts[lag:] & counts[:-lag]
            sums = np.abs(scaled[lag:] - scaled[:-lag]).sum(axis=0, where=_where(both))
            naive = np.where(naive > 0, naive, sums / np.maximum(both.sum(axis=0), 1))
    plain = tuple(mean.tolist()), tuple(deviation.tolist()), tuple(naive.tolist())
    return Scaler(tuple(columns), *plain, period), notes


def _where(counts: np.ndarray) -> Any:
    """As numpy's `where`: True if all counts, since it adds in another order where it must choose."""
    return True if counts.all() else counts


def season(values: np.ndarray) -> int:
    """The period of the strongest repetition, by autocorrelation with the trend taken out; 1 where there is none."""
    count = len(values)
    longest = min(SEASONS, count // 3)
    if longest < 3:
        return 1
    line = np.stack([np.ones(count), np.linspace(-1, 1, count)], axis=1)
    rest = values - line @ np.linalg.lstsq(line, values, rcond=None)[0]
    power = np.abs(np.fft.rfft(rest, 2 * count, axis=0)) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        lags = np.fft.irfft(power, axis=0)[: longest + 2]
        lags = np.nan_to_num(lags / lags[0]).mean(axis=1)
    lags = lags * count / (count - np.arange(len(lags)))  # fewer pairs lie far apart
    lows = np.minimum.accumulate(lags)
    # a season comes back after it went away: a peak must stand clear of what lies before it
    rise = max(0.1, 4 / math.sqrt(count))  # of hundreds of chance correlations the largest is about 3/√count
    peaks = [k for k in range(2, longest + 1) if lags[k - 1] < lags[k] >= lags[k + 1] and lags[k] > lows[k] + rise]
    if not peaks:
        return 1
    best = max(lags[k] for k in peaks)
    return 1 if best < rise else next(k for k in peaks if lags[k] >= 0.9 * best)
