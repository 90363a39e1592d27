"""The time column of a table: dates or numbers read as they are written, the step between them, and how they go on."""

import re
from calendar import monthrange
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, NamedTuple

from ...data.files import DataError

STYLES = ("%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%Y-%m")
SLASHED = tuple(f"{day}{clock}" for day in ("%d/%m/%Y", "%m/%d/%Y") for clock in ("", " %H:%M", " %H:%M:%S"))
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class Months(NamedTuple):
    """A step of whole months, always to the same day, or to a month's last where it has no such day."""

    number: int
    day: int  # 31: the last one of every month

    def __str__(self) -> str:
        return f"{self.number} months" if self.number > 1 else "1 month"


class Weekdays(NamedTuple):
    """A step to the next day from Monday to Friday."""

    def __str__(self) -> str:
        return "1 weekday"


@dataclass(frozen=True, eq=False)
class Times:
    """The times of a table's rows, as they stand there, and how they go on."""

    texts: list[str]
    moments: list[Any]  # Decimal, or datetime
    step: Any  # Decimal, timedelta, Months or Weekdays
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
        return _like(self.texts[-1].strip(), moment)


def _like(text: str, moment: datetime) -> str:
    """A moment as the ISO `text` is written: with or without hyphens and colons, as precise, Z as Z."""
    basic = text[:8].isdigit()
    rest = text[8 if basic else 10 :]
    if not rest:
        found = moment.date().isoformat()
        return found.replace("-", "") if basic else found
    clock, _, fraction = re.split("[Z+-]", rest[1:])[0].partition(".")
    if fraction or moment.microsecond:
        precise = "milliseconds" if len(fraction) == 3 else "microseconds"
    else:
        precise = {2: "hours", 4: "minutes"}.get(sum(map(str.isdigit, clock)), "seconds")
    found = moment.isoformat(sep=rest[0], timespec=precise)
    if text.endswith("Z"):
        found = found.removesuffix("+00:00") + "Z"
    return found.replace("-", "", 2).replace(":", "") if basic else found


def _later(moment: Any, step: Any, k: int) -> Any:
    if isinstance(step, Weekdays):
        weeks, day = divmod(moment.weekday() + k, 5)
        return moment + timedelta(weeks=weeks, days=day - moment.weekday())
    if not isinstance(step, Months):
        return moment + k * step
    month = moment.month - 1 + k * step.number
    year, month = moment.year + month // 12, month % 12 + 1
    return moment.replace(year=year, month=month, day=min(step.day, monthrange(year, month)[1]))


def read_times(cells: list[str], rows: list[int], path: str, column: str) -> Times:
    """Read a time column: plain numbers, ISO dates with or without a time, one of STYLES or of SLASHED."""
    read, style = _slashed(cells, path, column) or reader_of(cells[0])
    moments: list[Any] = []
    for cell, row in zip(cells, rows, strict=True):
        try:
            moments.append(read(cell.strip()))
        except (ValueError, InvalidOperation):
            like = "" if cell == cells[0] else f" like {cells[0]!r}"
            raise DataError(
                f"{path}, row {row:,}, column {column!r}: expected a time{like} (2016-07-01, 2016-07-01 13:00 or a "
                f"number), found {cell!r}; mend it, or name another column with --time"
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
    steps: list[Any] = [b - a for a, b in pairwise(moments)]
    if style != "number" and min(steps) >= timedelta(days=28) and (day := _day_of_month(moments)):
        steps = [Months((b.year - a.year) * 12 + b.month - a.month, day) for a, b in pairwise(moments)]
    elif style != "number" and timedelta(days=3) in steps and all(moment.weekday() < 5 for moment in moments):
        steps = [Weekdays() if b == _later(a, Weekdays(), 1) else b - a for a, b in pairwise(moments)]
    usual, _ = Counter(steps).most_common(1)[0]
    return usual, [i + 1 for i, step in enumerate(steps) if step != usual]


def _day_of_month(moments: list[datetime]) -> int | None:
    """The day that all rows fall on, or on their month's last where it has no such day; None where they do not."""
    lasts = [monthrange(moment.year, moment.month)[1] for moment in moments]
    day = max(moment.day for moment in moments)
    if all(moment.day == last for moment, last in zip(moments, lasts, strict=True)):
        day = 31
    same = all(
        moment.day == min(day, last) and moment.time() == moments[0].time()
        for moment, last in zip(moments, lasts, strict=True)
    )
    return day if same else None
