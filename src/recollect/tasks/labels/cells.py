"""Rows of cells from a file of lines: tabs between them, or of a CSV file commas or semicolons, quotes included."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from ...data.encodings import ENCODING
from ...data.errors import DataError
from ...data.files import lines, some_of

TAB = "\t"
MARKS = (",", ";")  # between the cells of CSV
HEAD = 20  # lines after the first, among which the first row ends
NAMES = {  # of columns, in headers
    "label": {"label", "labels", "class", "category", "target", "sentiment", "gold_label", "y"},
    "text": {"text", "sentence", "review", "document", "comment", "phrase", "title", "tweet", "x"},
}
NAMES["label"] |= {"标签", "标注", "类别", "分类", "情感"}
NAMES["text"] |= {"文本", "内容", "正文", "句子", "评论", "标题"}


def is_table(path: Path) -> bool:
    """Whether the name of a file says that it is a table."""
    return path.name.removesuffix(".gz").endswith((".csv", ".tsv"))


def read_cells(path: Path, encoding: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of every row that is not blank; a row is numbered by its first line."""
    found = lines(path, encoding=encoding, flag=ENCODING)
    return part_cells(found, str(path), path.name.removesuffix(".gz").endswith(".csv"))


def part_cells(given: Iterable[str], name: str, is_csv: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of lines; `name` is what errors call them.

    What stands between cells is read off the first row: a tab, or of CSV a comma or semicolon. Lines whose first is
    the header of a text and its label are CSV too.
    """
    waiting, blank = iter(given), 0
    for first in waiting:
        if first.strip(" \r"):
            break
        blank += 1
    else:
        return
    head = [first, *islice(waiting, HEAD)]
    mark = separator(head, is_csv)
    rest = chain(head, waiting)
    if mark == TAB:
        yield from ((number, line.split(TAB)) for number, line in enumerate(rest, blank + 1) if line.strip(" \r"))
        return
    reader, number = csv.reader((f"{line}\n" for line in rest), delimiter=mark), blank + 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield number, [" ".join(cell.splitlines()) for cell in cells]
            number = blank + reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"expected CSV, found a row that is none from line {number:,} of {name} on ({error}); a quote may be open"
        ) from None


def separator(head: Sequence[str], is_csv: bool) -> str:
    """What stands between the cells of a table that begins with these lines: of CSV, what gives its first row most."""
    if TAB in head[0]:
        return TAB
    rows = {mark: first_row(head, mark) for mark in MARKS}
    mark = max(rows, key=lambda own: len(rows[own]))
    return mark if is_csv or names_both(rows[mark]) else TAB


def first_row(head: Sequence[str], mark: str) -> list[str]:
    """The cells of the first row; none where that is no CSV with such a mark."""
    try:
        return next(csv.reader((f"{line}\n" for line in head), delimiter=mark), [])
    except csv.Error:  # a cell beyond the limit of the module
        return []


def names_both(cells: Sequence[str]) -> bool:
    """Whether cells are a header that names a text and its label."""
    names = {cell.strip().lower() for cell in cells}
    return all(names & words for words in NAMES.values())


def read_column(rows: Iterable[tuple[int, list[str]]], name: str, column: str | None) -> Iterator[str]:
    """The texts of one column of a table: named as its header does, numbered from 1, or the one that can be meant."""
    waiting = iter(rows)
    first = next(waiting, None)
    if first is None:
        return
    place, headed = _find_column(first[1], name, column)
    for number, cells in waiting if headed else chain([first], waiting):
        if place >= len(cells):
            raise DataError(
                f"expected {place + 1} columns as in the first row, found {len(cells)} in line {number:,} of {name}; "
                "mend or remove that row"
            )
        yield cells[place].strip()


def _find_column(cells: Sequence[str], name: str, column: str | None) -> tuple[int, bool]:
    """The place of the column of texts, and whether the first row is a header."""
    names = [cell.strip().lower() for cell in cells]
    known = [place for place, cell in enumerate(names) if cell in NAMES["text"]]
    if column is None:
        if len(known) == 1:
            return known[0], True
        if len(cells) == 1:
            return 0, False
    elif column.strip().lower() in names:
        return names.index(column.strip().lower()), True
    elif column.isdecimal() and 1 <= int(column) <= len(cells):
        return int(column) - 1, bool(known) or names_both(cells)
    found = "none that is named" if column is None else repr(column)
    raise DataError(
        f"expected a column of texts out of {some_of([cell.strip() for cell in cells], 12)} of {name}, found {found}; "
        "name it with --column, as the header does or as a number from 1"
    )
