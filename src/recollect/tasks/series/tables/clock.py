"""How times are written: cells read as moments that can be counted with, and moments written as the cells are.

A moment is a number, a time of a clock on the wall, or a time in UTC where cells have an offset or their zone is named.
Then steps of hours are right when clocks change. Times that all show the same hour of the day count days on the wall.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ....data.errors import DataError
from ....data.limits import TIME, TIME_EXPONENT
from .steps import Months, Step

STYLES = (
    *("%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S"),
    *("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%Y-%m"),
    *("%Y年%m月%d日", "%Y年%m月%d日 %H:%M", "%Y年%m月"),
)
HOURS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
SLASHED = tuple(f"{day}{clock}" for day in ("%d/%m/%Y", "%m/%d/%Y") for clock in HOURS)
QUARTER = re.compile(r"(\d{4})([- ]?)Q([1-4])")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
Read = Callable[[str], Any]


@dataclass(frozen=True)
class Clock:
    """How moments are written in a column."""

    style: str = "number"  # "number", "iso", "quarter", or a format of strftime
    like: str = ""  # a time as it stands there
    zone: tzinfo | None = None  # in which moments are written that are UTC
    utc: bool = False  # whether moments are UTC; else they are the wall's, or numbers
    offset: bool = False  # whether cells say their distance from UTC

    def wall(self, moment: Any) -> datetime:
        """What a clock on the wall shows."""
        return self._local(moment).replace(tzinfo=None)

    def _local(self, moment: Any) -> datetime:
        return moment.replace(tzinfo=UTC).astimezone(self.zone) if self.utc else moment.replace(tzinfo=self.zone)

    def write(self, moment: Any) -> str:
        """A moment as the cells are written."""
        if self.style == "number":
            return format(moment, "f")
        if self.style == "quarter":
            between = found[2] if (found := QUARTER.fullmatch(self.like.strip())) else "-"
            return f"{moment.year:04}{between}Q{(moment.month + 2) // 3}"
        local = self._local(moment) if self.offset else self.wall(moment)
        return local.strftime(self.style) if self.style != "iso" else _like(self.like.strip(), local)


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


class Moments(NamedTuple):
    """The moments of a column, how they are written, and notes of what was changed."""

    found: list[Any]  # None: a time that the zone never had
    clock: Clock
    notes: list[str]


def read_moments(
    cells: Sequence[str],
    rows: Sequence[int],
    path: str,
    column: str,
    *,
    form: str | None = None,
    zone: str | None = None,
    groups: Sequence[Any] | None = None,
    every: Step | None = None,
) -> Moments:
    """Read a time column: numbers, ISO dates with or without a time, quarters, one of STYLES or SLASHED, or by `form`.

    `groups` names the series of each row: an hour that comes twice when clocks go back does so in each of them.
    """
    read, style = reader_for(cells, path, column, form)
    found: list[Any] = []
    for cell, row in zip(cells, rows, strict=True):
        try:
            found.append(read(cell.strip()))
        except ValueError:
            like = "" if cell == cells[0] else f" like {cells[0]!r}"
            what = f"written as {form}" if form else "(2016-07-01, 2016-07-01 13:00 or a number)"
            raise DataError(
                f"{path}, row {row:,}, column {column!r}: expected a time{like} {what}, found {cell!r}; mend it, say "
                "how times are written with --time-format, or name another column with --time"
            ) from None
    if style == "number":
        if zone is not None:
            raise DataError(f"{path}, column {column!r}: expected dates for --zone, found numbers; leave --zone out")
        return Moments(found, Clock(), [])
    aware = found[0].tzinfo is not None
    for at, moment in enumerate(found):
        if (moment.tzinfo is not None) != aware:
            raise DataError(
                f"{path}, row {rows[at]:,}, column {column!r}: expected times all with a zone or all without, "
                f"found {cells[at]!r} after {cells[0]!r}"
            )
    there = None if zone is None else find_zone(zone)
    if not aware and there is None:
        return Moments(found, Clock(style, cells[-1]), [])
    walls = [moment.astimezone(there) if aware and there else moment for moment in found]
    days = timedelta(days=1)
    by_day = isinstance(every, Months) or (isinstance(every, timedelta) and every >= days)
    if by_day or (every is None and len({moment.time() for moment in walls}) == 1):
        clock = Clock(style, cells[-1], there or found[-1].tzinfo, utc=False, offset=aware)
        return Moments([moment.replace(tzinfo=None) for moment in walls], clock, [])
    clock = Clock(style, cells[-1], there or found[-1].tzinfo, utc=True, offset=aware)
    if aware:
        notes: list[str] = []
        offsets = sorted({moment.utcoffset() for moment in found})
        if there is None and len(offsets) > 1:
            notes.append(
                f"{path}: offsets from UTC change between {_offset(offsets[0])} and {_offset(offsets[-1])}: rows are "
                f"placed by UTC, and times ahead keep {_offset(found[-1].utcoffset())}; name the --zone for its clocks"
            )
        return Moments([moment.astimezone(UTC).replace(tzinfo=None) for moment in found], clock, notes)
    assert there is not None
    return _from_walls(found, rows, path, clock, there, groups or [None] * len(found))


def _from_walls(
    found: list[datetime], rows: Sequence[int], path: str, clock: Clock, zone: ZoneInfo, groups: Sequence[Any]
) -> Moments:
    """Times of a clock on the wall in UTC: an hour that comes twice is first the summer's, then the winter's."""
    moments: list[Any] = []
    before: set[tuple[Any, datetime]] = set()
    twice, never = 0, []
    for moment, row, group in zip(found, rows, groups, strict=True):
        again = (group, moment) in before
        before.add((group, moment))
        local = moment.replace(tzinfo=zone, fold=int(again))
        utc = local.astimezone(UTC)
        if utc.astimezone(zone).replace(tzinfo=None) != moment:
            never.append(row)
            moments.append(None)
            continue
        twice += again and local.utcoffset() != local.replace(fold=0).utcoffset()
        moments.append(utc.replace(tzinfo=None))
    notes = []
    if twice:
        notes.append(f"{path}: times that come twice where the clocks of {zone.key} go back: {twice:,}; both are kept")
    if never:
        notes.append(
            f"{path}: rows with a time that the clocks of {zone.key} skip: {len(never):,}, the first row {never[0]:,}; "
            "left out"
        )
    return Moments(moments, clock, notes)


def _offset(offset: timedelta) -> str:
    """+02:00."""
    minutes = int(offset / timedelta(minutes=1))
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise DataError(
            f"--zone: expected a time zone such as Europe/Berlin or UTC, found {name!r} (where none is known, install "
            "the package tzdata)"
        ) from None


def reader_for(cells: Sequence[str], path: str, column: str, form: str | None) -> tuple[Read, str]:
    """How the times of a column are written."""
    if form is not None:
        return lambda text: datetime.strptime(text, form), form
    return _slashed(cells, path, column) or reader_of(cells[0])


def _slashed(cells: Sequence[str], path: str, column: str) -> tuple[Read, str] | None:
    """How 01/02/2020 is meant, if the column is written so: day or month first, whichever lets more of it rise.

    Where both let as much rise, the one in which more can be read; where that does not tell either, nothing does.
    """
    if not any("/" in cell for cell in cells[:3]):
        return None
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
            "others that may have the day or the month first; say which with --time-format %d/%m/%Y or %m/%d/%Y"
        )
    return (lambda text: datetime.strptime(text, best[0])), best[0]


def _moment(cell: str, style: str) -> datetime | None:
    try:
        return datetime.strptime(cell.strip(), style)
    except ValueError:
        return None


def reader_of(cell: str) -> tuple[Read, str]:
    """How the times of a column are written, judged by the first."""
    cell = cell.strip()
    if NUMBER.fullmatch(cell) and not (len(cell) == 8 and can_read(datetime.fromisoformat, cell)):
        return finite, "number"
    if can_read(datetime.fromisoformat, cell):
        return datetime.fromisoformat, "iso"
    if QUARTER.fullmatch(cell):
        return _read_quarter, "quarter"
    for style in (*STYLES, *SLASHED):
        if can_read(lambda text, style=style: datetime.strptime(text, style), cell):
            return (lambda text, style=style: datetime.strptime(text, style)), style
    return datetime.fromisoformat, "iso"


def _read_quarter(text: str) -> datetime:
    """The first day of a quarter such as 1950-Q1."""
    found = QUARTER.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return datetime(int(found[1]), 3 * int(found[3]) - 2, 1)


def finite(text: str) -> Decimal:
    """A time that is a number, of a size with which one can count."""
    if len(text) > TIME or not NUMBER.fullmatch(text):
        raise ValueError(text)
    try:
        found = Decimal(text)
    except InvalidOperation:  # an exponent beyond all
        raise ValueError(text) from None
    if abs(found.adjusted()) > TIME_EXPONENT:
        raise ValueError(text)
    return found


def can_read(read: Read, text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True
