"""Tables for the terminal."""

import io
import shutil
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def render(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, lines: bool = False) -> str:
    """A table as wide as the terminal (120 columns where there is none); numbers stand right."""
    rows = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", show_lines=lines)
    for i, column in enumerate(columns):
        numeric = bool(rows) and all(row[i][:1] in "0123456789-−–±" for row in rows)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    page = io.StringIO()
    Console(file=page, width=max(80, shutil.get_terminal_size((120, 24)).columns)).print(table)
    return page.getvalue()
