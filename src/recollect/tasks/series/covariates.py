"""What is known beside a series: the calendar, columns that are known ahead, and columns known only so far.

What is known ahead comes first, own columns before the calendar. A cycle of it is made where the training part has at
least two whole ones: days and years are a few waves of their period, a week says which of its days it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from ...data.errors import DataError
from .tables.steps import later
from .tables.table import Table

WAVES = {"day": 3, "year": 2}  # of its period, half of it, …
NUMBERS = {"day": 6, "week": 7, "year": 4}  # that say where a moment lies in a cycle
LENGTHS = {"day": timedelta(days=1), "week": timedelta(days=7), "year": timedelta(days=365.2425)}


@dataclass(frozen=True, kw_only=True)
class Covariates:
    """The covariates of a run, and the scale of the columns among them in its training part."""

    known: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    cycles: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()  # of `known`, then `past`
    deviation: tuple[float, ...] = ()
    apart: bool = False  # whether each series has columns of its own, as in a long table

    @property
    def ahead(self) -> int:
        """How many numbers are known of a point ahead."""
        return len(self.known) + sum(NUMBERS[cycle] for cycle in self.cycles)

    def check(self) -> None:
        count = len(self.known) + len(self.past)
        fits = len(self.mean) == len(self.deviation) == count and set(self.cycles) <= set(NUMBERS)
        if not fits or any(not (math.isfinite(d) and d > 0) for d in self.deviation):
            raise ValueError("covariates: expected a mean and a deviation above 0 for each column, and known cycles")


class Beside(NamedTuple):
    """Covariates of a table, scaled: G series with their own, or one for all. None where there are none."""

    known: np.ndarray | None  # N+H G K
    past: np.ndarray | None  # N G P

    def window(self, start: int, stop: int, ahead: int) -> "Beside":
        """Those of the rows from `start` to `stop`, and what is known `ahead` of them."""
        known = None if self.known is None else self.known[start : stop + ahead]
        return Beside(known, None if self.past is None else self.past[start:stop])


NOTHING = Beside(None, None)


def fit_covariates(table: Table, known: int, train: tuple[int, int], calendar: bool) -> tuple[Covariates, list[str]]:
    """The covariates of a table (`known` of its columns beside are known ahead), by its training rows; and a note."""
    names, notes = table.beside, []
    cycles = find_cycles(table, *train) if calendar else ()
    if calendar:
        found = ", ".join(cycles) or "none: rows that repeat no day, week or year twice in the training part"
        notes.append(f"{table.path}: cycles of the calendar that the model is given: {found}")
    made = Covariates(known=names[:known], past=names[known:], cycles=cycles, apart=table.apart and bool(names))
    if table.given is None:
        return made, notes
    part = table.given[train[0] : train[1]]
    empty = np.isnan(part).all(axis=(0, 1))
    if empty.any():
        column = names[int(empty.argmax())]
        raise DataError(f"{table.path}: expected numbers of {column!r} in the training part, found none; leave it out")
    mean, deviation = np.nanmean(part, axis=(0, 1)), np.nanstd(part, axis=(0, 1))
    deviation = np.where(deviation > 1e-12 * np.maximum(np.abs(mean), 1e-300), deviation, 1.0)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        raise DataError(f"{table.path}: expected numbers of a size that can be squared, found larger ones in {names}")
    return replace(made, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist())), notes


def find_cycles(table: Table, start: int, stop: int) -> tuple[str, ...]:
    """The cycles of which a table's rows see at least two points in one, and the training rows two whole ones."""
    walls = table.times.walls()
    if walls is None:
        raise DataError(
            f"{table.path}: expected times that are dates, which calendar=true needs, found "
            f"{'numbers' if table.times.named else 'none'}; name the column with --time, or leave it out"
        )
    step = later(walls[0], table.times.step, 1) - walls[0]
    span = walls[stop - 1] - walls[start] + step
    return tuple(name for name, length in LENGTHS.items() if 2 * step <= length and 2 * length <= span)


