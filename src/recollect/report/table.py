"""Tables and lists for the terminal."""

import io
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..core.language import breakable, localize
from ..core.language import columns as width

MARKED = re.compile(r".+?[-_/]+(?=\w)|.+", re.DOTALL)  # a name may be broken behind these marks
LONGEST = 32  # columns of a number with its range
SHORTEST = 8  # columns that a name keeps as long as others can give way


def render(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, lines: bool = False) -> str:
    """A table as wide as the terminal (120 columns where there is none); numbers stand right.

    A cell that does not fit goes on in the next line: at a blank or behind a mark in a name, within a word only where
    nothing else is left. Title and columns are in the language of the reader; the cells are as the caller has them.
    """
    rows = [list(row) for row in rows]
    numeric = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(columns))]
    found = [[localize(column), *(row[i] for row in rows)] for i, column in enumerate(columns)]
    widths = _fit([_sizes(cells, number) for cells, number in zip(found, numeric, strict=True)])
    table = Table(title=localize(title), title_justify="left", show_lines=lines)
    for cells, number, room in zip(found, numeric, widths, strict=True):
        head = "\n".join(_fold(cells[0], number, room))
        table.add_column(Text(head), justify="right" if number else "left", width=room, overflow="fold")
    for row in rows:
        folded = zip(row, numeric, widths, strict=True)
        table.add_row(*(Text("\n".join(_fold(cell, number, room))) for cell, number, room in folded))
    page = io.StringIO()
    Console(file=page, width=_columns()).print(table)
    return page.getvalue()


def _is_number(cell: str) -> bool:
    """Whether a cell holds a number, perhaps with its unit or its range; a sentence may begin with one too."""
    return cell[:1] in "0123456789-−–±" and width(cell) <= LONGEST


def write_entries(name: str, entries: Mapping[str, str]) -> str:
    """A name, and below it its entries, each whole: a long one goes on in the next line, below its beginning."""
    indent = 4 + max(map(width, entries))
    lines = [name]
    for what, text in entries.items():
        first, *rest = _wrap(text, _columns() - indent) or [""]
        lines.append(f"  {what}{' ' * (indent - 2 - width(what))}{first}".rstrip())
        lines += [" " * indent + line for line in rest]
    return "\n".join(lines) + "\n"


def _wrap(text: str, room: int) -> list[str]:
    """The text in lines of so many columns; a Chinese character takes two."""
    return _join(breakable(text), room)


def _join(pieces: Iterable[str], room: int) -> list[str]:
    """The pieces in lines, as many in each as there is room for."""
    lines: list[str] = []
    for piece in pieces:
        if lines and width(lines[-1] + piece) <= room:
            lines[-1] += piece
        else:
            lines.append(piece.lstrip())
    return lines


def _sizes(cells: Sequence[str], number: bool) -> tuple[int, int, int]:
    """What the cells of a column take: each whole, each in its pieces, and the least, which may break a name."""
    whole = max(width(line) for cell in cells for line in cell.split("\n"))
    least = max(width(piece.strip()) for cell in cells for piece in _pieces(cell, number) or [""])
    return whole, least, least if number else min(least, SHORTEST)


def _fit(sizes: Sequence[tuple[int, int, int]]) -> list[int]:
    """Widths of columns that fit the terminal: the widest gives way first, in pieces, and only then within names."""
    room = _columns() - 3 * len(sizes) - 1  # borders and blanks
    found = [whole for whole, _, _ in sizes]
    for least in ([own for _, own, _ in sizes], [own for _, _, own in sizes], [1] * len(sizes)):
        while sum(found) > room and (wide := [i for i, own in enumerate(found) if own > least[i]]):
            found[max(wide, key=lambda i: found[i])] -= 1
    return found


def _pieces(text: str, number: bool) -> list[str]:
    """The parts of a cell that stay whole: of names also those behind a mark."""
    parts = breakable(text)
    return parts if number else [piece for part in parts for piece in MARKED.findall(part)]


def _fold(cell: str, number: bool, room: int) -> list[str]:
    """The lines of a cell in so many columns; what is longer than a line is left to the table."""
    return [line for own in cell.split("\n") for line in _join(_pieces(own, number), room) or [""]]


def _columns() -> int:
    """The width of the terminal, 120 where there is none."""
    return max(80, shutil.get_terminal_size((120, 24)).columns)
