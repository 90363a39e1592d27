"""Cells of a table as numbers: with a decimal point or comma, with marks between thousands, or missing."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....data.errors import DataError
from .layout import DecimalName

MISSING = {"", "nan", "na", "n/a", "null", "none", "?", "-"}
BLANKS = " \u00a0\u2009\u202f'\u2019"  # what may stand between thousands beside the other decimal mark


def _form(mark: str, other: str) -> re.Pattern[str]:
    mark, other = re.escape(mark), re.escape(other)
    groups = "|".join(rf"[1-9]\d{{0,2}}(?:{between}\d{{3}})+" for between in (other, *map(re.escape, BLANKS)))
    return re.compile(rf"[-+\u2212]?(?:(?:{groups}|\d+)(?:{mark}\d*)?|{mark}\d+)(?:[eE][-+]?\d+)?")


FORMS = {"point": _form(".", ","), "comma": _form(",", ".")}


class Column(NamedTuple):
    """The cells of one column."""

    name: str
    cells: Sequence[str]


def is_number(cell: str) -> bool:
    """Whether a cell is a number in any form."""
    return any(form.fullmatch(cell) for form in FORMS.values())


def read_numbers(
    columns: Sequence[Column], rows: Sequence[int], path: str, decimal: DecimalName, separator: str
) -> tuple[np.ndarray, list[str]]:
    """Columns as numbers (N F), NaN where one is missing, and notes of how they were read.

    The decimal mark is one for the whole table: the one by which every cell is a number. Where both are (1,234), it is
    a point in a table whose cells are separated by commas, else a comma.
    """
    if decimal != "comma" and (plain := _plain(columns)) is not None:
        return plain, []
    odd = {cell.strip() for column in columns for cell in column.cells if not _is_plain(cell.strip())}
    fits = {name: all(form.fullmatch(cell) for cell in odd) for name, form in FORMS.items()}
    dots = any("." in cell for column in columns for cell in column.cells)
    if fits["comma"] and dots:  # a point in it must then stand between thousands
        fits["comma"] = all(
            FORMS["comma"].fullmatch(cell.strip()) or cell.strip().lower() in MISSING
            for column in columns
            for cell in column.cells
        )
    mark, notes = decimal, []
    if mark == "auto":
        mark = "comma" if fits["comma"] and not (fits["point"] and (separator == "," or not odd)) else "point"
        if odd and fits[mark]:
            other = {"point": "comma", "comma": "point"}[mark]
            doubt = f"; if it is a {other}, set decimal={other}" if fits[other] else ""
            example = next(iter(sorted(odd)))
            notes.append(f"{path}: numbers such as {example!r} are read with a decimal {mark}{doubt}")
    found = np.empty((len(rows), len(columns)))
    for place, column in enumerate(columns):
        for i, cell in enumerate(column.cells):
            value = _read(cell.strip(), mark)
            if value is None:
                raise DataError(
                    f"{path}, row {rows[i]:,}, column {column.name!r}: expected a number, found {cell!r}; "
                    f"{_advise(column, mark)}"
                )
            found[i, place] = value
    return found, notes


def _advise(column: Column, mark: str) -> str:
    """What to do about a column with a cell that is no number in the form with that decimal mark."""
    cells = [cell.strip() for cell in column.cells if cell.strip().lower() not in MISSING]
    others = [cell for cell in cells if not is_number(cell)]
    if 2 * len(others) <= len(cells):
        return "mend it, leave it empty if it is missing, or choose other columns with --target"
    if all(re.search(r"\d\D+\d", cell) for cell in others):
        return f"if these are times, say so with --time {column.name!r} and how they are written with --time-format"
    few = len(set(others)) < len(others)
    named = f"if it names the series of each row, say --id {column.name!r}; " if few else ""
    return f"{named}else choose other columns with --target" if named else "choose other columns with --target"


def _plain(columns: Sequence[Column]) -> np.ndarray | None:
    """Columns of plain numbers, which Python reads by itself; None where something needs a closer look."""
    try:
        if any("_" in cell for column in columns for cell in column.cells):
            return None
        found = np.array([[float(cell) for cell in column.cells] for column in columns]).T
    except ValueError:
        return None
    return None if np.isinf(found).any() else found


def _is_plain(cell: str) -> bool:
    """Whether a cell is missing, or a number without a comma or a mark between thousands."""
    return cell.lower() in MISSING or ("," not in cell and not set(cell) & set(BLANKS) and cell.count(".") < 2)


def _read(cell: str, mark: str) -> float | None:
    """A number in the form with that decimal mark; NaN where it is missing, None where it is no number."""
    if cell.lower() in MISSING:
        return math.nan
    if not FORMS[mark].fullmatch(cell):
        return None
    text = re.sub(f"[{BLANKS}{'.' if mark == 'comma' else ','}]", "", cell).replace(",", ".").replace("\u2212", "-")
    value = float(text)
    return value if math.isfinite(value) else None
