"""Steps of time: what follows a moment, how many steps lie between two, and the step that most rows follow by."""

import re
from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, NamedTuple

from ....data.errors import DataError

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
NAMES = ((604_800, "week"), (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
MONDAY = datetime(1970, 1, 5)  # from where whole steps are counted


class Months(NamedTuple):
    """A step of whole months, always to the same day, or to a month's last where it has no such day."""

    number: int
    day: int  # 31: the last one of every month


class Weekdays(NamedTuple):
    """A step to the next day from Monday to Friday."""


Step = Any  # Decimal, timedelta, Months or Weekdays
Moment = Any  # Decimal or datetime


def describe_step(step: Step) -> str:
    """A step in words, such as `15 minutes`; one of plain numbers as it is."""
    if isinstance(step, Weekdays):
        return "1 weekday"
    if isinstance(step, Months):
        count, name = (step.number, "month") if step.number % 12 else (step.number // 12, "year")
        return f"{count} {name}{'s' * (count > 1)}"
    if not isinstance(step, timedelta):
        return format(step.normalize(), "f")
    for seconds, name in NAMES:
        count, rest = divmod(step, timedelta(seconds=seconds))
        if count and not rest:
            return f"{count:,} {name}{'s' * (count > 1)}"
    return str(step).removesuffix(", 0:00:00")


def later(moment: Moment, step: Step, k: int) -> Moment:
    """The moment `k` steps after another."""
    if isinstance(step, Weekdays):
        weeks, day = divmod(moment.weekday() + k, 5)
        return moment + timedelta(weeks=weeks, days=day - moment.weekday())
    if not isinstance(step, Months):
        return moment + k * step
    month = moment.month - 1 + k * step.number
    year, month = moment.year + month // 12, month % 12 + 1
    return moment.replace(year=year, month=month, day=min(step.day, monthrange(year, month)[1]))


def steps_between(start: Moment, moment: Moment, step: Step) -> int | None:
    """How many steps lead from `start` to a moment; None where no whole number of them does."""
    if isinstance(step, Weekdays):
        weeks = (moment.date() - timedelta(days=moment.weekday())) - (start.date() - timedelta(days=start.weekday()))
        count = weeks.days // 7 * 5 + moment.weekday() - start.weekday()
    elif isinstance(step, Months):
        count = ((moment.year - start.year) * 12 + moment.month - start.month) // step.number
    else:
        count = int((moment - start) // step)
    return count if later(start, step, count) == moment else None


def usual_step(runs: Sequence[Sequence[Moment]]) -> Step:
    """The step by which most moments follow the one before in runs of rising moments."""
    apart = [(a, b) for run in runs for a, b in pairwise(run)]
    dated = any(isinstance(moment, datetime) for run in runs for moment in run[:1])
    if not apart:
        return timedelta(days=1) if dated else Decimal(1)
    steps: list[Any] = [b - a for a, b in apart]
    if dated:
        every = [moment for run in runs for moment in run]
        if min(steps) >= timedelta(days=28) and (day := _day_of_month(every)):
            steps = [Months((b.year - a.year) * 12 + b.month - a.month, day) for a, b in apart]
        elif timedelta(days=3) in steps and all(moment.weekday() < 5 for moment in every):
            steps = [Weekdays() if b == later(a, Weekdays(), 1) else b - a for a, b in apart]
    return Counter(steps).most_common(1)[0][0]


def _day_of_month(moments: Sequence[datetime]) -> int | None:
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


def parse_step(text: str, dated: bool) -> Step:
    """A step as it is typed: 15min, 1h, 1d, 1w, 1mo or 1y; a plain number where times are numbers."""
    wanted = "a step such as 15min, 1h, 1d, 1w, 1mo or 1y" if dated else "a number, as the times are"
    found = re.fullmatch(r"\s*(\d*\.?\d*)\s*([a-z]*)\s*", text)
    if found and bool(found[2]) == dated:
        try:
            count = Decimal(found[1] or "1")
        except InvalidOperation:
            count = Decimal(0)
        if not dated and count > 0:
            return count
        if found[2] in UNITS and 0 < count * UNITS[found[2]] < 10**11:
            return timedelta(seconds=float(count * UNITS[found[2]]))
        months = count * {"mo": 1, "y": 12}.get(found[2], 0)
        if 0 < months == int(months) <= 12_000:
            return Months(int(months), 1)
    raise DataError(f"--every: expected {wanted}, found {text!r}")


def floor(moment: Moment, step: Step) -> Moment:
    """The last whole step at or before a moment: from midnight, from Monday, from January, from 0."""
    if isinstance(step, Months):
        months = (moment.year * 12 + moment.month - 1) // step.number * step.number
        return datetime(months // 12, months % 12 + 1, 1)
    if isinstance(step, timedelta):
        return moment - (moment - MONDAY) % step
    return moment // step * step if moment >= 0 else -(-moment // step) * step - (step if moment % step else 0)
