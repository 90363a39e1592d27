"""Missing values of a table: rows at either end that lack some are left out, gaps inside are closed or drawn."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ....data.errors import DataError
from .table import Table

FillName = Literal["linear", "mask", "refuse"]


def trim(table: Table) -> tuple[Table, list[str]]:
    """The rows that are used (see `used_rows`), and a note where that leaves any out."""
    start, stop = used_rows(table)
    notes = []
    if start:
        first = table.place(start)
        notes.append(
            f"{table.path}: rows at the beginning that miss a value: {start:,}; what is used begins at {first}"
        )
    if after := len(table.values) - stop:
        last = table.place(stop - 1)
        notes.append(f"{table.path}: rows at the end that miss a value: {after:,}; what is used ends with {last}")
    return table.part(start, stop), notes


def used_rows(table: Table) -> tuple[int, int]:
    """From where every series has begun up to where the first ends; in a long table from the first to the last value.

    Rows after that may hold what is known ahead.
    """
    seen = ~np.isnan(table.values)
    for column, own in zip(table.columns, seen.T, strict=True):
        if not own.any():
            raise DataError(f"{table.path}: expected numbers in column {column!r}, found none; leave it out (--target)")
    starts, ends = [int(own.argmax()) for own in seen.T], [len(seen) - int(own[::-1].argmax()) for own in seen.T]
    if table.apart:
        return min(starts), max(ends)
    if min(ends) <= max(starts):
        raise DataError(
            f"{table.path}: expected columns that overlap in time, found none such row; choose some with --target"
        )
    return max(starts), min(ends)


def close_gaps(table: Table, fill: FillName) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The values without gaps (`table` is trimmed), which of them count, and a note of how many were missing.

    `linear` draws a line between the neighbours of a gap. `mask` holds the last value, which needs no look at the
    future; what was missing is then never counted, neither in the loss nor in the metrics. Before a series of a long
    table begins and after it ends nothing counts, by either.
    """
    values, missing = table.values.copy(), np.isnan(table.values)
    counts = np.ones(values.shape, dtype=bool) if fill == "linear" else ~missing
    gaps = 0
    for column, (own, lacks) in enumerate(zip(values.T, missing.T, strict=True)):
        if not lacks.any():
            continue
        at = np.flatnonzero(~lacks)
        counts[: at[0], column] = counts[at[-1] + 1 :, column] = False
        inside = lacks.copy()
        inside[: at[0]] = inside[at[-1] + 1 :] = False
        gaps += int(inside.sum())
        if fill == "refuse" and inside.any():
            row = int(inside.argmax())
            raise DataError(
                f"{table.path}, {table.place(row)}, column {table.columns[column]!r}: expected a number, found a "
                "missing one; set fill=linear or fill=mask, or fill it in the file"
            )
        if fill == "linear":
            own[lacks] = np.interp(np.flatnonzero(lacks), at, own[at])
        else:
            own[lacks] = own[at[(np.searchsorted(at, np.flatnonzero(lacks)) - 1).clip(min=0)]]
    notes: list[str] = []
    if gaps and fill == "linear":
        notes.append(
            f"{table.path}: {gaps:,} of {missing.size:,} values are missing: filled by lines between their neighbours"
        )
    elif gaps:
        notes.append(
            f"{table.path}: {gaps:,} of {missing.size:,} values are missing: held at the last value and never counted"
        )
    return values, counts, notes


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
