"""A table of numbers from a CSV file: separator, header and time column detected, cells checked, rows on a grid."""

import csv
import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....core.limits import check_fits
from ....data.byte_files import StrPath, path_of
from ....data.encodings import ENCODING
from ....data.errors import DataError
from ....data.files import chunks, some_of
from ....data.limits import COLUMNS
from .cells import MISSING, Column, is_number, read_numbers
from .clock import Clock, Moments, can_read, read_moments, reader_of
from .grid import place_rows
from .layout import Layout
from .steps import parse_step
from .times import Times

HELD = 10  # bytes of memory for each character of a table: its cells are short, and each is an object
SERIES = 10_000  # that a column of names may tell apart
TIMES = {"date", "time", "datetime", "timestamp", "year", "month", "day"}  # what a time column is called


@dataclass(frozen=True, eq=False)
class Table:
    """The series of a file as numbers on a grid, with what is known beside them; NaN where a value is missing."""

    path: str
    columns: tuple[str, ...]  # the series
    values: np.ndarray  # N C float64
    times: Times
    rows: list[int | None]  # the line of each row in the file; None where a missing one was put in
    beside: tuple[str, ...] = ()  # columns known ahead, then those known only so far
    given: np.ndarray | None = None  # N G F: of these, each series' own (G = C), or one for all (G = 1)
    notes: tuple[str, ...] = ()  # on how it was read
    apart: bool = False  # whether each series begins and ends by itself, as in a long table

    def part(self, start: int, stop: int) -> "Table":
        """Some of its rows."""
        given = None if self.given is None else self.given[start:stop]
        times, rows = self.times.part(start, stop), self.rows[start:stop]
        return replace(self, values=self.values[start:stop], times=times, rows=rows, given=given)

    def place(self, row: int) -> str:
        """A row for messages: its line in the file, or its time where it was missing there."""
        line = self.rows[row]
        return f"row {line:,}" if line is not None else f"the missing row of {self.times.texts[row]}"


class Sheet(NamedTuple):
    """A file as cells, with its columns by name."""

    path: str
    names: list[str]
    unnamed: list[bool]  # whether the header leaves a column without a name
    cells: list[list[str]]
    rows: list[int]  # the line on which each begins
    separator: str

    def column(self, place: int) -> list[str]:
        return [row[place] for row in self.cells]


def read_table(path: StrPath, layout: Layout | None = None, *, even: bool = False) -> Table:
    """The series of a CSV file, by a layout: all columns but the time's where it names none."""
    layout = layout or Layout()
    sheet = read_sheet(path, layout)
    name = sheet.path
    place = _time_column(sheet, layout)
    others = [*layout.known, *layout.past, *([layout.id] if layout.id is not None else [])]
    taken = {place, *(_named(column, sheet.names, name) for column in others)}
    if (twice := _first_repeated(layout.target)) is not None:
        raise DataError(f"{name}: expected each --target once, found {twice!r} twice; leave one out")
    wanted = [_named(column, sheet.names, name) for column in layout.target]
    if place is not None and place in wanted:
        raise DataError(f"{name}: expected other columns than the time column {sheet.names[place]!r} as --target")
    rest = [i for i in range(len(sheet.names)) if i not in taken]
    # what a header leaves without a name is what a trailing separator or a writer's row numbers left behind
    wanted = wanted or [i for i in rest if not sheet.unnamed[i]] or rest
    if not wanted:
        beside = f"the time column {sheet.names[place]!r}" if place is not None else "those with another use"
        raise DataError(f"{name}: expected a column of numbers beside {beside}, found none")
    beside = (*layout.known, *layout.past)
    numbered = [*wanted, *(_named(column, sheet.names, name) for column in beside)]
    columns = [Column(sheet.names[i], sheet.column(i)) for i in numbered]
    values, notes = read_numbers(columns, sheet.rows, name, layout.decimal, sheet.separator)
    series, labels = _series_of(sheet, layout)
    moments = _moments_of(sheet, place, layout, series)
    texts = sheet.column(place) if place is not None else [str(moment) for moment in moments.found]
    grid = place_rows(
        values, moments, texts, sheet.rows, series, name, every=layout.every, aggregate=layout.aggregate, even=even
    )
    times = replace(grid.times, named=place is not None)
    own, count = grid.values[:, :, : len(wanted)], len(wanted)  # N S T
    found = tuple(sheet.names[i] for i in wanted)
    if labels:
        found = tuple(label if count == 1 else f"{label} {column}" for label in labels for column in found)
    given = grid.values[:, :, count:].repeat(count if labels else 1, axis=1) if beside else None
    return Table(
        path=name,
        columns=found,
        values=own.reshape(len(own), -1),
        times=times,
        rows=grid.rows,
        beside=beside,
        given=given,
        notes=(*notes, *grid.notes),
        apart=layout.id is not None,
    )


def _series_of(sheet: Sheet, layout: Layout) -> tuple[np.ndarray, list[str]]:
    """The number of each row's series, and the names of the series in a long table, in order of appearance."""
    if layout.id is None:
        return np.zeros(len(sheet.cells), dtype=np.int64), []
    cells = [cell.strip() for cell in sheet.column(_named(layout.id, sheet.names, sheet.path))]
    if "" in cells:
        row = sheet.rows[cells.index("")]
        raise DataError(f"{sheet.path}, row {row:,}, column {layout.id!r}: expected the name of a series, found none")
    names = list(dict.fromkeys(cells))
    if len(names) > SERIES:
        raise DataError(
            f"{sheet.path}, column {layout.id!r}: expected at most {SERIES:,} series, found {len(names):,}; name "
            "another column with --id"
        )
    numbers = {label: number for number, label in enumerate(names)}
    return np.array([numbers[cell] for cell in cells]), names


