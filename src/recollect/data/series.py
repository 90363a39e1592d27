"""Series of numbers: a table with a time column, cleaned, split by order, with the scale of its training part.

A table is CSV, plain or gzip, with or without a header, with commas, semicolons or tabs between its cells (and then
perhaps decimal commas). Whatever cannot be a number or a time is refused with file, row and column; a row is a line of
the file, counted from 1.
"""

import csv
import difflib
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..core.files import write_aside
from . import known
from .known import KnownFile, KnownSet
from .text import DataError, StrPath, chunks

FillName = Literal["linear", "mask", "refuse"]
HeaderName = Literal["auto", "yes", "no"]

MISSING = {"", "nan", "na", "n/a", "null", "none", "?", "-"}
TIMES = {"date", "time", "datetime", "timestamp", "year", "month", "day"}  # what a time column is called
STYLES = ("%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%Y-%m")
SLASHED = tuple(f"{day}{clock}" for day in ("%d/%m/%Y", "%m/%d/%Y") for clock in ("", " %H:%M", " %H:%M:%S"))
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
SEASONS = 1_000  # the longest period that is looked for


# ------------------------------------------------------------------------------------------------ known sets

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


# ------------------------------------------------------------------------------------------------ times


@dataclass(frozen=True, eq=False)
class Times:
    """The times of a table's rows, as they stand there, and how they go on."""

    texts: list[str]
    moments: list[Any]  # Decimal, or datetime
    step: Any  # Decimal, timedelta, or months as an int
    style: str = "number"  # "number", "iso", or a format of strftime
    odd: int = 0  # steps that are not `step`
    odd_row: int | None = None  # the first row that follows after another one

    def __len__(self) -> int:
        return len(self.texts)

    def part(self, start: int, stop: int) -> "Times":
        return replace(self, texts=self.texts[start:stop], moments=self.moments[start:stop])

    def after(self, count: int) -> list[str]:
        """The `count` times that follow the last one."""
        try:
            return [self._write(_later(self.moments[-1], self.step, k)) for k in range(1, count + 1)]
        except (OverflowError, ValueError):
            raise DataError(
                f"expected times up to the year 9999, found {count:,} steps of {self.step} after {self.texts[-1]}"
            ) from None

    def _write(self, moment: Any) -> str:
        if self.style == "number":
            return format(moment, "f")
        if self.style != "iso":
            return moment.strftime(self.style)
        like = self.texts[-1].strip()
        if len(like) <= 10:
            return moment.date().isoformat()
        precise = "seconds" if like.count(":") >= 2 else "minutes" if ":" in like else "hours"
        return moment.isoformat(sep=like[10], timespec="auto" if moment.microsecond else precise)


def _later(moment: Any, step: Any, k: int) -> Any:
    if not isinstance(step, int):
        return moment + k * step
    month = moment.month - 1 + k * step
    year, month = moment.year + month // 12, month % 12 + 1
    for day in (moment.day, 30, 29, 28):  # the last day of a month goes on to the last day of the next
        try:
            return moment.replace(year=year, month=month, day=day)
        except ValueError:
            continue
    raise OverflowError(year)


def _times(cells: list[str], rows: list[int], path: str, column: str) -> Times:
    """Read a time column: plain numbers, ISO dates with or without a time, one of STYLES or of SLASHED."""
    read, style = _slashed(cells, path, column) or _reader(cells[0])
    moments: list[Any] = []
    for cell, row in zip(cells, rows, strict=True):
        try:
            moments.append(read(cell.strip()))
        except (ValueError, InvalidOperation):
            raise DataError(
                f"{path}, row {row:,}, column {column!r}: expected a time like {cells[0]!r} (2016-07-01, "
                f"2016-07-01 13:00 or a number), found {cell!r}; mend it, or name another column with --time"
            ) from None
    for i in range(1, len(moments)):
        try:
            forward = moments[i] > moments[i - 1]
        except TypeError:
            raise DataError(
                f"{path}, row {rows[i]:,}, column {column!r}: expected times all with a zone or all without, "
                f"found {cells[i]!r} after {cells[i - 1]!r}"
            ) from None
        if not forward:
            raise DataError(
                f"{path}, row {rows[i]:,}, column {column!r}: expected a time after {cells[i - 1]!r}, "
                f"found {cells[i]!r}; sort the rows by time, each time once"
            )
    step, strays = _step(moments, style)
    first = None if not strays else rows[strays[0]]
    return Times(cells, moments, step, style, len(strays), first)


