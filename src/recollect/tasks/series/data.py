"""Time series: a table with a time column, gaps closed, split in time, scaled by its training part.

A table is CSV, plain or gzip, with or without a header, with commas, semicolons, tabs or bars between its cells (and
but for commas perhaps decimal commas in them). Whatever cannot be a number or a time is refused with file, row and
column; a row is a line of the file, counted from 1.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...data.files import DataError, StrPath
from .covariates import NOTHING, Beside, fit_covariates, read_beside
from .scaler import Scaler, fit_scaler
from .sources import MADE, NAMES, SETS, SINE, open_table
from .tables.gaps import FillName, close_gaps, trim, used_rows
from .tables.layout import Layout
from .tables.steps import describe_step
from .tables.table import Table
from .tables.times import Times


@dataclass(frozen=True, eq=False)
class Series:
    """A multivariate time series without gaps, with its splits and scaler."""

    name: str
    columns: tuple[str, ...]
    values: np.ndarray  # N C float64, raw, without gaps
    seen: np.ndarray  # N C, True where something was measured and counts
    times: Times
    splits: dict[str, tuple[int, int]]  # from row to row
    scaler: Scaler
    fingerprint: str
    notes: list[str]
    beside: Beside = NOTHING
    missing: Mapping[str, int] = field(default_factory=dict)  # values of each part that the table lacks


def load(
    source: str = "sine",
    layout: Layout | None = None,
    *,
    fill: FillName = "linear",
    even: bool = False,
    period: int | None = None,
    valid_share: float = 0.1,
    test_share: float = 0.2,
    whole: bool = False,
    draw: int = 0,
    calendar: bool | None = None,
    data_dir: StrPath | None = None,
    scaler: Scaler | None = None,
) -> Series:
    """Read a time series. With a `scaler`, its columns are read and its scale is used.

    The parts follow one another in time: by shares, or by the counts that a known set is always used with. With
    `whole` every part is all of it, as when a run is measured on another file.
    """
    layout = layout or Layout()
    if scaler is not None and source not in MADE and layout.id is None:
        layout = replace(layout, target=scaler.columns)
    table = open_table(source, layout, even=even, draw=draw, data_dir=data_dir)
    if scaler is not None:
        table = match_run(table, scaler)
    whole_table, (first, last) = table, used_rows(table)
    table, values, seen, notes = prepare(table, fill)
    splits = _split(table.path, len(values), valid_share, test_share, whole)
    if table.path == "sine" and not whole:
        notes.append(f"sine: validation is the last {SINE[2]} of the {SINE[1]} training points; the test is apart")
    if scaler is None:
        start, stop = splits["train"]
        period = period or (SETS[table.path].period if table.path in SETS else None)
        scaler, more = fit_scaler(table.columns, values[start:stop], period, table.path, seen[start:stop])
        scaler = replace(scaler, step=describe_step(table.times.step) if table.times.named else None)
        made = bool(layout.known) and table.times.style != "number" if calendar is None else calendar
        covariates, also = fit_covariates(table, len(layout.known), splits["train"], made)
        scaler = replace(scaler, covariates=covariates)
        notes += more + also
    beside = read_beside(whole_table.part(first, len(whole_table.values)), scaler.covariates, last - first, 0)
    digest = hashlib.sha256(json.dumps([table.columns, splits, fill]).encode())
    numbers = [values, seen, *(part for part in beside if part is not None)]
    for part in (*numbers, "\n".join(table.times.texts).encode()):
        digest.update(np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else part)
    name = table.path if table.path in NAMES else Path(table.path).name
    lacks = np.isnan(table.values)
    return Series(
        name=name,
        columns=table.columns,
        values=values,
        seen=seen,
        times=table.times,
        splits=splits,
        scaler=scaler,
        fingerprint=digest.hexdigest(),
        notes=notes,
        beside=beside,
        missing={part: int(lacks[start:stop].sum()) for part, (start, stop) in splits.items()},
    )


def prepare(table: Table, fill: FillName) -> tuple[Table, np.ndarray, np.ndarray, list[str]]:
    """The rows that are used, their values without gaps, which of them count, and notes of what was changed."""
    table, notes = trim(table)
    values, counts, more = close_gaps(table, fill)
    return table, values, counts, [*table.notes, *notes, *more]


def match_run(table: Table, scaler: Scaler) -> Table:
    """A table with the series of a run, in its order, on its grid; what does not fit is refused."""
    columns = scaler.columns
    if not set(columns) <= set(table.columns) or (table.columns != columns and not table.apart):
        raise DataError(
            f"{table.path}: expected the columns of the run ({', '.join(columns)}), found {', '.join(table.columns)}"
        )
    step = describe_step(table.times.step)
    if scaler.step is not None and table.times.named and len(table.times) > 1 and step != scaler.step:
        raise DataError(
            f"{table.path}: expected a row every {scaler.step}, as the run was trained on, found one every {step}; "
            "give such a table, or train with --every, which resamples"
        )
    if table.columns == columns:
        return table
    places = [table.columns.index(column) for column in columns]
    given = None if table.given is None else table.given[:, places]
    return replace(table, columns=columns, values=table.values[:, places], given=given)


def _split(name: str, count: int, valid: float, test: float, whole: bool) -> dict[str, tuple[int, int]]:
    if whole:
        return dict.fromkeys(("train", "valid", "test"), (0, count))
    if name == "sine":
        return {"train": (0, SINE[1]), "valid": (SINE[1] - SINE[2], SINE[1]), "test": (SINE[1], SINE[0])}
    counts = SETS[name].rows if name in SETS else None
    if counts is None:
        rest = int(count * test)
        train = int(count * (1 - valid - test) + 1e-9)
        counts = (train, count - train - rest, rest)
    edges = [0, *np.cumsum(counts).tolist()]
    return {part: (edges[i], edges[i + 1]) for i, part in enumerate(("train", "valid", "test"))}
