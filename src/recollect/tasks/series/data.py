"""Time series: a table with a time column, gaps closed, split in time, scaled by its training part.

A table is CSV, plain or gzip, with or without a header, with commas, semicolons, tabs or bars between its cells (and
but for commas perhaps decimal commas in them). Whatever cannot be a number or a time is refused with file, row and
column; a row is a line of the file, counted from 1.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...data.files import DataError, StrPath
from .gaps import FillName, close_gaps, trim
from .scaler import Scaler, fit_scaler
from .sources import MADE, NAMES, SETS, SINE, open_table
from .table import HeaderName, Table
from .times import Times


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


def load(
    source: str = "sine",
    *,
    target: Sequence[str] = (),
    time: str | None = None,
    header: HeaderName = "auto",
    fill: FillName = "linear",
    even: bool = False,
    period: int | None = None,
    valid_share: float = 0.1,
    test_share: float = 0.2,
    whole: bool = False,
    draw: int = 0,
    data_dir: StrPath | None = None,
    scaler: Scaler | None = None,
) -> Series:
    """Read a time series. With a `scaler`, its columns are read and its scale is used.

    The parts follow one another in time: by shares, or by the counts that a known set is always used with. With
    `whole` every part is all of it, as when a run is measured on another file.
    """
    target = scaler.columns if scaler is not None and source not in MADE else target
    table = open_table(source, target=target, time=time, header=header, draw=draw, data_dir=data_dir)
    if scaler is not None and table.columns != scaler.columns:
        raise DataError(
            f"{table.path}: expected the columns of the run ({', '.join(scaler.columns)}), "
            f"found {', '.join(table.columns)}"
        )
    table, values, notes = prepare(table, fill, even)
    splits = _split(table.path, len(values), valid_share, test_share, whole)
    if table.path == "sine" and not whole:
        notes.append(f"sine: validation is the last {SINE[2]} of the {SINE[1]} training points; the test is apart")
    seen = ~np.isnan(table.values) if fill == "mask" else np.ones(values.shape, dtype=bool)
    if scaler is None:
        start, stop = splits["train"]
        period = period or (SETS[table.path].period if table.path in SETS else None)
        scaler, more = fit_scaler(table.columns, values[start:stop], period, table.path, seen[start:stop])
        notes += more
    digest = hashlib.sha256(json.dumps([table.columns, splits, fill]).encode())
    for part in (values, seen, "\n".join(table.times.texts).encode()):
        digest.update(np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else part)
    name = table.path if table.path in NAMES else Path(table.path).name
    return Series(name, table.columns, values, seen, table.times, splits, scaler, digest.hexdigest(), notes)


def prepare(table: Table, fill: FillName, even: bool = False) -> tuple[Table, np.ndarray, list[str]]:
    """The rows that every column has, their values without gaps, and notes of what was changed."""
    table, notes = trim(table)
    times = table.times
    if times.odd:
        step = str(times.step).removesuffix(", 0:00:00")
        found = f"{times.odd:,} steps of another length than {step}, the first before row {times.odd_row:,}"
        if even:
            raise DataError(f"{table.path}: expected even time steps, found {found}; set even=false, or mend the file")
        notes.append(f"{table.path}: {found}; rows are taken as if they were even")
    values, more = close_gaps(table, fill)
    return table, values, notes + more


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