def _slashed(cells: list[str], path: str, column: str) -> tuple[Callable[[str], Any], str] | None:
    """How 01/02/2020 is meant, if the column is written so: day or month first, whichever lets more of it rise.

    Where both let as much rise, the one in which more can be read; where that does not tell either, nothing does.
    """
    found = {style: moments for style in SLASHED if any(moments := [_moment(cell, style) for cell in cells])}
    if not found:
        return None
    ranks = {
        style: (sum(1 for a, b in pairwise(own) if a and b and a < b), sum(1 for moment in own if moment))
        for style, own in found.items()
    }
    best = [style for style in found if ranks[style] == max(ranks.values())]
    if any(found[style] != found[best[0]] for style in best):
        raise DataError(
            f"{path}, column {column!r}: expected times that show which comes first, found {cells[0].strip()!r} and "
            "others that may have the day or the month first; write the year first, as 2020-02-01"
        )
    return (lambda text: datetime.strptime(text, best[0])), best[0]


def _moment(cell: str, style: str) -> datetime | None:
    try:
        return datetime.strptime(cell.strip(), style)
    except ValueError:
        return None


def _reader(cell: str) -> tuple[Callable[[str], Any], str]:
    """How the times of a column are written, judged by the first."""
    cell = cell.strip()
    if NUMBER.fullmatch(cell) and not (len(cell) == 8 and _is(datetime.fromisoformat, cell)):
        return _finite, "number"
    if _is(datetime.fromisoformat, cell):
        return datetime.fromisoformat, "iso"
    for style in (*STYLES, *SLASHED):
        if _is(lambda text, style=style: datetime.strptime(text, style), cell):
            return (lambda text, style=style: datetime.strptime(text, style)), style
    return datetime.fromisoformat, "iso"


def _finite(text: str) -> Decimal:
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    return Decimal(text)


