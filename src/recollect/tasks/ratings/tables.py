"""Tables of ratings, titles and features: separator and header detected, every line checked."""

import csv
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ...data.files import DataError, lines
from .rated import Rows

SEPARATORS = ("\t", "::", ";", ",", "|")
QUOTING = (";", ",")  # separators between cells that may stand in quotes
COLUMNS = (("user",), ("item", "movie", "film", "book", "product"), ("rating", "score", "stars"))  # how names begin
LARGEST = 3e38  # a rating is kept as a float32


def read(paths: Sequence[Path]) -> Rows:
    """All ratings of some files; a malformed line is refused with its number."""
    names: tuple[dict[str, int], dict[str, int]] = ({}, {})
    numbers = (array("i"), array("i"))
    scores = array("f")
    for path in paths:
        for _, cells in table(path, least=3, number_at=2, columns=_columns):
            for own, place, cell in zip(names, numbers, cells, strict=False):
                place.append(own.setdefault(cell, len(own)))
            scores.append(float(cells[2]))
    return Rows(list(names[0]), list(names[1]), np.array(numbers[0]), np.array(numbers[1]), np.array(scores))


def table(
    path: Path,
    least: int,
    number_at: int | None = None,
    columns: Callable[[list[str]], list[int] | None] = lambda header: None,
) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line, at least `least` of them; a first line without a number at `number_at` is a header.

    Where `columns` knows its names, cells are those columns alone, in their order.
    """
    separator = order = None
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        first = separator is None
        if separator is None:
            separator = next((mark for mark in SEPARATORS if line.count(mark) >= least - 1), None)
            if separator is None:
                raise DataError(
                    f"expected {least} cells with tabs, '::' or commas between, found {short(line)} in line "
                    f"{number:,} of {path}; put them there"
                )
        try:
            parted = next(csv.reader([line], delimiter=separator)) if separator in QUOTING else line.split(separator)
        except csv.Error as error:
            raise DataError(f"expected cells of a table, found others in line {number:,} of {path} ({error})") from None
        cells = [cell.strip() for cell in parted]
        if order is not None:
            cells = [cells[place] for place in order if place < len(cells)]
        if len(cells) < least or not all(cells[:least]):
            raise DataError(
                f"expected {least} cells with {separator!r} between, found {short(line)} in line {number:,} of "
                f"{path}; mend or remove that line"
            )
        if number_at is not None and not is_number(cells[number_at]):
            if first and number == 1:
                order = columns(cells)
                continue
            raise DataError(
                f"expected a number in cell {(order or range(least))[number_at] + 1}, found {cells[number_at]!r} in "
                f"line {number:,} of {path}; mend or remove that line"
            )
        yield number, cells


def _columns(header: list[str]) -> list[int] | None:
    """The columns of user, item and rating in a header that names each once."""
    places = [[i for i, cell in enumerate(header) if cell.lower().startswith(words)] for words in COLUMNS]
    return [own[0] for own in places] if all(len(own) == 1 for own in places) else None


def short(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:40] + "…")


def is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) < LARGEST
    except ValueError:
        return False
