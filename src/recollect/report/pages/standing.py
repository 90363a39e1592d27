"""Who stands where in a heat, and whether that is more than luck: arithmetic over rows, no drawing."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core import numbers
from . import explain
from .metric import Metric


@dataclass
class Entry:
    """One model (or rung) of a heat with all its seeds."""

    name: str
    rows: list[dict[str, Any]] = field(default_factory=list)  # those that finished, by seed
    failed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def model(self) -> str:
        return str((self.rows or self.failed)[0].get("model") or self.name)

    @property
    def values(self) -> list[float]:
        return [row["metric"]["value"] for row in self.rows]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def counted(self) -> bool:
        """Whether it only counts: then every seed is the same, and one row is all there is to know."""
        return bool(self.rows) and all(numbers.known(row.get("entries")) for row in self.rows)

    @property
    def unfair(self) -> list[str]:
        """Why it is not on equal terms, each reason once, in words."""
        found = dict.fromkeys(str(reason) for row in self.rows for reason in row.get("unfair") or [])
        return [explain.REASONS.get(reason, reason) for reason in found]

    def average(self, key: str) -> float | None:
        """The mean over seeds of a number in its rows."""
        found = [row[key] for row in self.rows if numbers.known(row.get(key))]
        return statistics.fmean(found) if found else None


def entries(heat: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[Entry]:
    """The entries of a heat, in the order of its rungs or else of their rows."""
    order = [str(rung["name"]) for rung in heat.get("rungs") or []]
    found: dict[str, Entry] = {}
    for row in rows:
        if row.get("heat") != heat["name"]:
            continue
        name = str(row.get("rung") or row.get("entry") or row.get("model"))
        entry = found.setdefault(name, Entry(name))
        good = not isinstance(row.get("error"), str) and numbers.known((row.get("metric") or {}).get("value"))
        (entry.rows if good else entry.failed).append(row)
    for entry in found.values():
        entry.rows.sort(key=lambda row: row.get("seed") or 0)
    return sorted(found.values(), key=lambda e: order.index(e.name) if e.name in order else len(order))


def ranked(found: Sequence[Entry], better: str) -> list[Entry]:
    """Those that finished, the best mean first."""
    return sorted((e for e in found if e.rows), key=lambda e: e.mean, reverse=better == "higher")


def ahead(first: Sequence[float], second: Sequence[float], better: str) -> bool:
    """Whether every seed of the first beats every seed of the second."""
    return min(first) > max(second) if better == "higher" else max(first) < min(second)


@dataclass(frozen=True)
class Gain:
    """What a change bought, counted so that more is better: mean and range over seeds that both sides have."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def verdict(self) -> str:
        if self.seeds < 2:
            return "one seed: no spread is known"
        if self.low > 0:
            return "better with every seed"
        return "worse with every seed" if self.high < 0 else "no difference that seeds agree on"


def gain(before: Entry, after: Entry, better: str) -> Gain | None:
    """Seed by seed where they share seeds, else of the means; None where one of them has no result."""
    if not before.rows or not after.rows:
        return None
    sign = 1 if better == "higher" else -1
    old = {row.get("seed"): row["metric"]["value"] for row in before.rows}
    new = {row.get("seed"): row["metric"]["value"] for row in after.rows}
    if before.counted:
        old = dict.fromkeys(new, before.mean)
    elif after.counted:
        new = dict.fromkeys(old, after.mean)
    steps = [sign * (new[seed] - old[seed]) for seed in new if seed in old]
    steps = steps or [sign * (after.mean - before.mean)]
    return Gain(statistics.fmean(steps), min(steps), max(steps), len(steps))


def baselines(found: Sequence[Entry], metric: Metric, watched: dict[str, Any] | None) -> list[tuple[str, float]]:
    """What guesses without a network get, from the rows, each name once, by the measure of the heat.

    Rows have them by what validation watches: of another kind they cannot be compared, and of shares it is the error.
    """
    if watched and watched.get("name") != metric.name:
        return []
    flipped = bool(watched) and metric.better == "higher"
    named: dict[str, float] = {}
    for entry in found:
        for row in entry.rows:
            for name, value in (row.get("baselines") or {}).items():
                if numbers.known(value):
                    named.setdefault(str(name), 1 - value if flipped else value)
    return list(named.items())


def curve(entry: Entry, key: str) -> list[tuple[float, float, float]]:
    """The mean, least and greatest over seeds of a list in its rows, as far as all seeds reach."""
    lists = [row[key] for row in entry.rows if row.get(key)]
    return [spread(place) for place in zip(*lists, strict=False)]


def learning(entry: Entry) -> list[list[tuple[float, float, float]]]:
    """Tokens, seconds and value on the way, each as mean, least and greatest, at the steps that all seeds share.

    Where they share none (a budget of seconds), the first seed stands for all.
    """
    curves = [{point[0]: point[1:] for point in row["learning"]} for row in entry.rows if row.get("learning")]
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    if curves and not shared:
        curves, shared = curves[:1], sorted(curves[0])
    return [[spread(column) for column in zip(*(one[step] for one in curves), strict=True)] for step in shared]


def spread(values: Sequence[Any]) -> tuple[float, float, float]:
    known = [float(value) for value in values if numbers.known(value)]
    if not known:
        return math.nan, math.nan, math.nan
    return statistics.fmean(known), min(known), max(known)


def numbered(values: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Before each stands its place, from 1 on."""
    return [(float(place), *value) for place, value in enumerate(values, 1)]


def binned(values: Sequence[tuple[float, ...]], most: int) -> list[tuple[float, ...]]:
    """Neighbours averaged until there are at most so many; bins grow with the place, to look alike by its logarithm."""
    count = len(values)
    cuts = sorted({0, count, *(round((count + 1) ** (i / most)) - 1 for i in range(most + 1))})
    found = []
    for start, end in itertools.pairwise(cuts):
        columns = zip(*values[start:end], strict=True)
        found.append(((start + end + 1) / 2, *(statistics.fmean(column) for column in columns)))
    return found
