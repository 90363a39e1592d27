"""Tables in memory as files: arrays, tensors, lists, dictionaries, and data frames of pandas or polars, as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import RecollectError

KINDS = "an array (N or N C), a tensor, a list of numbers or rows, a dictionary of columns, or a data frame"


def is_table(data: Any) -> bool:
    """Whether data are a table in memory, and no names of files."""
    if isinstance(data, str) or hasattr(data, "__fspath__") or data is None:
        return False
    if isinstance(data, Sequence):
        return bool(data) and not any(isinstance(each, str) or hasattr(each, "__fspath__") for each in data)
    return isinstance(data, Mapping) or hasattr(data, "__array__") or hasattr(data, "columns")


def to_csv(table: Any, what: str, expected: Sequence[str] = ()) -> str:
    """The table as CSV with a header; times that index a data frame of pandas become its first column.

    Columns without names, as an array has them, are called as `expected`, if there are as many.
    """
    names, columns = read_columns(table, what)
    if len(expected) == len(names) and not (isinstance(table, Mapping) or hasattr(table, "columns")):
        names = list(expected)
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise RecollectError(f"{what}: expected columns of one length, found {', '.join(map(str, sorted(lengths)))}")
    if not columns or not lengths.pop():
        raise RecollectError(f"{what}: expected a table with rows, found an empty one")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    missing = "" if len(columns) > 1 else "nan"  # a blank line is no row
    writer.writerows(zip(*([_cell(value) or missing for value in column] for column in columns), strict=True))
    return text.getvalue()


def read_columns(table: Any, what: str) -> tuple[list[str], list[Sequence[Any]]]:
    """Names and values of the columns."""
    if isinstance(table, Mapping):
        return [str(name) for name in table], [_list(column, what) for column in table.values()]
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):  # pandas, polars and what looks like them
        names = list(table.columns)
        columns = [_list(table[name], what) for name in names]
        index = getattr(table, "index", None)
        if index is not None and getattr(getattr(index, "dtype", None), "kind", "") == "M":  # times
            names, columns = [index.name or "time", *names], [_list(index, what), *columns]
        return [str(name) for name in names], columns
    array = _array(table, what)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise RecollectError(f"{what}: expected {KINDS}, found an array of shape {array.shape}")
    names = ["value"] if array.shape[1] == 1 else [f"column {i}" for i in range(1, array.shape[1] + 1)]
    return names, list(array.T)


def _array(table: Any, what: str) -> np.ndarray:
    try:
        found = table.detach().cpu().numpy() if hasattr(table, "detach") else np.asarray(table)
    except (ValueError, TypeError, RuntimeError) as error:
        raise RecollectError(f"{what}: expected {KINDS}, found {type(table).__name__} ({error})") from None
    if found.dtype.kind not in "iufb":
        raise RecollectError(f"{what}: expected numbers, found {type(table).__name__} of {found.dtype}")
    return found


def _list(column: Any, what: str) -> Sequence[Any]:
    """A column as Python values."""
    if hasattr(column, "detach"):
        column = column.detach().cpu().numpy()
    for method in ("to_list", "tolist"):
        if hasattr(column, method):
            return getattr(column, method)()
    if isinstance(column, Sequence) and not isinstance(column, str):
        return column
    raise RecollectError(f"{what}: expected a column of values, found {type(column).__name__}")


def _cell(value: Any) -> str:
    """A value as a cell: missing ones are empty, times as ISO has them, numbers to their last digit."""
    if value is None or value != value:  # NaN and NaT differ from themselves
        return ""
    if hasattr(value, "isoformat"):
        return value.isoformat(sep=" ") if hasattr(value, "hour") else value.isoformat()
    return repr(float(value)) if isinstance(value, np.floating) else str(value)
