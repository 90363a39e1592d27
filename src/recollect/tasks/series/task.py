"""Forecasting: from `lookback` points of a series to the `horizon` points after them.

Windows for training lie inside the training part. In validation and test every window counts whose horizon lies inside
the part; its look-back may reach back into what comes before, as is usual. Errors are counted in scaled units (mean 0
and deviation 1 in the training part), which is what papers report, and in the data's own.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from einops import rearrange
from torch import Tensor, nn

from ...core.contract import check_settings
from ...core.task import Loss
from ...data.files import DataError
from . import markov
from .data import Series
from .model import Config as ModelConfig
from .model import Forecaster, LossName

BASELINES = ("naive", "seasonal naive", "mean", "linear", "markov 1", "markov 2")
BINS = 16  # of the Markov chains


@dataclass(frozen=True, kw_only=True)
class Config:
    """`loss` is what a point forecast learns by; `choose` the metric by which validation picks the best weights.

    `fit`: a linear autoregression is solved in closed form, with `ridge`, where that is what its loss asks for
    (`auto`), always (`solve`), or trained as everything else (`steps`).
    """

    lookback: int = 96
    horizon: int = 24
    batch: int = 32
    loss: LossName = "mse"
    choose: Literal["mse", "mae"] = "mse"
    fit: Literal["auto", "solve", "steps"] = "auto"
    ridge: float = 0.0
    eval_batch: int = 256

    def __post_init__(self) -> None:
        check_settings(self)


class Batch(NamedTuple):
    x: Tensor  # B L C
    y: Tensor  # B H C
    counts: Tensor | None  # B H C: False where nothing was measured; None: everything was


class Errors:
    """Sums of errors by horizon and column, over windows as they come."""

    def __init__(self, horizon: int, columns: int, device: torch.device | str) -> None:
        zero = torch.zeros(horizon, columns, dtype=torch.float64, device=device)
        self.square, self.absolute, self.count, self.inside, self.wide = (zero.clone() for _ in range(5))
        self.judged = False

    def add(self, mean: Tensor, y: Tensor, counts: Tensor | None, ends: tuple[Tensor, Tensor] | None = None) -> None:
        """mean, y: B H C; `ends` are those of an interval."""
        weight = torch.ones_like(y, dtype=torch.float64) if counts is None else counts.double()
        error = mean.double() - y.double()
        self.square += (weight * error**2).sum(dim=0)
        self.absolute += (weight * error.abs()).sum(dim=0)
        self.count += weight.sum(dim=0)
        if ends is not None and bool(ends[0].isfinite().all()):
            self.judged = True
            self.inside += (weight * ((ends[0] <= y) & (y <= ends[1]))).sum(dim=0)
            self.wide += (weight * (ends[1] - ends[0]).double()).sum(dim=0)


class SeriesTask:
    """A series to forecast."""

    name = "series"
    in_nats = False

    def __init__(self, config: Config, series: Series, device: torch.device | str = "cpu") -> None:
        self.config, self.series = config, series
        self.metric = config.choose
        self.device = torch.device(device)
        scaled = series.scaler.shrink(series.values)
        self.values = torch.from_numpy(scaled).to(self.device, torch.float32)  # N C
        self.seen = None if series.seen.all() else torch.from_numpy(series.seen).to(self.device)
        self.order: tuple[tuple[int, int], np.ndarray] | None = None  # of the windows in the epoch that is under way
        for split in ("train", "valid"):
            self.origins(split)

    def origins(self, split: str, horizon: int | None = None) -> range:
        """The first rows of the horizons of all windows of a split."""
        config, horizon = self.config, horizon or self.config.horizon
        if split not in self.series.splits:
            raise DataError(f"{self.series.name}: expected a split out of train, valid and test, found {split!r}")
        start, stop = self.series.splits[split]
        first = start + config.lookback if split == "train" else max(start, config.lookback)
        if first + horizon > stop:
            back = config.lookback if split == "train" else max(0, config.lookback - start)
            raise DataError(
                f"{self.series.name}: expected at least {back + horizon:,} rows for {split} (look-back "
                f"{config.lookback:,}, horizon {horizon:,}), found {stop - start:,}; give more rows, or a smaller "
                "--lookback or --horizon"
            )
        return range(first, stop - horizon + 1)

    def window(self, origins: Sequence[int] | np.ndarray, horizon: int | None = None) -> Batch:
        """The windows around rows of the series; what lies beyond its end does not count."""
        horizon = horizon or self.config.horizon
        at = torch.as_tensor(np.asarray(origins), device=self.device)[:, None]
        back = torch.arange(-self.config.lookback, 0, device=self.device)
        forth = at + torch.arange(horizon, device=self.device)
        near = forth.clamp(max=len(self.values) - 1)
        y = self.values[near]
        counts = None if self.seen is None else self.seen[near]
        if max(origins) + horizon > len(self.values):
            inside = (forth < len(self.values))[..., None].expand_as(y)
            counts = inside if counts is None else counts & inside
        return Batch(self.values[at + back], y, counts)

    # Training

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Epochs without end, each window once in each, in an order of its own."""
        origins = np.asarray(self.origins(split))
        count = math.ceil(len(origins) / self.config.batch)
        number = start
        while True:
            epoch, place = divmod(number, count)
            if self.order is None or self.order[0] != (seed, epoch):
                self.order = ((seed, epoch), np.random.default_rng([seed, epoch]).permutation(origins))
            yield self.window(self.order[1][place * self.config.batch : (place + 1) * self.config.batch])
            number += 1

    def loss(self, model: nn.Module, batch: Batch, carry: Any = None) -> Loss:
        losses = model.losses(model(batch.x, batch.y), batch.y, self.config.loss)  # type: ignore[operator]
        if batch.counts is None:
            return Loss(losses.mean(), losses.numel())
        return Loss((losses * batch.counts).sum() / batch.counts.sum().clamp(min=1), losses.numel())

    @property
    def repeats(self) -> bool:
        return True

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(batch.x.shape[:2])

    def flops(self, model: Any, *shape: int) -> float:
        return model.cost(*shape).flops

    def solve(self, model: Forecaster) -> None:
        """A linear autoregression in closed form, over every window of the training part."""
        model.solve(self._measured(model.config.channels == "joint"), self.config.ridge)

    def _measured(self, joint: bool) -> Iterator[tuple[Tensor, Tensor]]:
        """Past and future of the training windows whose whole future was measured; each series alone, or `joint`."""
        found = False
        for part in _parts(self.origins("train"), 1024):
            x, y, counts = self.window(part)
            if counts is not None:
                if not joint:
                    x, y, counts = (rearrange(own, "b t c -> (b c) t 1") for own in (x, y, counts))
                whole = counts.all(dim=2).all(dim=1)
                x, y = x[whole], y[whole]
            if len(x):
                found = True
                yield x, y
        if not found:
            raise DataError(
                f"{self.series.name}: expected training windows with every value of their horizon measured, found "
                "none; set fit=steps or fill=linear, or a smaller --horizon"
            )

    # Measuring

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """The rolling backtest: a forecast from every row of a split, and what came of it."""
        origins = self.origins(split)
        errors = self._errors()
        for part in _parts(origins, self.config.eval_batch):
            batch = self.window(part)
            mean, lower, upper = model.look(batch.x)  # type: ignore[operator]
            errors.add(mean, batch.y, batch.counts, (lower, upper))
        level: Any = model.config.level  # type: ignore[union-attr]
        return self.summary(errors, level) | {"windows": len(origins), "rule": self.rule(split)}

    def rule(self, split: str) -> str:
        config = self.config
        return (
            f"{config.lookback} → {config.horizon} points, all {len(self.origins(split)):,} windows of {split}, "
            "scaled by the training part"
        )

    def _errors(self, horizon: int | None = None) -> Errors:
        return Errors(horizon or self.config.horizon, self.values.shape[1], self.device)

    def summary(self, errors: Errors, level: float | None = None) -> dict[str, Any]:
        """Errors of all points, of chosen horizons and of each column."""
        scaler = self.series.scaler
        sizes = np.array(scaler.deviation)
        square, absolute, count, inside, wide = (
            part.cpu().numpy() for part in (errors.square, errors.absolute, errors.count, errors.inside, errors.wide)
        )
        if not count.any():
            raise DataError(f"{self.series.name}: expected something measured in the horizons, found nothing")

        def of(rows: Any) -> dict[str, float | None]:
            total = count[rows].sum()
            own = count[rows].sum(axis=0)  # by column
            apart = absolute[rows].sum(axis=0) / np.maximum(own, 1)
            units = np.array(scaler.naive)
            some = (units > 0) & (own > 0)
            found = {
                "mse": square[rows].sum() / total,
                "mae": absolute[rows].sum() / total,
                "mse_raw": (square[rows].sum(axis=0) * sizes**2).sum() / total,
                "mae_raw": (absolute[rows].sum(axis=0) * sizes).sum() / total,
                "mase": (apart[some] / units[some]).mean() if some.any() else None,
            }
            if errors.judged:
                found |= {"coverage": inside[rows].sum() / total, "interval": wide[rows].sum() / total}
            return {name: None if value is None else float(value) for name, value in found.items()}

        everything = slice(None)
        found: dict[str, Any] = of(everything)
        if errors.judged:
            found["level"] = level
        found["by_horizon"] = {
            str(h): of(slice(h - 1, h)) for h in marks(len(count)) if count[h - 1].any()
        }  # each horizon alone
        found["by_column"] = {
            name: {"mse": float(s / n), "mae": float(a / n)}
            for name, s, a, n in zip(self.series.columns, square.sum(0), absolute.sum(0), count.sum(0), strict=True)
            if n
        }
        return found

    @torch.no_grad()
    def reach(self, model: Forecaster, split: str = "valid") -> Tensor:
        """How far `level` of a model's errors on a split reach, by horizon and column: H C.

        One place further than the share of them: that holds of the next error too (split conformal prediction).
        """
        found, counts = [], []
        for part in _parts(self.origins(split), self.config.eval_batch):
            batch = self.window(part)
            error = (model.look(batch.x).mean - batch.y).abs()
            found.append(error if batch.counts is None else error.masked_fill(~batch.counts, math.inf))
            counts.append(torch.ones_like(error[:, :1]) if batch.counts is None else batch.counts)
        errors = torch.cat(found).sort(dim=0).values  # N H C, what does not count last
        usable = torch.cat(counts).sum(dim=0).long().expand(errors.shape[1:])  # H C
        place = (model.config.level * (usable + 1)).ceil().long().clamp(min=1) - 1
        place = torch.minimum(place, (usable - 1).clamp(min=0))
        spread = errors.gather(0, place[None])[0]
        return spread.masked_fill(usable == 0, 0.0)

    # What needs no learning

    def baselines(self, split: str) -> dict[str, float]:
        return {name: found[self.metric] for name, found in self.rivals(split).items()}

    def rivals(self, split: str) -> dict[str, dict[str, Any]]:
        """Forecasts that any model should beat, over the same windows."""
        linear, chains = self._linear(), self._chains()
        found = {name: self._errors() for name in BASELINES if name != "linear" or linear is not None}
        past = self.series.scaler.shrink(self.series.values)
        for part in _parts(self.origins(split), self.config.eval_batch):
            batch = self.window(part)
            for name, said in (
                ("naive", batch.x[:, -1:].expand_as(batch.y)),
                ("seasonal naive", self._seasonal(part, past)),
                ("mean", torch.zeros_like(batch.y)),
                *((("linear", linear(batch.x)),) if linear is not None else ()),
                *((f"markov {order}", self._chained(chains[order], part, past)) for order in (1, 2)),
            ):
                found[name].add(said, batch.y, batch.counts)
        return {name: self.summary(errors) for name, errors in found.items()}

    def _seasonal(self, origins: Sequence[int], past: np.ndarray) -> Tensor:
        """The last season, over and over; before there was one, the last value."""
        first = np.asarray(origins)[:, None]
        period = np.where(first < self.series.scaler.period, 1, self.series.scaler.period)
        at = first - period + np.arange(self.config.horizon) % period
        return torch.from_numpy(past[at]).to(self.values)

    def _linear(self) -> Any:
        """Least squares from the look-back to each point of the horizon, both less the last value; a little ridge.

        None where too much is missing to fit it.
        """
        columns, lookback, horizon = self.values.shape[1], self.config.lookback, self.config.horizon
        config = ModelConfig(model="ar", normalise="last", series=columns, lookback=lookback, horizon=horizon)
        model = config.build().to(self.device)
        try:
            model.solve(self._measured(joint=False), ridge=1e-4)
        except DataError:
            return None
        return lambda x: model(x)[..., 0].detach()

    def _chains(self) -> dict[int, list[tuple[markov.Markov, np.ndarray]]]:
        """A Markov chain of each order for each column, with its forecasts."""
        start, stop = self.series.splits["train"]
        train = self.series.scaler.shrink(self.series.values[start:stop])
        found = {}
        for order in (1, 2):
            chains = [markov.Config(order=order, bins=BINS).build().fit(column) for column in train.T]
            found[order] = [(chain, chain.table(self.config.horizon)) for chain in chains]
        return found

    def _chained(
        self, chains: list[tuple[markov.Markov, np.ndarray]], origins: Sequence[int], past: np.ndarray
    ) -> Tensor:
        order = chains[0][0].config.order
        at = np.asarray(origins)[:, None] + np.arange(-order, 0)
        columns = [chain.read(table, past[at.clip(min=0), c]) for c, (chain, table) in enumerate(chains)]
        return torch.from_numpy(np.stack(columns, axis=-1)).to(self.values)


