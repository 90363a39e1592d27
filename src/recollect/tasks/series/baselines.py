"""Baselines of forecasting: the last value, the last season, the mean, least squares and Markov chains."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...data.files import DataError
from . import markov
from .model import Config as ModelConfig

if TYPE_CHECKING:
    from .task import Batch, SeriesTask

BASELINES = ("naive", "seasonal naive", "mean", "linear", "markov 1", "markov 2")
BINS = 16  # of the Markov chains
RIDGE = 0.0001  # of the least squares


class Baselines:
    """The baselines of a task, those that have something to fit fitted to its training part."""

    def __init__(self, task: "SeriesTask") -> None:
        self.task = task
        self.past = task.data.scaler.shrink(task.data.values)
        self.linear = fit_linear(task)
        self.chains = {order: self._fit_chains(order) for order in (1, 2)}

    @property
    def names(self) -> list[str]:
        return [name for name in BASELINES if name != "linear" or self.linear is not None]

    def forecasts(self, origins: Sequence[int], batch: "Batch") -> Iterator[tuple[str, Tensor]]:
        """The forecast of each baseline for a batch of windows: B H C."""
        period, horizon = self.task.data.scaler.period, batch.y.shape[1]
        yield "naive", batch.x[:, -1:].expand_as(batch.y)
        yield "seasonal naive", self._tensor(repeat_season(self.past, origins, period, horizon))
        yield "mean", torch.zeros_like(batch.y)
        if self.linear is not None:
            yield "linear", self.linear(batch.x)
        for order in self.chains:
            yield f"markov {order}", self._tensor(self._follow_chains(order, origins))

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.task.values)

    def _fit_chains(self, order: int) -> list[tuple[markov.Markov, np.ndarray]]:
        """A Markov chain for each column, with its forecasts."""
        data = self.task.data
        start, stop = data.splits["train"]
        train = data.scaler.shrink(data.values[start:stop])
        chains = [markov.Config(order=order, bins=BINS).build().fit(column) for column in train.T]
        return [(chain, chain.table(self.task.config.horizon)) for chain in chains]

    def _follow_chains(self, order: int, origins: Sequence[int]) -> np.ndarray:
        at = np.asarray(origins)[:, None] + np.arange(-order, 0)
        columns = [
            chain.read(table, self.past[at.clip(min=0), c]) for c, (chain, table) in enumerate(self.chains[order])
        ]
        return np.stack(columns, axis=-1)


def repeat_season(past: np.ndarray, origins: Sequence[int], period: int, horizon: int) -> np.ndarray:
    """The last season, over and over; before there was one, the last value: B H C."""
    first = np.asarray(origins)[:, None]
    lag = np.where(first < period, 1, period)
    return past[first - lag + np.arange(horizon) % lag]


def fit_linear(task: "SeriesTask") -> Callable[[Tensor], Tensor] | None:
    """Least squares from the look-back to each point of the horizon, both less the last value; a little ridge.

    None where too much is missing to fit it.
    """
    columns, config = task.values.shape[1], task.config
    settings = ModelConfig(model="ar", normalise="last", series=columns, lookback=task.lookback, horizon=config.horizon)
    model = settings.build().to(task.device)
    try:
        model.solve(task.measured_windows(joint=False), ridge=RIDGE)
    except DataError:
        return None
    return lambda x: model(x)[..., 0].detach()