def _is(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _step(moments: list[Any], style: str) -> tuple[Any, list[int]]:
    """The step that most rows follow the one before by, and the rows that do not."""
    if len(moments) < 2:
        return (Decimal(1) if style == "number" else timedelta(days=1)), []
    steps = [b - a for a, b in pairwise(moments)]
    if style != "number" and len(set(steps)) > 1 and min(steps) >= timedelta(days=28):
        months = {(b.year - a.year) * 12 + b.month - a.month for a, b in pairwise(moments)}
        if len(months) == 1 and all(m == _later(moments[0], min(months), i) for i, m in enumerate(moments)):
            return min(months), []
    usual, _ = Counter(steps).most_common(1)[0]
    return usual, [i + 1 for i, step in enumerate(steps) if step != usual]


# ------------------------------------------------------------------------------------------------ tables


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file that were asked for, as numbers; NaN where one is missing."""

    path: str
    columns: tuple[str, ...]
    values: np.ndarray  # N C float64
    times: Times
    rows: list[int]  # the line of each row in the file


def read_table(
    path: StrPath,
    *,
    target: Sequence[str] = (),
    time: str | None = None,
    header: HeaderName = "auto",
) -> Table:
    """The `target` columns of a CSV file (all but the time column where none is named)."""
    name = str(path)
    cells, rows, comma = _cells(Path(path).expanduser(), name)
    first = cells[0]
    headed = header == "yes" or (header == "auto" and any(_is_word(cell) for cell in first))
    names = [cell.strip() or f"column {i}" for i, cell in enumerate(first, 1)] if headed else None
    names = names or [str(i) for i in range(1, len(first) + 1)]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise DataError(f"{name}, row {rows[0]:,}: expected each column's name once, found {twice!r} twice; rename one")
    if headed:
        cells, rows = cells[1:], rows[1:]
    if not cells:
        raise DataError(f"{name}: expected rows of numbers, found only a header; give more rows")
    for row, found in zip(rows, cells, strict=True):
        if len(found) != len(names):
            raise DataError(
                f"{name}, row {row:,}: expected {len(names)} columns as in the first row, found {len(found)}; "
                "mend that row (quote what holds a separator)"
            )
    place = _time_column(names, cells[0], time, name)
    wanted = [_named(column, names, name, "--target") for column in target]
    wanted = wanted or [i for i in range(len(names)) if i != place]
    if place in wanted:
        raise DataError(f"{name}: expected other columns than the time column {names[place]!r} as --target")
    if not wanted:
        raise DataError(
            f"{name}: expected a column of numbers beside the time column {names[place or 0]!r}, found none"
        )
    values = np.stack([_numbers([r[i] for r in cells], rows, name, names[i], comma) for i in wanted], axis=1)
    if place is None:
        count = len(cells)
        times = Times([str(i) for i in range(count)], [Decimal(i) for i in range(count)], Decimal(1))
    else:
        times = _times([r[place] for r in cells], rows, name, names[place])
    return Table(name, tuple(names[i] for i in wanted), values, times, rows)


def _cells(path: Path, name: str) -> tuple[list[list[str]], list[int], bool]:
    """The cells of each line that is not blank, the line it begins on, and whether a comma may be a decimal one."""
    lines = "".join(chunks(path)).replace("\r", "\n").split("\n")
    bare = re.sub(r'"[^"]*"', "", next((line for line in lines if line.strip()), ""))
    mark = next((mark for mark in "\t;," if mark in bare), ",")
    reader = csv.reader((line + "\n" for line in lines), delimiter=mark, skipinitialspace=True)
    cells, rows, line = [], [], 1
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):  # separators alone are a row of missing values
                cells.append(row)
                rows.append(line)
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, row {reader.line_num:,}: expected CSV, found something else ({error})") from None
    if not cells:
        raise DataError(f"{name}: expected a table of numbers, found blank lines")
    return cells, rows, mark != ","


def _is_word(cell: str) -> bool:
    """Whether a cell can only be a column's name: no number, nothing missing, no time."""
    cell = cell.strip()
    if cell.lower() in MISSING or NUMBER.fullmatch(cell.replace(",", ".", 1)):
        return False
    read, _ = _reader(cell)
    return not _is(read, cell)


def _time_column(names: list[str], first: list[str], time: str | None, path: str) -> int | None:
    if time is not None:
        return _named(time, names, path, "--time")
    if names[0].lower() in TIMES:
        return 0
    cell = first[0].strip()
    read, style = _reader(cell) if cell.lower() not in MISSING else (_finite, "number")
    return 0 if style != "number" and _is(read, cell) else None


def _named(column: str, names: list[str], path: str, flag: str) -> int:
    if column in names:
        return names.index(column)
    close = difflib.get_close_matches(column, names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    some = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    raise DataError(f"{path}: expected {flag} to be one of its columns ({some}), found {column!r}{meant}")


def _numbers(cells: list[str], rows: list[int], path: str, column: str, comma: bool) -> np.ndarray:
    """One column; NaN where a number is missing."""
    try:
        if not any("_" in cell for cell in cells):
            found = np.array([float(cell) for cell in cells])
            if not np.isinf(found).any():
                return found
    except ValueError:
        pass  # something in it needs a closer look
    found = np.empty(len(cells))
    for i, cell in enumerate(cells):
        text = cell.strip()
        if comma and text.count(",") == 1 and "." not in text:
            text = text.replace(",", ".")
        if text.lower() in MISSING:
            found[i] = math.nan
        elif NUMBER.fullmatch(text) and math.isfinite(float(text)):
            found[i] = float(text)
        else:
            raise DataError(
                f"{path}, row {rows[i]:,}, column {column!r}: expected a number, found {cell!r}; mend it, leave it "
                "empty if it is missing, or choose other columns with --target"
            )
    return found


# ------------------------------------------------------------------------------------------------ cleaning


def trim(table: Table) -> tuple[Table, list[str]]:
    """The rows from where every column has begun up to where the first ends, and a note where that leaves any out."""
    seen = ~np.isnan(table.values)
    for column, own in zip(table.columns, seen.T, strict=True):
        if not own.any():
            raise DataError(f"{table.path}: expected numbers in column {column!r}, found none; leave it out (--target)")
    start = int(max(own.argmax() for own in seen.T))
    stop = len(seen) - int(max(own[::-1].argmax() for own in seen.T))
    if stop <= start:
        raise DataError(
            f"{table.path}: expected columns that overlap in time, found none such row; choose some with --target"
        )
    notes = []
    for count, where, row in (
        (start, "begin", table.rows[start]),
        (len(seen) - stop, "end", table.rows[stop - 1]),
    ):
        if count:
            verb = "begins at" if where == "begin" else "ends with"
            notes.append(f"{table.path}: {count:,} rows at the {where} miss a value; what is used {verb} row {row:,}")
    part = replace(
        table, values=table.values[start:stop], times=table.times.part(start, stop), rows=table.rows[start:stop]
    )
    return part, notes


def close_gaps(table: Table, fill: FillName) -> tuple[np.ndarray, list[str]]:
    """The values without gaps (`table` is trimmed), and a note of how many there were.

    `linear` draws a line between the neighbours of a gap. `mask` holds the last value, which needs no look at the
    future; what was missing is then never counted, neither in the loss nor in the metrics.
    """
    values, missing = table.values.copy(), np.isnan(table.values)
    if not missing.any():
        return values, []
    if fill == "refuse":
        row, column = (int(i[0]) for i in np.nonzero(missing))
        raise DataError(
            f"{table.path}, row {table.rows[row]:,}, column {table.columns[column]!r}: expected a number, found a "
            "missing one; set fill=linear or fill=mask, or fill it in the file"
        )
    for own, gaps in zip(values.T, missing.T, strict=True):
        at = np.flatnonzero(~gaps)
        if fill == "linear":
            own[gaps] = np.interp(np.flatnonzero(gaps), at, own[at])
        else:
            own[gaps] = own[at[np.searchsorted(at, np.flatnonzero(gaps)) - 1]]
    how = {"linear": "filled by lines between their neighbours", "mask": "held at the last value and never counted"}
    return values, [f"{table.path}: {int(missing.sum()):,} of {missing.size:,} values are missing: {how[fill]}"]


# ------------------------------------------------------------------------------------------------ scale


@dataclass(frozen=True)
class Scaler:
    """What a run keeps of its data: mean and deviation of each column in the training part, and its season.

    `naive` is the mean absolute error of the seasonal naive forecast there, in scaled units: the unit of MASE; 0 in a
    column that never changes.
    """

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    naive: tuple[float, ...]
    period: int

    def shrink(self, values: np.ndarray) -> np.ndarray:
        """Raw → scaled; the last axis is the columns."""
        return (values - np.array(self.mean)) / np.array(self.deviation)

    def stretch(self, values: np.ndarray) -> np.ndarray:
        """Scaled → raw."""
        return values * np.array(self.deviation) + np.array(self.mean)

    def save(self, path: Path) -> None:
        write_aside(path, (json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> "Scaler":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path}: expected a scaler in JSON, found something else ({error})") from error
        names = [field.name for field in fields(cls)]
        if not isinstance(content, dict) or sorted(content) != sorted(names):
            raise DataError(f"{path}: expected a scaler with {', '.join(names)}, found other keys")
        lists = [content[name] for name in ("columns", "mean", "deviation", "naive")]
        if not all(isinstance(part, list) and len(part) == len(lists[0]) > 0 for part in lists):
            raise DataError(f"{path}: expected one entry for each column in every list of the scaler")
        numbers = [value for part in lists[1:] for value in part]
        if not all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers):
            raise DataError(f"{path}: expected finite numbers in the scaler, found others")
        if not all(isinstance(column, str) for column in lists[0]) or min(content["deviation"]) <= 0:
            raise DataError(f"{path}: expected names of columns and deviations above 0 in the scaler")
        period = content["period"]
        if not isinstance(period, int) or isinstance(period, bool) or period < 1:
            raise DataError(f"{path}: expected a period of at least 1 in the scaler, found {period!r}")
        columns, mean, deviation, naive = (tuple(part) for part in lists)
        return cls(columns, mean, deviation, naive, period)


def fit_scaler(columns: Sequence[str], train: np.ndarray, period: int | None, path: str) -> tuple[Scaler, list[str]]:
    """The scale of the training part; a constant column keeps its own."""
    with np.errstate(all="ignore"):
        mean, deviation = train.mean(axis=0), train.std(axis=0)
    wild = ~(np.isfinite(mean) & np.isfinite(deviation))
    if wild.any():
        column = columns[int(wild.argmax())]
        raise DataError(f"{path}: expected numbers of a size that can be squared, found larger ones in {column!r}")
    # what is left of a constant after rounding is no deviation
    still = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    notes = []
    if still.any():
        names = ", ".join(repr(column) for column, flat in zip(columns, still, strict=True) if flat)
        notes.append(f"{path}: constant in the training part, so left unscaled: {names}")
        deviation = np.where(still, 1.0, deviation)
    scaled = (train - mean) / deviation
    period = period or season(scaled)
    naive = np.zeros(len(columns))
    for lag in (min(period, len(scaled) - 1), 1):  # a season that repeats to the bit is no unit: then the last value's
        if 0 < lag < len(scaled):
            naive = np.where(naive > 0, naive, np.abs(scaled[lag:] - scaled[:-lag]).mean(axis=0))
    plain = tuple(mean.tolist()), tuple(deviation.tolist()), tuple(naive.tolist())
    return Scaler(tuple(columns), *plain, period), notes


def season(values: np.ndarray) -> int:
    """The period of the strongest repetition, by autocorrelation with the trend taken out; 1 where there is none."""
    count = len(values)
    longest = min(SEASONS, count // 3)
    if longest < 3:
        return 1
    line = np.stack([np.ones(count), np.linspace(-1, 1, count)], axis=1)
    rest = values - line @ np.linalg.lstsq(line, values, rcond=None)[0]
    power = np.abs(np.fft.rfft(rest, 2 * count, axis=0)) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        lags = np.fft.irfft(power, axis=0)[: longest + 2]
        lags = np.nan_to_num(lags / lags[0]).mean(axis=1)
    lags = lags * count / (count - np.arange(len(lags)))  # fewer pairs lie far apart
    lows = np.minimum.accumulate(lags)
    # a season comes back after it went away: a peak must stand clear of what lies before it
    rise = max(0.1, 4 / math.sqrt(count))  # of hundreds of chance correlations the largest is about 3/√count
    peaks = [k for k in range(2, longest + 1) if lags[k - 1] < lags[k] >= lags[k + 1] and lags[k] > lows[k] + rise]
    if not peaks:
        return 1
    best = max(lags[k] for k in peaks)
    return 1 if best < rise else next(k for k in peaks if lags[k] >= 0.9 * best)


# ------------------------------------------------------------------------------------------------ series


@dataclass(frozen=True, eq=False)
class Series:
    """Columns of numbers over time, whole and in order, cut into parts."""

    name: str
    columns: tuple[str, ...]
    values: np.ndarray  # N C float64, raw, without gaps
    seen: np.ndarray  # N C, True where something was measured and counts
    times: Times
    splits: dict[str, tuple[int, int]]  # from row to row
    scaler: Scaler
    fingerprint: str
    notes: list[str]


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
    """A series ready to be cut into windows. With a `scaler` its columns are read and its scale is used.

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
    table, notes = trim(table)
    times = table.times
    if times.odd:
        found = (
            f"{times.odd:,} steps of another length than {_told(times.step)}, the first before row {times.odd_row:,}"
        )
        if even:
            raise DataError(f"{table.path}: expected even time steps, found {found}; set even=false, or mend the file")
        notes.append(f"{table.path}: {found}; rows are taken as if they were even")
    values, more = close_gaps(table, fill)
    notes += more
    splits = _split(table.path, len(values), valid_share, test_share, whole)
    if table.path == "sine" and not whole:
        notes.append(f"sine: validation is the last {SINE[2]} of the {SINE[1]} training points; the test is apart")
    if scaler is None:
        start, stop = splits["train"]
        scaler, more = fit_scaler(table.columns, values[start:stop], period or PERIODS.get(table.path), table.path)
        notes += more
    seen = ~np.isnan(table.values) if fill == "mask" else np.ones(values.shape, dtype=bool)
    digest = hashlib.sha256(json.dumps([table.columns, splits, fill]).encode())
    for part in (values, seen, "\n".join(times.texts).encode()):
        digest.update(np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else part)
    name = table.path if table.path in NAMES else Path(table.path).name
    return Series(name, table.columns, values, seen, times, splits, scaler, digest.hexdigest(), notes)


def _told(step: Any) -> str:
    return f"{step} months" if isinstance(step, int) else str(step)


def _split(name: str, count: int, valid: float, test: float, whole: bool) -> dict[str, tuple[int, int]]:
    if whole:
        return dict.fromkeys(("train", "valid", "test"), (0, count))
    if name == "sine":
        return {"train": (0, SINE[1]), "valid": (SINE[1] - SINE[2], SINE[1]), "test": (SINE[1], SINE[0])}
    if name in COUNTS:
        counts: Iterable[int] = COUNTS[name]
    else:
        rest = int(count * test)
        train = int(count * (1 - valid - test) + 1e-9)
        counts = (train, count - train - rest, rest)
    edges = [0, *np.cumsum(list(counts)).tolist()]
    return {part: (edges[i], edges[i + 1]) for i, part in enumerate(("train", "valid", "test"))}
