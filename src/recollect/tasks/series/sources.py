"""Sources of time series: known sets, generated and built-in series, or a file."""

import difflib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np

from ...data.byte_files import StrPath, path_of
from ...data.errors import DataError
from ...data.known import SeriesSet, sets_of
from .tables.layout import Layout
from .tables.table import Table, read_table
from .tables.times import Times

SETS = sets_of(SeriesSet)
MADE = ("sine", "sunspots")  # need no file
SINE = (1_000, 600, 100)  # points; of them for training; of these, the last so many to choose by
NAMES = (*MADE, *SETS)


def noisy_sine(
    points: int = SINE[0],
    draw: int = 0,
    *,
    noise: float = 0.2,
    rate: float = 0.01,
    change: int | None = None,
    new_rate: float = 0.03,
) -> np.ndarray:
    """sin(rate·t) with Gaussian noise, t = 1 … points (d2l's); from point `change` on with `new_rate`."""
    rates = np.full(points, rate)
    if change is not None:
        rates[change:] = new_rate
    return np.sin(np.cumsum(rates)) + np.random.default_rng([draw, 11]).normal(0, noise, points)


def open_table(
    source: str, layout: Layout | None = None, *, even: bool = False, draw: int = 0, data_dir: StrPath | None = None
) -> Table:
    """The table of a file, a known set, or a built-in series."""
    layout = layout or Layout()
    if source == "sine":
        points = noisy_sine(draw=draw)
        texts = [str(t) for t in range(1, len(points) + 1)]
        times = Times(texts, [Decimal(text) for text in texts], Decimal(1))
        return Table("sine", ("x",), points[:, None], times, list(range(1, len(points) + 1)))
    if source == "sunspots":
        found = read_table(Path(__file__).with_name("sunspots.csv"), Layout(time="year"))
        return replace(found, path="sunspots")
    if source in SETS:
        path = SETS[source].find(data_dir)["train"][0]
        return replace(read_table(path, layout, even=even), path=source)
    if not path_of(source).exists():
        near = difflib.get_close_matches(source, NAMES, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise DataError(f"expected a CSV file or one of {', '.join(NAMES)}, found nothing at {source}{meant}")
    return read_table(source, layout, even=even)
