"""A trained forecaster in use: what follows the end of a table, with intervals, and estimates in its gaps."""

# what a program gives is checked whatever its type says
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ...core.trained import Array, TrainedModel
from ...data.files import DataError
from .backtest import Backtest, backtest
from .bridge import measure_bridges
from .calibration import windows_needed
from .covariates import count_known, read_beside
from .data import prepare
from .forecaster import Ahead, Forecaster
from .settings import POINTS
from .tables.gaps import close_gaps, used_rows
from .tables.table import Table


class Row(NamedTuple):
    """A value that was not measured."""

    time: str
    series: str
    mean: float
    lower: float | None
    upper: float | None
    how: str = "extrapolated"  # "extrapolated", or "interpolated" where what lies after it was measured


class Point(NamedTuple):
    """A value that was measured."""

    time: str
    series: str
    value: float


@dataclass(frozen=True)
class Forecast:
    """What follows the end of a table: H times, C columns."""

    columns: tuple[str, ...]
    times: tuple[str, ...]
    mean: Array  # H C
    lower: Array  # H C; NaN where there is no interval
    upper: Array
    history: Table
    notes: tuple[str, ...] = ()  # on how the table was read

    def rows(self) -> list[Row]:
        """A row for each value, column by column."""
        return [
            Row(time, column, float(self.mean[h, c]), _known(self.lower[h, c]), _known(self.upper[h, c]))
            for c, column in enumerate(self.columns)
            for h, time in enumerate(self.times)
        ]

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of plain values, as pandas.DataFrame and polars.DataFrame take them."""
        rows = self.rows()
        return {name: [getattr(row, name) for row in rows] for name in Row._fields}

    def __len__(self) -> int:
        return len(self.times)


class SeriesModel(TrainedModel):
    """A forecaster: it goes on with tables, and fills their gaps."""

    methods = ("forecast", "fill", "backtest")

    def prepare(self, steps: int = 0) -> None:
        _ = self._forecaster

    @cached_property
    def _forecaster(self) -> Forecaster:
        return Forecaster.of(self._source)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it was trained on, which a table must have."""
        return self._forecaster.scaler.columns

    @property
    def period(self) -> int:
        """Rows of a season, as it was found in training."""
        return self._forecaster.scaler.period

    @property
    def shown(self) -> int:
        """Rows of the past that are worth showing beside a forecast."""
        return max(3 * self._forecaster.horizon, self._forecaster.lookback)

    def forecast(self, table: Any, horizon: int | None = None) -> Forecast:
        """What follows a table: a CSV file, a known set, an array (N or N C), a dictionary of columns, a data frame.

        >>> model = recollect.load("demo-series")
        >>> ahead = model.forecast("sunspots", horizon=3)
        >>> ahead.mean.shape
        (3, 1)
        """
        known = self.open(table)
        rows = list(forecast(self._forecaster, known, horizon))
        times = tuple(row.time for row in rows[: len(rows) // len(known.columns)])
        shape = (len(known.columns), len(times))
        numbers = (
            [np.nan if value is None else value for value in values]
            for values in ([getattr(row, name) for row in rows] for name in ("mean", "lower", "upper"))
        )
        mean, lower, upper = (np.array(part).reshape(shape).T for part in numbers)
        behind = rows_behind(known.part(*used_rows(known)))
        notes = [*self._reading_notes(known), *self._forecaster.missing_bounds(lower[:, [not rows for rows in behind]])]
        if any(behind):
            first = next(column for column, rows in zip(known.columns, behind, strict=True) if rows)
            notes.append(
                f"{known.path}: series that end before the others: {sum(map(bool, behind)):,}, the first {first!r}; "
                "they are forecast from where they end, and bounds are given as far from there as the run's horizon"
            )
        if len(times) < (self._forecaster.horizon if horizon is None else horizon):
            notes.append(f"{known.path}: {len(times):,} points are forecast, as far as what is known ahead goes")
        return Forecast(known.columns, times, mean, lower, upper, known, tuple(notes))

    def backtest(self, table: Any, horizon: int | None = None, *, most: int = 400) -> Backtest:
        """Forecasts from at most so many origins of a table, as they would have been made then, beside what came.

        >>> model = recollect.load("demo-series")
        >>> model.backtest("sunspots", most=3).mean.shape
        (3, 6, 1)
        """
        return backtest(self._forecaster, self.open(table), horizon, most)

    def _reading_notes(self, table: Table) -> list[str]:
        """What was changed in a table; rows of what is known ahead alone are no rows that miss something."""
        return prepare(table.part(0, used_rows(table)[1]) if table.beside else table, "linear")[3]

    def fill(self, table: Any) -> list[Row]:
        """Every missing value of a table, in order of time, interpolated or extrapolated."""
        return list(fill(self._forecaster, self.open(table)))

    def open(self, table: Any) -> Table:
        """A table with the columns of the run, from a file or from memory; one that was opened stays as it is."""
        from ...data import tables

        if isinstance(table, Table):
            return table
        if not tables.is_table(table):
            return self._forecaster.open_file(str(table))
        text = tables.to_csv(table, "the table", self.columns)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            path.write_text(text, encoding="utf-8")
            try:
                return replace(self._forecaster.open_file(str(path)), path="the table")
            except DataError as error:
                raise DataError(str(error).replace(str(path), "the table")) from None


def history(table: Table, last: int | None = None) -> list[Point]:
    """The values of a table's last rows, to be drawn; NaN where nothing was measured."""
    first = 0 if last is None else max(0, len(table.values) - last)
    return [
        Point(table.times.texts[i], column, float(table.values[i, c]))
        for c, column in enumerate(table.columns)
        for i in range(first, len(table.values))
    ]


def forecast(forecaster: Forecaster, file: str | Table, horizon: int | None = None) -> Iterator[Row]:
    """What follows a file's last row, series by series; gaps inside its look-back are closed by lines."""
    table = file if isinstance(file, Table) else forecaster.open_file(file)
    if horizon is not None and not (isinstance(horizon, int | np.integer) and 1 <= horizon <= POINTS):
        found = f"{horizon:,}" if isinstance(horizon, int) else repr(horizon)
        raise DataError(f"forecast: expected a horizon of at least 1 and at most {POINTS:,}, found {found}")
    start, stop = used_rows(table)
    used = table.part(start, stop)
    values, _, _ = close_gaps(used, "linear")
    lookback = forecaster.lookback
    if len(values) < lookback:
        raise DataError(
            f"{table.path}: expected at least {lookback:,} rows, the look-back of the run, found {len(values):,}; "
            "give more rows"
        )
    horizon = horizon or reachable(forecaster, table, stop)
    times = used.times.after(horizon)
    beside = read_beside(table.part(start, len(table.values)), forecaster.scaler.covariates, stop - start, horizon)
    parts: dict[int, Ahead] = {}
    for c, (column, behind) in enumerate(zip(table.columns, rows_behind(used), strict=True)):
        behind = min(behind, len(values) - lookback)
        if behind not in parts:
            last, count = len(values) - behind, horizon + behind
            window = beside.window(last - lookback, last, count)
            ahead = forecaster.forecast_window(values[last - lookback : last], count, window)
            parts[behind] = Ahead(*(part[behind:] for part in ahead))
        mean, lower, upper = (part[:, c] for part in parts[behind])
        for h, time in enumerate(times):
            yield Row(time, column, float(mean[h]), _known(lower[h]), _known(upper[h]))


def rows_behind(table: Table) -> list[int]:
    """How many rows before the end of a table each series has its last value: those of a long table may end apart."""
    return [int(own[::-1].argmax()) for own in (~np.isnan(table.values)).T]


def reachable(forecaster: Forecaster, table: Table, stop: int) -> int:
    """The horizon of the run, or as far as the columns that it needs are known, if there are any and that is less."""
    covariates = forecaster.scaler.covariates
    known = count_known(table, covariates, stop) if covariates.known else forecaster.horizon
    return min(forecaster.horizon, known or forecaster.horizon)


def fill(forecaster: Forecaster, file: str | Table) -> Iterator[Row]:
    """Every missing value of a file, in order of time.

    Inside the data (interpolated) a forecast from before the gap is bent towards what was measured after it, as far as
    that tells of the errors inside (see `bridge`); after a column's last value (extrapolated) it is the forecast alone.
    Where too little lies before a gap, or too few whole stretches of its length are there, a line is drawn between its
    ends, without an interval; before a column's first value nothing can be said.
    """
    table = file if isinstance(file, Table) else forecaster.open_file(file)
    missing = np.isnan(table.values)
    if missing.all(axis=0).any():
        column = table.columns[int(missing.all(axis=0).argmax())]
        raise DataError(f"{table.path}: expected numbers in column {column!r}, found none")
    known, lookback = _ends_held(table.values), forecaster.lookback
    beside = read_beside(table, forecaster.scaler.covariates, len(known), 0)

    def ahead(start: int, count: int) -> Ahead:
        window = beside.window(start - lookback, start, count)
        return forecaster.forecast_window(known[start - lookback : start], count, window)

    gaps = [gap for gap in sorted(_gaps(missing)) if gap[0] > 0]
    bridges = measure_bridges(
        {stop - start for start, stop, _ in gaps if lookback <= start and stop < len(known)},
        table.values,
        lookback,
        lambda start, count: ahead(start, count).mean,
        level=forecaster.level,
        needed=windows_needed(forecaster.level),
        deviation=np.array(forecaster.scaler.deviation),
    )
    found: list[tuple[int, Row]] = []
    for start, stop, c in gaps:
        length, inside = stop - start, stop < len(known)
        how = "interpolated" if inside else "extrapolated"
        bridge = bridges.get(length)
        if start < lookback and not inside:
            raise DataError(
                f"{table.path}, column {table.columns[c]!r}: expected at least {lookback:,} rows, the look-back of the "
                f"run, before {table.place(start)}, found {start:,}"
            )
        if not inside:
            mean, lower, upper = (part[:, c] for part in ahead(start, length))
        elif start >= lookback and bridge is not None and np.isfinite(bridge.weights[:, c]).all():
            mean, low, high = (part[:, c] for part in ahead(start, length + 1))
            bent = mean[:length] + bridge.weights[:, c] * (known[stop, c] - mean[length])
            lower = bent - (mean - low)[:length] * bridge.shares[:, c]
            upper = bent + (high - mean)[:length] * bridge.shares[:, c]
            mean = bent
        else:
            mean = np.interp(np.arange(start, stop), [start - 1, stop], [known[start - 1, c], known[stop, c]])
            lower = upper = np.full(length, np.nan)
        known[start:stop, c] = mean
        for i in range(length):
            time, column = table.times.texts[start + i], table.columns[c]
            found.append((start + i, Row(time, column, float(mean[i]), _known(lower[i]), _known(upper[i]), how)))
    return iter(row for _, row in sorted(found, key=lambda pair: pair[0]))


def _ends_held(values: np.ndarray) -> np.ndarray:
    """The values with gaps held at the last one (and before the first at that): what other columns' windows see."""
    values = values.copy()
    for own in values.T:
        at = np.flatnonzero(~np.isnan(own))
        places = np.searchsorted(at, np.arange(len(own)), side="right") - 1
        own[:] = own[at[places.clip(min=0)]]
    return values


def _gaps(missing: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """The runs of missing values: first row, the row after the last, column."""
    for c, own in enumerate(missing.T):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], own, [False]]).astype(np.int8)))
        for start, stop in edges.reshape(-1, 2):
            yield int(start), int(stop), c


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


MODELS = {"series": SeriesModel}
