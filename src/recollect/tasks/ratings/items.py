"""Files about items: titles, and features set by hand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...data.byte_files import StrPath, path_of
from ...data.errors import DataError
from .rated import Rows, Truth
from .settings import TRUTH
from .tables import is_number, short, table


def read_titles(path: Path, items: Sequence[str]) -> tuple[str, ...]:
    names = {cells[0]: cells[1] for _, cells in table(path, least=2)}
    return tuple(names.get(item, item) for item in items)


def read_features(
    source: StrPath, items: Sequence[str], truth: Truth | None, rows: Rows
) -> tuple[np.ndarray, list[str]]:
    """The hand-set features of the items in their order, and notes; an item without any has zeros."""
    if str(source) == TRUTH:
        if truth is None:
            raise DataError(f"expected a file of features, found {TRUTH!r}, which only generated ratings have")
        by_name = {name: truth.items[number] for number, name in enumerate(rows.item_names)}
        return np.stack([by_name[item] for item in items]).astype(np.float32), []
    path, wanted = path_of(source), set(items)
    found: dict[str, list[float]] = {}
    width = None
    for number, cells in table(path, least=2, number_at=1):
        width = width or len(cells)
        if len(cells) != width or not all(map(is_number, cells[1:])):
            raise DataError(
                f"expected an item and {width - 1} numbers as in the first line, found {short(' '.join(cells))} in "
                f"line {number:,} of {path}; mend or remove that line"
            )
        if cells[0] in wanted:
            found[cells[0]] = [float(cell) for cell in cells[1:]]
    if not found or width is None:
        raise DataError(f"expected features of items that are rated, found none in {path}; are its items named alike?")
    nothing = [0.0] * (width - 1)
    matrix = np.array([found.get(item, nothing) for item in items], np.float32)
    missing = len(items) - len(found)
    return matrix, [f"{missing:,} of {len(items):,} items have no features in {path}"] if missing else []
