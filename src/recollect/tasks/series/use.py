"""A forecasting run applied to other files: forecasts of what follows their last row, and estimates in their gaps."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from ...core.task import LoadedRun
from ...data.files import DataError
from .gaps import close_gaps, trim
from .scaler import Scaler
from .sources import open_table
from .table import Table

Run = LoadedRun[Any, Scaler]


class Row(NamedTuple):
    """A value that was not measured."""

    time: str
    series: str
    mean: float
    lower: float | None
    upper: float | None
    how: str = "extrapolated"  # or "interpolated": what lies after it was measured


class Point(NamedTuple):
    """A value that was measured."""

    time: str
    series: str
    value: float


def open_file(run: Run, file: str, data_dir: str | None = None) -> Table:
    """A file with the columns that a run was trained on."""
    config = run.config.data
    table = open_table(
        file, target=run.artifacts.columns, time=config.time, header=config.header, draw=config.draw, data_dir=data_dir
    )
    if table.columns != run.artifacts.columns:
        raise DataError(
            f"{file}: expected the columns of the run ({', '.join(run.artifacts.columns)}), "
            f"found {', '.join(table.columns)}"
        )
    return table


def history(table: Table, last: int | None = None) -> list[Point]:
    """The values of a table's last rows, to be drawn; NaN where nothing was measured."""
    first = 0 if last is None else max(0, len(table.values) - last)
    return [
        Point(table.times.texts[i], column, float(table.values[i, c]))
        for c, column in enumerate(table.columns)
        for i in range(first, len(table.values))
    ]


def forecast(run: Run, file: str | Table, horizon: int | None = None, *, data_dir: str | None = None) -> Iterator[Row]:
    """What follows a file's last row, series by series; gaps inside its look-back are closed by lines."""
    table = file if isinstance(file, Table) else open_file(run, file, data_dir)
    if horizon is not None and horizon < 1:
        raise DataError(f"forecast: expected a horizon of at least 1, found {horizon}")
    table, _ = trim(table)
    values, _ = close_gaps(table, "linear")
    lookback: int = run.config.task.lookback
    horizon = horizon or int(run.config.task.horizon)
    if len(values) < lookback:
        raise DataError(
            f"{table.path}: expected at least {lookback:,} rows, the look-back of the run, found {len(values):,}; "
            "give more rows"
        )
    times = table.times.after(horizon)
    mean, lower, upper = _forecast_window(run, values[-lookback:], horizon)
    for c, column in enumerate(table.columns):
        for h, time in enumerate(times):
            yield Row(time, column, float(mean[h, c]), _known(lower[h, c]), _known(upper[h, c]))


def fill(run: Run, file: str | Table, *, data_dir: str | None = None) -> Iterator[Row]:
    """Every missing value of a file, in order of time.

    Inside the data (interpolated) a forecast from before the gap is bent so that it meets what was measured after it,
    its interval closing towards both ends; after a column's last value (extrapolated) it is the forecast alone. Where
    too little lies before a gap a line is drawn between its ends, without an interval; before a column's first value
    nothing can be said.
    """
    table = file if isinstance(file, Table) else open_file(run, file, data_dir)
    missing = np.isnan(table.values)
    if missing.all(axis=0).any():
        column = table.columns[int(missing.all(axis=0).argmax())]
        raise DataError(f"{table.path}: expected numbers in column {column!r}, found none")
    known = _ends_held(table.values)
    lookback = run.config.task.lookback
    found: list[tuple[int, Row]] = []
    for start, stop, c in sorted(_gaps(missing)):
        if start == 0:
            continue
        length, inside = stop - start, stop < len(known)
        how = "interpolated" if inside else "extrapolated"
        lower = upper = np.full(length, np.nan)
        if start >= lookback:
            ahead = _forecast_window(run, known[start - lookback : start], length + inside)
            mean, low, high = (part[:, c] for part in ahead)
            if inside:
                # the forecast misses what was measured next by so much: each point takes its share of that, and
                # of its variance keeps what a bridge between two known ends has
                share = np.arange(1, length + 1) / (length + 1)
                bend = (known[stop, c] - mean[length]) * share
                narrow = np.sqrt(1 - share)
                lower = mean[:length] + bend - (mean - low)[:length] * narrow
                upper = mean[:length] + bend + (high - mean)[:length] * narrow
                mean = mean[:length] + bend
            else:
                lower, upper = low, high
        elif inside:
            mean = np.interp(np.arange(start, stop), [start - 1, stop], [known[start - 1, c], known[stop, c]])
        else:
            raise DataError(
                f"{table.path}, column {table.columns[c]!r}: expected at least {lookback:,} rows, the look-back of the "
                f"run, before row {table.rows[start]:,}, found {start:,}"
            )
        known[start:stop, c] = mean
        for i in range(length):
            row = Row(
                table.times.texts[start + i],
                table.columns[c],
                float(mean[i]),
                _known(lower[i]),
                _known(upper[i]),
                how,
            )
            found.append((start + i, row))
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


@torch.no_grad()
def _forecast_window(run: Run, past: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The forecast of one window of raw values (L C) and its interval, raw: H C each."""
    model = run.model
    like = next(model.parameters())
    x = torch.from_numpy(run.artifacts.shrink(past)).to(like)[None]
    mean, lower, upper = (run.artifacts.stretch(part[0].double().cpu().numpy()) for part in model.forecast(x, horizon))
    return mean, lower, upper


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
