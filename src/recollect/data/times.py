"""The time column of a table: dates or numbers read as they are written, the step between them, and how they go on."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from .text import DataError

STYLES = ("%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%Y-%m")
SLASHED = tuple(f"{day}{clock}" for day in ("%d/%m/%Y", "%m/%d/%Y") for clock in ("", " %H:%M", " %H:%M:%S"))
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


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


def read_times(cells: list[str], rows: list[int], path: str, column: str) -> Times:
    """Read a time column: plain numbers, ISO dates with or without a time, one of STYLES or of SLASHED."""
    read, style = _slashed(cells, path, column) or reader_of(cells[0])
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


def reader_of(cell: str) -> tuple[Callable[[str], Any], str]:
    """How the times of a column are written, judged by the first."""
    cell = cell.strip()
    if NUMBER.fullmatch(cell) and not (len(cell) == 8 and can_read(datetime.fromisoformat, cell)):
        return finite, "number"
    if can_read(datetime.fromisoformat, cell):
        return datetime.fromisoformat, "iso"
    for style in (*STYLES, *SLASHED):
        if can_read(lambda text, style=style: datetime.strptime(text, style), cell):
            return (lambda text, style=style: datetime.strptime(text, style)), style
    return datetime.fromisoformat, "iso"


def finite(text: str) -> Decimal:
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    return Decimal(text)


def can_read(read: Callable[[str], Any], text: str) -> bool:
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