def marks(horizon: int) -> list[int]:
    """The horizons that are reported by themselves: 1, 4, 16, 64, … and the last."""
    return [*(4**i for i in range(8) if 4**i < horizon), horizon]


def _parts(origins: range, size: int) -> Iterator[range]:
    for i in range(0, len(origins), size):
        yield origins[i : i + size]


@torch.no_grad()
def k_step(
    model: Forecaster, task: SeriesTask, ks: Sequence[int] = (1, 4, 16, 64), split: str = "test"
) -> dict[int, dict[str, float]]:
    """The error k points ahead, for any trained run: beyond its own horizon it goes on from what it said itself.

    For each k every row of the split is a target once, but for the first k − 1.
    """
    longest = max(ks)
    first = task.origins(split, min(ks))
    start, stop = task.series.splits[split]
    errors = task._errors(longest)
    for part in _parts(first, task.config.eval_batch):
        batch = task.window(part, longest)
        at = torch.as_tensor(np.asarray(part), device=task.device)[:, None] + torch.arange(longest, device=task.device)
        within = (at < stop)[..., None].expand_as(batch.y)
        counts = within if batch.counts is None else within & batch.counts
        errors.add(model.look(batch.x, longest).mean, batch.y, counts)
    sizes = torch.tensor(task.series.scaler.deviation, dtype=torch.float64) ** 2
    found = {}
    for k in ks:
        square, count = errors.square[k - 1].cpu(), errors.count[k - 1].cpu()
        if not count.sum():
            raise DataError(f"{task.series.name}: expected more than {k} rows in {split}, found {stop - start}")
        raw = float((square * sizes).sum() / count.sum())
        found[k] = {"mse": float(square.sum() / count.sum()), "mse_raw": raw, "windows": int(count.max())}
    return found


@torch.no_grad()
def free_run(model: Forecaster, task: SeriesTask, split: str = "test") -> dict[str, float]:
    """One forecast from the first row of a split to its last, against predicting the training part's mean."""
    origin = task.origins(split, 1)[0]
    horizon = task.series.splits[split][1] - origin
    batch = task.window([origin], horizon)
    said = model.look(batch.x, horizon).mean
    found: dict[str, float] = {}
    for name, mean in (("free", said), ("mean", torch.zeros_like(said))):
        errors = task._errors(horizon)
        errors.add(mean, batch.y, batch.counts)
        summary = task.summary(errors)
        found |= {name: summary["mse"], f"{name}_raw": summary["mse_raw"]}
    return found | {"points": horizon}
