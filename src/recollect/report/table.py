"""Tables and lists for the terminal."""

import io
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def render(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, lines: bool = False) -> str:
    """A table as wide as the terminal (120 columns where there is none); numbers stand right."""
    rows = [list(row) for row in rows]
    whole = max((len(row[0]) for row in rows), default=0) <= _columns() // 2  # long names are folded, not those beside
    table = Table(title=title, title_justify="left", show_lines=lines)
    for i, column in enumerate(columns):
        numeric = bool(rows) and all(row[i][:1] in "0123456789-−–±" for row in rows)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=i == 0 and whole, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    page = io.StringIO()
    Console(file=page, width=_columns()).print(table)
    return page.getvalue()


def write_entries(name: str, entries: Mapping[str, str]) -> str:
    """A name, and below it its entries, each whole: a long one goes on in the next line, below its beginning."""
    indent = 4 + max(map(len, entries))
    lines = [name]
    for what, text in entries.items():
        first = f"  {what:<{indent - 2}}"
        whole = textwrap.wrap(
            text, _columns(), initial_indent=first, subsequent_indent=" " * indent,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        lines += whole or [first.rstrip()]
    return "\n".join(lines) + "\n"


def _columns() -> int:
    """The width of the terminal, 120 where there is none."""
    return max(80, shutil.get_terminal_size((120, 24)).columns)
