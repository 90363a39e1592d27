"""The regular grid of a table: rows sorted by time, each at its place, with empty rows where some are missing."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from ....data.errors import DataError
from .clock import Clock, Moments
from .layout import AggregateName
from .steps import Step, describe_step, floor, later, parse_step, steps_between, usual_step
from .times import Times

SPARSE = 20  # times as many rows as the table has: a grid with more is no grid of its


class Grid(NamedTuple):
    """The rows of a table at their places."""

    values: np.ndarray  # N S F: each series' own columns; NaN where nothing stands
    times: Times
    rows: list[int | None]  # the line of each in the file; None where a missing one was put in
    notes: list[str]


def place_rows(
    values: np.ndarray,
    moments: Moments,
    texts: Sequence[str],
    rows: Sequence[int],
    series: np.ndarray,
    path: str,
    *,
    every: str | None = None,
    aggregate: AggregateName = "mean",
    even: bool = False,
) -> Grid:
    """Put rows (N F, each of the series whose number `series` has) on the grid that most of them lie on, or on `every`.

    What comes twice, or falls into one step of `every`, is aggregated. Where rows lie beside the grid of most, a table
    of one series is taken as even in the order of its times, with a note; with `even` any change is refused.
    """
    found, clock, notes = moments
    notes = list(notes)
    at = np.array([i for i, moment in enumerate(found) if moment is not None])
    if not len(at):
        raise DataError(f"{path}: expected rows with times of the zone, found none; leave --zone out, or name another")
    count = int(series.max()) + 1
    notes += _sorted_note([found[i] for i in at], series[at], [rows[i] for i in at], path)
    at = np.array(sorted(at.tolist(), key=lambda i: found[i]))  # stable: what comes twice stays in its order
    own, kept, lines = [found[i] for i in at], series[at], [rows[i] for i in at]
    dated = clock.style != "number"
    step: Step = parse_step(every, dated) if every is not None else None
    if every is not None:
        own = [floor(moment, step) for moment in own]
        notes.append(f"{path}: resampled to {describe_step(step)}, by the {aggregate} of what lies in it")
    distinct = sorted(set(own))
    if step is None:
        step = usual_step([sorted({own[i] for i in np.flatnonzero(kept == s)}) for s in range(count)])
    first = {moment: lines[i] for i, moment in reversed(list(enumerate(own)))}
    places = {moment: steps_between(distinct[0], moment, step) for moment in distinct}
    beside = [moment for moment in distinct if places[moment] is None]
    if beside:
        what = (
            f"{len(beside):,} rows beside the grid of {describe_step(step)}, the first row {first[beside[0]]:,}; "
            "put them on one with --every, such as --every "
        ) + ("1h" if dated else "1")
        if even or count > 1:
            raise DataError(f"{path}: expected even time steps, found {what}")
        notes.append(f"{path}: found {what}; until then rows are taken as if they were even")
        places = {moment: place for place, moment in enumerate(distinct)}
    size = places[distinct[-1]] + 1  # type: ignore[operator]
    if size > SPARSE * len(distinct) + 1000:
        raise DataError(
            f"{path}: expected rows that fill a grid of {describe_step(step)}, found {len(distinct):,} for {size:,} "
            "steps; name a longer step with --every, or take out the rows that lie far away"
        )
    target = np.array([places[moment] for moment in own]) * count + kept  # of each row in N·S
    if len(np.unique(target)) < len(target) and every is None:
        repeated, counts = np.unique(target, return_counts=True)
        again = repeated[counts > 1][0]
        second = lines[np.flatnonzero(target == again)[1]]
        what = (
            f"times that come more than once: {int((counts > 1).sum()):,}, with other values "
            f"{_differing(values[at], target):,}, again first in row {second:,}"
        )
        if even:
            raise DataError(f"{path}: expected each time once, found that {what}; set even=false, or mend the file")
        zone = "; if clocks were put back there, name the --zone" if dated and clock.zone is None else ""
        notes.append(f"{path}: {what}; the {aggregate} of each is taken (aggregate){zone}")
    gathered = _gather(values[at], target, size * count, aggregate).reshape(size, count, values.shape[1])
    if beside:
        grid = distinct
    else:
        grid = [later(distinct[0], step, k) for k in range(size)]
        missing = size - len(distinct)
        if missing:
            gap = next(moment for moment in grid if moment not in places)
            what = f"{missing:,} of {size:,} rows are missing on the grid of {describe_step(step)}"
            if even:
                raise DataError(
                    f"{path}: expected even time steps, found that {what}, the first at {clock.write(gap)}; set "
                    "even=false, or mend the file"
                )
            skipped = _skips_hour(grid, places, step, clock)
            zone = "; if clocks were put forward there, name the --zone" if skipped else ""
            notes.append(f"{path}: {what}, the first at {clock.write(gap)}: put in as empty rows{zone}")
    written: dict[Any, str] = (
        {} if every is not None else {moment: texts[int(at[i])] for i, moment in reversed(list(enumerate(own)))}
    )
    shown = [written.get(moment) or clock.write(moment) for moment in grid]
    return Grid(gathered, Times(shown, grid, step, clock), [first.get(moment) for moment in grid], notes)


def _sorted_note(moments: list[Any], series: np.ndarray, rows: list[int], path: str) -> list[str]:
    """A note of rows that stand after a later one of their series."""
    latest: dict[int, Any] = {}
    early = []
    for moment, own, row in zip(moments, series.tolist(), rows, strict=True):
        if own in latest and moment < latest[own]:
            early.append(row)
        else:
            latest[own] = moment
    if not early:
        return []
    notes: list[str] = []
    notes.append(
        f"{path}: rows that stand after a later one: {len(early):,}, the first row {early[0]:,}; sorted by time"
    )
    return notes


def _differing(values: np.ndarray, target: np.ndarray) -> int:
    """At how many places rows (N F) do not all have the same values; what is missing differs from nothing."""
    order = np.argsort(target, kind="stable")
    own, place = values[order], target[order]
    other = (own[1:] != own[:-1]) & ~np.isnan(own[1:]) & ~np.isnan(own[:-1])
    return len(np.unique(place[1:][other.any(axis=1) & (place[1:] == place[:-1])]))


def _skips_hour(grid: list[Any], places: dict[Any, Any], step: Step, clock: Clock) -> bool:
    """Whether a gap of times without a zone is the hour of a Sunday night in which clocks are put forward."""
    hour = timedelta(hours=1)
    if clock.style == "number" or clock.zone is not None or not isinstance(step, timedelta) or hour % step:
        return False
    rows, length = len(grid), hour // step
    for at, moment in enumerate(grid):
        if moment in places or moment.weekday() != 6 or moment.hour > 3 or moment.minute:
            continue
        after = at + length
        if grid[at - 1] in places and after < rows and not any(each in places for each in grid[at:after]):
            return grid[after] in places
    return False


def _gather(values: np.ndarray, target: np.ndarray, size: int, aggregate: AggregateName) -> np.ndarray:
    """Rows at their places (size F): several at one place aggregated over those that are not missing."""
    found = np.full((size, values.shape[1]), np.nan)
    if len(np.unique(target)) == len(target):
        found[target] = values
        return found
    there = ~np.isnan(values)
    if aggregate == "last":
        for own, use, column in zip(values.T, there.T, found.T, strict=True):
            column[target[use]] = own[use]  # a later row replaces an earlier one
        return found
    sums, counts = np.zeros_like(found), np.zeros(found.shape, dtype=np.int64)
    np.add.at(sums, target, np.where(there, values, 0.0))
    np.add.at(counts, target, there)
    some = counts > 0
    found[some] = sums[some] / (counts[some] if aggregate == "mean" else 1)
    return found