def _moments_of(sheet: Sheet, place: int | None, layout: Layout, series: np.ndarray) -> Moments:
    """The time of each row; without a column for it the rows of each series are counted."""
    if place is None:
        if layout.every is not None or layout.zone is not None:
            raise DataError(f"{sheet.path}: expected a column of times for --every and --zone, found none; name --time")
        counted: Counter[int] = Counter()
        found = []
        for own in series.tolist():
            found.append(Decimal(counted[own]))
            counted[own] += 1
        return Moments(found, Clock(), [])
    dated = layout.every is not None and layout.every.strip()[-1:].isalpha()
    every = parse_step(layout.every, True) if layout.every is not None and dated else None
    return read_moments(
        sheet.column(place),
        sheet.rows,
        sheet.path,
        sheet.names[place],
        form=layout.time_format,
        zone=layout.zone,
        groups=series.tolist(),
        every=every,
    )


def read_sheet(path: StrPath, layout: Layout) -> Sheet:
    """The cells of a file, every row as long as the first."""
    name = str(path)
    cells, rows, separator = _cells(path_of(path), name, layout.encoding)
    first = cells[0]
    headed = layout.header == "yes" or (
        layout.header == "auto" and any(_is_word(cell, layout.time_format) for cell in first)
    )
    names = [cell.strip() or f"column {i}" for i, cell in enumerate(first, 1)] if headed else None
    names = names or [str(i) for i in range(1, len(first) + 1)]
    if (twice := _first_repeated(names)) is not None:
        raise DataError(f"{name}, row {rows[0]:,}: expected each column's name once, found {twice!r} twice; rename one")
    if headed:
        cells, rows = cells[1:], rows[1:]
    if not cells:
        raise DataError(f"{name}: expected rows of numbers, found only a header; give more rows")
    for row, found in zip(rows, cells, strict=True):
        if len(found) != len(names):
            raise DataError(
                f"{name}, row {row:,}: expected {len(names)} columns as in the first row, found {len(found)}; "
                "mend that row (quote what holds a separator)"
            )
    return Sheet(name, names, [headed and not cell.strip() for cell in first], cells, rows, separator)


def _cells(path: Path, name: str, encoding: str | None) -> tuple[list[list[str]], list[int], str]:
    """The cells of each line that is not blank, the line it begins on, and what separates them."""
    lines = _text(path, encoding).replace("\r", "\n").split("\n")
    bare = re.sub(r'"[^"]*"', "", next((line for line in lines if line.strip()), ""))
    mark = next((mark for mark in "\t;,|" if mark in bare), ",")
    reader = csv.reader((line + "\n" for line in lines), delimiter=mark, skipinitialspace=True)
    cells, rows, line = [], [], 1
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):  # separators alone are a row of missing values
                cells.append(row)
                rows.append(line)
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, row {reader.line_num:,}: expected CSV, found something else ({error})") from None
    if not cells:
        raise DataError(f"{name}: expected a table of numbers, found blank lines")
    if len(cells[0]) > COLUMNS:
        raise DataError(
            f"{name}, row {rows[0]:,}: expected at most {COLUMNS:,} columns, found {len(cells[0]):,}; give fewer"
        )
    return cells, rows, mark


def _text(path: Path, encoding: str | None) -> str:
    """All of a file, where its cells fit into memory."""
    found, size = [], 0
    for chunk in chunks(path, encoding=encoding, flag=ENCODING):
        found.append(chunk)
        size += len(chunk)
        check_fits(HELD * size, f"the table {path}", "give fewer rows or columns")
    return "".join(found)


def _first_repeated(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _is_word(cell: str, form: str | None) -> bool:
    """Whether a cell can only be a column's name: no number, nothing missing, no time."""
    cell = cell.strip()
    if cell.lower() in MISSING or is_number(cell):
        return False
    if form is not None and can_read(partial(_parse, form), cell):
        return False
    read, _ = reader_of(cell)
    return not can_read(read, cell)


def _time_column(sheet: Sheet, layout: Layout) -> int | None:
    names, first = sheet.names, [cell.strip() for cell in sheet.cells[0]]
    if layout.time is not None:
        return _named(layout.time, names, sheet.path)
    if (form := layout.time_format) is not None:
        found = [i for i, cell in enumerate(first) if can_read(partial(_parse, form), cell)]
        if not found:
            raise DataError(
                f"{sheet.path}, row {sheet.rows[0]:,}: expected a time written as {form}, found {some_of(first, 6)}; "
                "mend --time-format, or name the column with --time"
            )
        return found[0]
    if names[0].lower() in TIMES or _is_date(first[0]):
        return 0
    # in another column digits alone are a number, even where they could be a date
    return next((i for i, cell in enumerate(first) if not cell.isdigit() and _is_date(cell)), None)


def _parse(form: str, text: str) -> datetime:
    return datetime.strptime(text, form)


def _is_date(cell: str) -> bool:
    read, style = reader_of(cell)
    return style != "number" and can_read(read, cell)


def _named(column: str, names: list[str], path: str) -> int:
    if column in names:
        return names.index(column)
    close = difflib.get_close_matches(column, names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise DataError(f"{path}: expected a column {column!r}, found {some_of(names, 12)}{meant}")
