"""Missing values of a table: rows at either end that lack some are left out, gaps inside are closed or drawn."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...data.files import DataError
from .settings import FillName
from .table import Table


def trim(table: Table) -> tuple[Table, list[str]]:
    """The rows from where every column has begun up to where the first ends, and a note where that leaves any out."""
    seen = ~np.isnan(table.values)
    for column, own in zip(table.columns, seen.T, strict=True):
        if not own.any():
            raise DataError(f"{table.path}: expected numbers in column {column!r}, found none; leave it out (--target)")
    start = int(max(own.argmax() for own in seen.T))
    stop = len(seen) - int(max(own[::-1].argmax() for own in seen.T))
    if stop <= start:
        raise DataError(
            f"{table.path}: expected columns that overlap in time, found none such row; choose some with --target"
        )
    notes = []
    for count, where, row in (
        (start, "begin", table.rows[start]),
        (len(seen) - stop, "end", table.rows[stop - 1]),
    ):
        if count:
            verb = "begins at" if where == "begin" else "ends with"
            notes.append(f"{table.path}: {count:,} rows at the {where} miss a value; what is used {verb} row {row:,}")
    part = replace(
        table, values=table.values[start:stop], times=table.times.part(start, stop), rows=table.rows[start:stop]
    )
    return part, notes


def close_gaps(table: Table, fill: FillName) -> tuple[np.ndarray, list[str]]:
    """The values without gaps (`table` is trimmed), and a note of how many there were.

    `linear` draws a line between the neighbours of a gap. `mask` holds the last value, which needs no look at the
    future; what was missing is then never counted, neither in the loss nor in the metrics.
    """
    values, missing = table.values.copy(), np.isnan(table.values)
    if not missing.any():
        return values, []
    if fill == "refuse":
        row, column = (int(i[0]) for i in np.nonzero(missing))
        raise DataError(
            f"{table.path}, row {table.rows[row]:,}, column {table.columns[column]!r}: expected a number, found a "
            "missing one; set fill=linear or fill=mask, or fill it in the file"
        )
    for own, gaps in zip(values.T, missing.T, strict=True):
        at = np.flatnonzero(~gaps)
        if fill == "linear":
            own[gaps] = np.interp(np.flatnonzero(gaps), at, own[at])
        else:
            own[gaps] = own[at[np.searchsorted(at, np.flatnonzero(gaps)) - 1]]
    how = {"linear": "filled by lines between their neighbours", "mask": "held at the last value and never counted"}
    return values, [f"{table.path}: {int(missing.sum()):,} of {missing.size:,} values are missing: {how[fill]}"]


def bridged(table: Table, filled: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Rows to draw (time, series, mean, lower, upper): each gap with what was measured on either side of it.

    A row of NaN stands after each, so that no line goes from one gap to the next; so do ends that are not known.
    """
    places = {time: number for number, time in enumerate(table.times.texts)}
    of_column: dict[str, list[Sequence[Any]]] = {}
    for row in filled:
        of_column.setdefault(row[1], []).append(row)
    for column, rows in of_column.items():
        values = table.values[:, table.columns.index(column)]
        numbers = [places[row[0]] for row in rows]
        inside = set(numbers)
        for at, row in zip(numbers, rows, strict=True):
            if at - 1 not in inside and at:
                yield (table.times.texts[at - 1], column, *(float(values[at - 1]),) * 3)
            yield (*row[:3], *(math.nan if end is None else end for end in row[3:5]))
            if at + 1 not in inside and at + 1 < len(values):
                yield (table.times.texts[at + 1], column, *(float(values[at + 1]),) * 3)
                yield (table.times.texts[at + 1], column, *(math.nan,) * 3)
