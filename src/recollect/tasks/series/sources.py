"""Where series come from: the known sets, those that need no file, or a file of the user's own."""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np

from ...data import known
from ...data.files import DataError, StrPath
from ...data.known import KnownFile, KnownSet
from .table import HeaderName, Table, read_table
from .times import Times

_ETT = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/"


def _known(name: str, about: str, licence: str, file: KnownFile) -> KnownSet:
    return KnownSet(name=name, about=about, licence=licence, splits={"train": (file,)})


SETS: dict[str, KnownSet] = {
    "etth1": _known(
        "etth1",
        "Electricity Transformer Temperature, hourly: 17,420 rows of 7 columns, 2016 to 2018",
        "CC BY-ND 4.0",
        KnownFile(
            path="ett/ETTh1.csv.gz",
            sha256="3c56c865b8f6fc9b760a07f055ff8a993d3cf2a747235dc382b98821ed35f029",
            text_sha256="f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
            size=2_589_657,
            address=_ETT + "ETTh1.csv",
        ),
    ),
    "ettm1": _known(
        "ettm1",
        "Electricity Transformer Temperature, every 15 minutes: 69,680 rows of 7 columns",
        "CC BY-ND 4.0",
        KnownFile(
            path="ett/ETTm1.csv.gz",
            sha256="ca45123028f1acad120b5f971ca64594746aa9b881d56cdff589ee9aa6cdbd8f",
            text_sha256="6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",
            size=10_360_719,
            address=_ETT + "ETTm1.csv",
        ),
    ),
    "exchange": _known(
        "exchange",
        "Exchange rates of 8 currencies, daily, 1990 to 2016: 7,588 rows without header and dates",
        "not stated",
        KnownFile(
            path="exchange_rate/exchange_rate.txt.gz",
            sha256="6a4fbb561dcdee43f071a83badbeec9223a335552278348656738b556f1c2e9d",
            text_sha256="0127465b51e3cd3c360f8eb2be30cfd294689a2a55903eb8245aafc396626c7f",
            size=546_336,
        ),
    ),
}
COUNTS = {"etth1": (8_640, 2_880, 2_880), "ettm1": (34_560, 11_520, 11_520)}  # the rows that all papers use
PERIODS = {"etth1": 24, "ettm1": 96, "exchange": 1}
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
    """sin(rate·t) with normal noise, t = 1 … points (d2l's); from point `change` on the rate is another one."""
    rates = np.full(points, rate)
    if change is not None:
        rates[change:] = new_rate
    return np.sin(np.cumsum(rates)) + np.random.default_rng([draw, 11]).normal(0, noise, points)


def open_table(
    source: str,
    *,
    target: Sequence[str] = (),
    time: str | None = None,
    header: HeaderName = "auto",
    draw: int = 0,
    data_dir: StrPath | None = None,
) -> Table:
    """A file, a known set, or one of the series that need no file."""
    if source == "sine":
        points = noisy_sine(draw=draw)
        texts = [str(t) for t in range(1, len(points) + 1)]
        times = Times(texts, [Decimal(text) for text in texts], Decimal(1))
        return Table("sine", ("x",), points[:, None], times, list(range(1, len(points) + 1)))
    if source == "sunspots":
        found = read_table(Path(__file__).with_name("sunspots.csv"), time="year")
        return replace(found, path="sunspots")
    if source in SETS:
        found = read_table(
            known.find_files(SETS[source].splits, data_dir)["train"][0], target=target, time=time, header=header
        )
        return replace(found, path=source)
    if not Path(source).expanduser().exists():
        near = difflib.get_close_matches(source, NAMES, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise DataError(f"expected a CSV file or one of {', '.join(NAMES)}, found nothing at {source}{meant}")
    return read_table(source, target=target, time=time, header=header)
