"""Where an axis of dates has its ticks, and what is written there."""

from datetime import datetime, timedelta

EPOCH = datetime(1970, 1, 1)
DAY = 86_400.0
STEPS = (60, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY, 2 * DAY, 7 * DAY, 14 * DAY)  # seconds
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000)


def seconds(time: datetime) -> float:
    """A place on the axis; a date with a time zone stands at its own clock's time."""
    return (time.replace(tzinfo=None) - EPOCH).total_seconds()


def date_ticks(start: float, end: float, most: int) -> list[tuple[float, str]]:
    """At most about so many, at whole minutes, hours, days, months or years."""
    rough = (end - start) / max(1, most)
    step = next((step for step in STEPS if step >= rough), None)
    if step is not None:
        first = -(-start // step) * step
        values = [first + i * step for i in range(int((end - first) // step) + 1)]
        return [(value, _clock(value, step)) for value in values]
    step = next((months for months in MONTHS if months * 30.44 * DAY >= rough), MONTHS[-1])
    began = EPOCH + timedelta(seconds=start)
    month = -(-(began.year * 12 + began.month - 1) // step) * step
    found = []
    while month < 9999 * 12:
        at = datetime(month // 12, month % 12 + 1, 1)
        if seconds(at) > end:
            break
        if seconds(at) >= start:
            found.append((seconds(at), f"{at.year}" if step % 12 == 0 else f"{at.year}-{at.month:02}"))
        month += step
    return found


def _clock(value: float, step: float) -> str:
    at = EPOCH + timedelta(seconds=value)
    if step >= DAY:
        return f"{at.year}-{at.month:02}-{at.day:02}"
    clock = f"{at.hour:02}:{at.minute:02}"
    if step >= STEPS[7]:
        return f"{at.month:02}-{at.day:02} {clock}"
    return clock if at.hour or at.minute else f"{at.month:02}-{at.day:02}"
