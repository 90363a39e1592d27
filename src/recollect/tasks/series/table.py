"""A table of numbers from a CSV file: separator, header and time column detected, every cell checked."""

import csv
import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from ...data.files import DataError, StrPath, chunks, some_of
from .settings import HeaderName
from .times import NUMBER, Times, can_read, read_times, reader_of

MISSING = {"", "nan", "na", "n/a", "null", "none", "?", "-"}
TIMES = {"date", "time", "datetime", "timestamp", "year", "month", "day"}  # what a time column is called


@dataclass(frozen=True, eq=False)
class Table:
    """The selected columns of a file as numbers; NaN where a value is missing."""

    path: str
    columns: tuple[str, ...]
    values: np.ndarray  # N C float64
    times: Times
    rows: list[int]  # the line of each row in the file


def read_table(
    path: StrPath,
    *,
    target: Sequence[str] = (),
    time: str | None = None,
    header: HeaderName = "auto",
) -> Table:
    """The `target` columns of a CSV file (all but the time column where none is named)."""
    name = str(path)
    cells, rows, comma = _cells(Path(path).expanduser(), name)
    first = cells[0]
    headed = header == "yes" or (header == "auto" and any(_is_word(cell) for cell in first))
    names = [cell.strip() or f"column {i}" for i, cell in enumerate(first, 1)] if headed else None
    names = names or [str(i) for i in range(1, len(first) + 1)]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
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
    place = _time_column(names, cells[0], time, name)
    twice = next((column for column in target if list(target).count(column) > 1), None)
    if twice is not None:
        raise DataError(f"{name}: expected each --target once, found {twice!r} twice; leave one out")
    wanted = [_named(column, names, name) for column in target]
    others = [i for i in range(len(names)) if i != place]
    # what a header leaves without a name is what a trailing separator or a writer's row numbers left behind
    wanted = wanted or [i for i in others if not headed or first[i].strip()] or others
    if place in wanted:
        raise DataError(f"{name}: expected other columns than the time column {names[place]!r} as --target")
    if not wanted:
        raise DataError(
            f"{name}: expected a column of numbers beside the time column {names[place or 0]!r}, found none"
        )
    values = np.stack([_numbers([r[i] for r in cells], rows, name, names[i], comma) for i in wanted], axis=1)
    if place is None:
        count = len(cells)
        times = Times([str(i) for i in range(count)], [Decimal(i) for i in range(count)], Decimal(1))
    else:
        times = read_times([r[place] for r in cells], rows, name, names[place])
    return Table(name, tuple(names[i] for i in wanted), values, times, rows)


def _cells(path: Path, name: str) -> tuple[list[list[str]], list[int], bool]:
    """The cells of each line that is not blank, the line it begins on, and whether a comma may be a decimal one."""
    lines = "".join(chunks(path)).replace("\r", "\n").split("\n")
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
    return cells, rows, mark != ","


def _is_word(cell: str) -> bool:
    """Whether a cell can only be a column's name: no number, nothing missing, no time."""
    cell = cell.strip()
    if cell.lower() in MISSING or NUMBER.fullmatch(cell.replace(",", ".", 1)):
        return False
    read, _ = reader_of(cell)
    return not can_read(read, cell)


def _time_column(names: list[str], first: list[str], time: str | None, path: str) -> int | None:
    if time is not None:
        return _named(time, names, path)
    if names[0].lower() in TIMES or _is_date(first[0].strip()):
        return 0
    # in another column digits alone are a number, even where they could be a date
    return next((i for i, cell in enumerate(first) if not cell.strip().isdigit() and _is_date(cell.strip())), None)


def _is_date(cell: str) -> bool:
    read, style = reader_of(cell)
    return style != "number" and can_read(read, cell)


def _named(column: str, names: list[str], path: str) -> int:
    if column in names:
        return names.index(column)
    close = difflib.get_close_matches(column, names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise DataError(f"{path}: expected a column {column!r}, found {some_of(names, 12)}{meant}")


def _numbers(cells: list[str], rows: list[int], path: str, column: str, comma: bool) -> np.ndarray:
    """One column as numbers; NaN where a value is missing."""
    try:
        if not any("_" in cell for cell in cells):
            found = np.array([float(cell) for cell in cells])
            if not np.isinf(found).any():
                return found
    except ValueError:
        pass  # something in it needs a closer look
    found = np.empty(len(cells))
    for i, cell in enumerate(cells):
        text = cell.strip()
        if comma and text.count(",") == 1 and "." not in text:
            text = text.replace(",", ".")
        if text.lower() in MISSING:
            found[i] = math.nan
        elif NUMBER.fullmatch(text) and math.isfinite(float(text)):
            found[i] = float(text)
        else:
            raise DataError(
                f"{path}, row {rows[i]:,}, column {column!r}: expected a number, found {cell!r}; mend it, leave it "
                "empty if it is missing, or choose other columns with --target"
            )
    return found