def calendar_numbers(walls: Sequence[datetime], cycles: Sequence[str]) -> np.ndarray:
    """Where moments lie in each cycle: sines and cosines, or which day of the week it is; N W."""
    found = [np.empty((len(walls), 0))]
    for cycle in cycles:
        if cycle == "week":
            found.append(np.eye(7)[[moment.weekday() for moment in walls]])
            continue
        at = np.array([_place(moment, cycle) for moment in walls]) * 2 * np.pi
        waves = [wave(at * k) for k in range(1, WAVES[cycle] + 1) for wave in (np.sin, np.cos)]
        found.append(np.stack(waves, axis=1))
    return np.concatenate(found, axis=1)


def _place(moment: datetime, cycle: str) -> float:
    day = (moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)) / timedelta(days=1)
    if cycle == "day":
        return day
    return (moment.timetuple().tm_yday - 1 + day) / 365.2425


def read_beside(table: Table, covariates: Covariates, stop: int, ahead: int) -> Beside:
    """The covariates of a table's rows up to `stop` and of `ahead` points after them.

    Gaps of what is known ahead are closed by lines, of what is known so far by the last value. What is missing ahead is
    refused.
    """
    own = len(covariates.known)
    values = np.empty((len(table.values), 1, 0)) if table.given is None else table.given
    values = (values - np.array(covariates.mean)) / np.array(covariates.deviation) if values.shape[2] else values
    known = past = None
    if covariates.ahead:
        known = _read_known(table, covariates, values[:, :, :own], stop, ahead)
    if covariates.past:
        past = values[:stop, :, own:].copy()
        _close(past, hold=True)
    return Beside(known, past)


def _read_known(table: Table, covariates: Covariates, values: np.ndarray, stop: int, ahead: int) -> np.ndarray:
    count = stop + ahead
    parts = []
    if covariates.known:
        found = count_known(table, covariates, stop)
        if found < ahead:
            raise DataError(
                f"{table.path}: expected {', '.join(covariates.known)} for {ahead:,} rows after the last value of the "
                f"series, found {found:,}; give rows with these columns alone, or a smaller --horizon"
            )
        own = values[:count].copy()
        _close(own, hold=False)
        parts.append(own)
    if covariates.cycles:
        walls = table.times.walls(max(0, count - len(table.times)))
        if walls is None:
            raise DataError(
                f"{table.path}: expected times that are dates, as the run was trained with a calendar, found "
                f"{'numbers' if table.times.named else 'none'}; give a column of times"
            )
        waves = calendar_numbers(walls[:count], covariates.cycles)[:, None]
        parts.append(waves.repeat(parts[0].shape[1] if parts else 1, axis=1))
    return np.concatenate(parts, axis=2)


def count_known(table: Table, covariates: Covariates, stop: int) -> int:
    """Rows from `stop` on of which everything is there that should be known ahead."""
    if table.given is None or not covariates.known:
        return len(table.values) - stop
    lacks = list(map(bool, np.atleast_1d(np.isnan(table.given[stop:, :, : len(covariates.known)]).any(axis=(1, 2)))))
    return lacks.index(True) if True in lacks else len(lacks)


def _close(values: np.ndarray, hold: bool) -> None:
    """Close the gaps of N G F in place, by lines or by the last value; 0, the mean, where nothing is there."""
    for group in range(values.shape[1]):
        for own in values[:, group].T:
            lacks = np.isnan(own)
            at = np.flatnonzero(~lacks)
            if not len(at):
                own[:] = 0
            elif hold:
                own[lacks] = own[at[(np.searchsorted(at, np.flatnonzero(lacks)) - 1).clip(min=0)]]
                own[: at[0]] = 0
            else:
                own[lacks] = np.interp(np.flatnonzero(lacks), at, own[at])
