"""Forecasts from every origin of a table, as they would have been made then: each sees nothing after its origin."""

from dataclasses import dataclass

import numpy as np

from ...core.trained import Array
from ...data.files import DataError
from .covariates import count_known, read_beside
from .forecaster import Forecaster
from .settings import POINTS
from .tables.gaps import close_gaps, used_rows
from .tables.table import Table

TOGETHER = 64  # windows that go through a model at once


@dataclass(frozen=True)
class Backtest:
    """Forecasts of N origins, H points ahead, C columns, beside what came."""

    table: Table  # the rows that were used
    origins: tuple[int, ...]  # rows that were known at each
    times: tuple[str, ...]  # of the rows, and of those that follow
    mean: Array  # N H C
    lower: Array  # N H C; NaN where there is no interval
    upper: Array
    level: float  # share of what comes that the intervals are to hold
    notes: tuple[str, ...] = ()  # on how the table was read

    def came(self) -> Array:
        """What was measured where each forecast points: N H C, NaN where nothing was, or not yet."""
        values, horizon = self.table.values, self.mean.shape[1]
        padded = np.concatenate([values, np.full((horizon, values.shape[1]), np.nan)])
        return np.stack([padded[origin : origin + horizon] for origin in self.origins])


def backtest(forecaster: Forecaster, table: Table, horizon: int | None = None, most: int = 400) -> Backtest:
    """At most so many origins, the last row's among them, evenly spread from the first that has a look-back on.

    An origin's last row was measured in every series, so that a gap which is closed lies before it as a whole.
    """
    first, last = used_rows(table)
    used = table.part(first, last)
    values, _, notes = close_gaps(used, "linear")
    lookback, covariates = forecaster.lookback, forecaster.scaler.covariates
    if len(values) < lookback:
        raise DataError(
            f"{table.path}: expected at least {lookback:,} rows, the look-back of the run, found {len(values):,}; "
            "give more rows"
        )
    ahead = forecaster.horizon if horizon is None else horizon
    if not 1 <= ahead <= POINTS:
        raise DataError(f"backtest: expected a horizon of at least 1 and at most {POINTS:,}, found {ahead:,}")
    known = count_known(table, covariates, last) if covariates.known else ahead
    beside = read_beside(table.part(first, len(table.values)), covariates, last - first, min(ahead, known))
    end = len(values) - max(0, ahead - known)
    measured = np.flatnonzero(~np.isnan(used.values).any(axis=1)) + 1
    origins: list[int] = measured[(measured >= lookback) & (measured <= end)].tolist()
    if not origins:
        raise DataError(
            f"{table.path}: expected rows of known columns for {ahead:,} points ahead, found fewer; lower the horizon"
        )
    origins = [origins[place] for place in spread(len(origins), most)]
    windows = [values[origin - lookback : origin] for origin in origins]
    besides = [beside.window(origin - lookback, origin, ahead) for origin in origins]
    found = forecaster.forecast_windows(windows, ahead, besides, TOGETHER)
    return Backtest(
        table=used,
        origins=tuple(origins),
        times=(*used.times.texts, *used.times.after(ahead)),
        mean=found.mean,
        lower=found.lower,
        upper=found.upper,
        level=forecaster.level,
        notes=(*table.notes, *notes, *forecaster.missing_bounds(found.lower[-1])),
    )


def spread(count: int, most: int) -> list[int]:
    """At most so many of `count` places, evenly, the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({count - 1 - round(place * (count - 1) / max(1, most - 1)) for place in range(most)})
