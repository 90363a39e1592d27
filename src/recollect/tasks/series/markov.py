"""A Markov chain over binned values: what follows depends on the last `order` bins and on nothing else.

STATE   the bins of the last `order` values
UPDATE  drop the oldest, add the bin of the newest
READ    P(next bin | the state), by counting; its mean is the forecast

A bin holds about as many training values as any other, or one value where there are few. A context that was seldom
seen leans on the shorter one inside it (`lean` counts' worth), one that was never seen stands on it alone.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from ...core.settings import ContractError, at_least, check_settings


@dataclass(frozen=True, kw_only=True)
class Config:
    order: int = 1
    bins: int = at_least(2, default=16)
    lean: float = 1.0

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.lean >= 0:
            raise ContractError(f"markov: expected lean of at least 0, found {self.lean}")
        if self.bins**self.order > 1 << 16:
            raise ContractError(
                f"markov: expected at most {1 << 16:,} contexts, found {self.bins} bins to the power {self.order}; "
                "lower bins or order"
            )

    def build(self) -> "Markov":
        return Markov(self)


class Markov:
    """The chain of one series."""

    edges: np.ndarray  # between the bins
    centres: np.ndarray  # the mean of the training values of each bin
    counts: list[dict[tuple[int, ...], Counter[int]]]  # by length of the context: context → next bin → how often

    def __init__(self, config: Config) -> None:
        self.config = config

    def fit(self, values: np.ndarray) -> "Markov":
        """Count the transitions of a series (N numbers)."""
        values = np.asarray(values, dtype=float)
        if len(values) <= self.config.order:
            raise ContractError(f"markov: expected more than {self.config.order} values, found {len(values)}")
        apart = np.unique(values)
        if len(apart) <= self.config.bins:
            self.edges = (apart[:-1] + apart[1:]) / 2
        else:
            # edges are values of the series, each the last of its bin, so that no bin is empty
            shares = np.linspace(0, 1, self.config.bins + 1)[1:-1]
            cuts = np.unique(np.quantile(values, shares, method="inverted_cdf"))
            self.edges = cuts[cuts < apart[-1]]
        bins = self.bin(values)
        self.centres = np.array([values[bins == b].mean() for b in range(len(self.edges) + 1)])
        self.counts = []
        for length in range(self.config.order + 1):
            found: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
            for i in range(length, len(bins)):
                found[tuple(bins[i - length : i].tolist())][int(bins[i])] += 1
            self.counts.append(dict(found))
        return self

    def bin(self, values: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.edges, values, side="left")

    def next_probabilities(self, context: tuple[int, ...]) -> np.ndarray:
        """P(next bin | the last bins)."""
        size = len(self.centres)
        seen = self.counts[len(context)].get(context, Counter())
        own = np.array([seen[b] for b in range(size)], dtype=float)
        total = own.sum()
        if not context:
            return own / total
        if total and not self.config.lean:
            return own / total
        shorter = self.next_probabilities(context[1:])
        return (own + self.config.lean * shorter) / (total + self.config.lean) if total else shorter

    def table(self, horizon: int) -> np.ndarray:
        """The mean forecast of each context for each horizon: horizon × contexts, the newest bin counting in ones."""
        size, order = len(self.centres), self.config.order
        contexts = [tuple(int(b) for b in np.unravel_index(i, (size,) * order)) for i in range(size**order)]
        probabilities = np.stack([self.next_probabilities(context) for context in contexts])  # contexts × bins
        # the context after each next bin: the oldest bin goes, the next one comes last
        after = (np.arange(size**order)[:, None] * size % size**order) + np.arange(size)
        found = np.empty((horizon, size**order))
        value = self.centres[np.arange(size**order) % size]  # of a context: the centre of its newest bin
        for step in range(horizon):
            value = (probabilities * value[after]).sum(axis=1)
            found[step] = value
        return found

    def forecast(self, past: np.ndarray, horizon: int) -> np.ndarray:
        """past: B L, L ≥ order → the means of what follows: B horizon."""
        return self.read(self.table(horizon), past)

    def read(self, table: np.ndarray, past: np.ndarray) -> np.ndarray:
        """The rows of a `table` for each past (B L)."""
        if past.shape[1] < self.config.order:
            raise ContractError(
                f"markov: expected a past of at least {self.config.order} values, found {past.shape[1]}"
            )
        size = len(self.centres)
        place = np.zeros(len(past), dtype=np.int64)
        for bins in self.bin(past[:, past.shape[1] - self.config.order :]).T:
            place = place * size + bins
        return table[:, place].T

    def entries(self) -> int:
        """Transitions that are stored."""
        return sum(len(found) for table in self.counts for found in table.values())
