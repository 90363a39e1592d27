"""The results of each entrant of a heat over its seeds, and by how much one leads another. This module needs no torch.

A lead counts where its 95 % interval leaves out 0. The interval is Student's, of paired differences: seed by seed where
two seeds are shared; else, of one seed, piece by piece of what was measured, the same pieces for both.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, NamedTuple

from ..core import numbers
from .rows import Row

SIZE_TOLERANCE = 0.25  # relative difference in parameters beyond which entries are not comparable
LEAST_PIECES = 10  # below which pieces give no interval
NORMAL = 1.959964  # what 95 % of a normal variable stay within, in deviations
STUDENT = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)


class Reason(NamedTuple):
    """Why an entry is not comparable with the others: as a note on the race, and as a sentence about the entry."""

    note: str
    sentence: str


REASONS = {
    "data": Reason("trained or measured on other data or another split", "it learned from other data"),
    "tokenizer": Reason("another tokenizer", "it read another kind of tokens"),
    "batch": Reason("another batch", "its batches had another size"),
    "size": Reason(
        f"parameters more than {SIZE_TOLERANCE:.0%} off",
        "its number of parameters is off by more than a quarter from what was asked for",
    ),
    "search": Reason(
        "a learning rate sought otherwise than those of the others",
        "its learning rate was sought otherwise than those of the others",
    ),
    "cost": Reason(
        "FLOPs or bytes of state declared that are not those counted, and so not shown",
        "it declares FLOPs or bytes of state that are not those counted, so that they are not shown",
    ),
    "memory": Reason("ran out of memory", "it ran out of memory"),
}


@dataclass
class Standing:
    """Results of one model, or one rung of a ladder, over all its seeds."""

    name: str
    rows: list[Row] = field(default_factory=list)  # of runs that finished, by seed
    failed: list[Row] = field(default_factory=list)

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
        """Whether the model only counts: then every seed gives the same, and one row is enough."""
        return bool(self.rows) and all(numbers.known(row.get("entries")) for row in self.rows)

    @property
    def pieces(self) -> list[float]:
        """The metric on each piece of what the one seed was measured on; none of several seeds."""
        return self.rows[0].get("pieces") or [] if len(self.rows) == 1 else []

    @property
    def unfair(self) -> list[str]:
        """Keys of `REASONS`, each once."""
        return list(dict.fromkeys(str(reason) for row in self.rows for reason in row.get("unfair") or []))

    @property
    def unfair_sentences(self) -> list[str]:
        return [REASONS[reason].sentence if reason in REASONS else reason for reason in self.unfair]

    def average(self, key: str) -> float | None:
        """The mean over seeds of a number in the rows."""
        found = [row[key] for row in self.rows if numbers.known(row.get(key))]
        return statistics.fmean(found) if found else None


def group_rows(rows: Iterable[Row], order: Sequence[str] = ()) -> list[Standing]:
    """The standing of every entrant of one heat, in this order, or else in that of the rows."""
    found: dict[str, Standing] = {}
    for row in rows:
        name = str(row.get("rung") or row.get("entry") or row.get("model"))
        standing = found.setdefault(name, Standing(name))
        good = not isinstance(row.get("error"), str) and numbers.known((row.get("metric") or {}).get("value"))
        (standing.rows if good else standing.failed).append(row)
    for standing in found.values():
        standing.rows.sort(key=lambda row: row.get("seed") or 0)
    return sorted(found.values(), key=lambda s: order.index(s.name) if s.name in order else len(order))


def rank(standings: Iterable[Standing], better: str) -> list[Standing]:
    """Entrants that finished, the best mean first."""
    return sorted((s for s in standings if s.rows), key=lambda s: s.mean, reverse=better == "higher")


class Lead(NamedTuple):
    """By how much one entrant is ahead of another: the mean difference, its 95 % interval, and what it is over."""

    mean: float
    low: float
    high: float
    number: int
    over: str  # seeds, pieces or counts

    @property
    def clear(self) -> bool:
        return self.low > 0

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def student(freedom: int) -> float:
    """What 95 % of Student's t stay within, by its degrees of freedom (Cornish and Fisher's expansion beyond ten)."""
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z, n = NORMAL, freedom
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + sum(term / n**power for power, term in enumerate(terms, 1))


def interval(differences: Sequence[float], over: str) -> Lead | None:
    """The mean of differences with its interval; None for fewer than two."""
    count = len(differences)
    if count < 2:
        return None
    mean = statistics.fmean(differences)
    reach = student(count - 1) * statistics.stdev(differences) / sqrt(count)
    return Lead(mean, mean - reach, mean + reach, count, over)


def measure_lead(first: Standing, second: Standing, sign: int) -> Lead | None:
    """How far `first` is ahead, counted so that more is better; None where nothing gives an interval."""
    if first.counted and second.counted and not (first.pieces and second.pieces):
        mean = sign * (first.mean - second.mean)
        return Lead(mean, mean, mean, 1, "counts")
    by_seed = [_values_by_seed(one, other) for one, other in ((first, second), (second, first))]
    shared = [seed for seed in by_seed[0] if seed in by_seed[1]]
    if len(shared) > 1:
        return interval([sign * (by_seed[0][seed] - by_seed[1][seed]) for seed in shared], "seeds")
    return _over_pieces(first.pieces, second.pieces, sign, sign * (first.mean - second.mean))


def measure_margin(standing: Standing, value: float, sign: int) -> Lead | None:
    """How far an entrant is ahead of a figure without a spread, such as that of a guess."""
    if len(standing.rows) > 1:
        return interval([sign * (own - value) for own in standing.values], "seeds")
    return _over_pieces(standing.pieces, [value] * len(standing.pieces), sign, sign * (standing.mean - value))


def _over_pieces(first: Sequence[float], second: Sequence[float], sign: int, mean: float) -> Lead | None:
    """The interval around the mean difference, which that of pieces of nearly one size may miss a little."""
    if len(first) != len(second) or len(first) < LEAST_PIECES:
        return None
    found = interval([sign * (a - b) for a, b in zip(first, second, strict=True)], "pieces")
    off = mean - found.mean if found else 0.0
    return found and found._replace(mean=mean, low=found.low + off, high=found.high + off)


def _values_by_seed(standing: Standing, other: Standing) -> Mapping[Any, float]:
    """The metric by seed; what is counted has the same for every seed of the other."""
    if standing.counted and not other.counted:
        return {row.get("seed"): standing.mean for row in other.rows}
    return {row.get("seed"): row["metric"]["value"] for row in standing.rows}
