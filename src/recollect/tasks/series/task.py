"""Forecasting: from `lookback` points of a series to the `horizon` points after them.

Windows for training lie inside the training part. In validation and test every window counts whose horizon lies inside
the part; its look-back may reach back into what comes before, as is usual. Errors are counted in scaled units (mean 0
and deviation 1 in the training part), which is what papers report, and in the data's own.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from einops import rearrange
from torch import Tensor, nn

from ...core import pieces
from ...core.artifacts import artifact_path
from ...core.contract import ContractError, Memory
from ...core.settings import refuse_both_ways
from ...core.summary import DataSummary
from ...core.task import LoadedRun, LoadRun, Loss, RunConfig, RunError, Solution, Task, building, describe_model
from ...data.files import DataError, absolute_name
from ...layers import LAYERS
from ...models.body import KINDS, StackedModels, kind_of
from . import calibration, data, probe
from . import model as forecaster
from .baselines import RIDGE, Baselines
from .covariates import Covariates
from .data import Series
from .effect import Beside
from .errors import Errors, format_error, missing_intervals, summarize, tabulate
from .export import SeriesExports
from .model import Forecaster, Window
from .multi_step import measure_ahead
from .readers import Stepper
from .scaler import Scaler
from .settings import Config, DataConfig
from .sources import NAMES
from .tables.layout import Layout, layout_of
from .tables.steps import describe_step

LAYOUT = {field.name for field in fields(Layout)}


class Batch(NamedTuple):
    x: Tensor  # B L C
    y: Tensor  # B H C
    counts: Tensor | None  # B H C: False where nothing was measured; None: everything was
    known: Tensor | None = None  # B L+H G K, covariates known ahead; None: there are none
    past: Tensor | None = None  # B L G P, those known only so far

    @property
    def beside(self) -> Beside | None:
        return None if self.known is None and self.past is None else Beside(self.known, self.past)


def has_closed_form(model: forecaster.Config, task: Config) -> bool:
    """Whether a model is solved by least squares, not trained."""
    plain = model.model == "ar" and model.layers == 1 and model.intervals != "quantile" and not model.effect_units
    if not plain or task.fit == "steps":
        return False
    return task.fit == "solve" or task.loss == "mse"


class SeriesTask(StackedModels, Task[Series, Scaler]):
    """A series to forecast: by networks that are trained, or a linear autoregression that is solved."""

    name = "series"
    models = tuple(KINDS)
    default = "gru"
    data_config = DataConfig
    task_config = Config
    exports = SeriesExports()
    unsized = ("ar",)
    instead: Mapping[str, str] = {
        "linear": f"--model ar --set ridge={RIDGE}",
        "naive": "forecast the last value",
        "seasonal naive": "forecast the last season again",
        "markov 1": "forecast by a Markov chain of the last value",
        "markov 2": "forecast by a Markov chain of the last two values",
    }
    refused: ClassVar[Mapping[str, str]] = refuse_both_ways("forecasts, of which only the past is known")
    config: Config

    def __init__(self, config: Config, data: Series, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.lookback = config.fitting(data.splits["train"])
        super().__init__(replace(config, lookback=self.lookback), data, device, seed)
        self.metric = config.choose
        scaled = data.scaler.shrink(data.values)
        self.values = torch.from_numpy(scaled).to(self.device, torch.float32)  # N C
        self.seen = None if data.seen.all() else torch.from_numpy(data.seen).to(self.device)
        if data.scaler.covariates != Covariates():
            self.instead = {**self.instead, "linear": f"{self.instead['linear']}, with nothing beside the series"}
        first = data.seen.argmax(axis=0)  # the row of each series' first value: late ones begin in a long table
        self.late = torch.from_numpy(first).to(self.device) if first.any() else None
        self.known, self.past = (  # N G K and N G P
            None if part is None else torch.from_numpy(part).to(self.device, torch.float32) for part in data.beside
        )
        self.order: tuple[tuple[int, int], np.ndarray] | None = None  # of the windows in the epoch that is under way
        for split in ("train", "valid"):
            self.origins(split)

    # Data and models

    @classmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        return {"model": forecaster.Config, "layer": LAYERS[kind_of(model).layer]}

    @classmethod
    def load_data(cls, config: DataConfig, data_dir: str | None, artifacts: Scaler | None = None) -> Series:
        own = {field.name: getattr(config, field.name) for field in fields(config)}
        others = {name: value for name, value in own.items() if name not in LAYOUT and name != "data"}
        source = (*config.data, "sine")[0]
        return data.load(source, layout_of(config), **others, data_dir=data_dir, scaler=artifacts)

    @classmethod
    def artifacts_of(cls, data: Series) -> Scaler:
        return data.scaler

    @classmethod
    def save_artifacts(cls, artifacts: Scaler, folder: Path) -> None:
        artifacts.save(folder / "scaler.json")

    @classmethod
    def load_artifacts(cls, folder: Path) -> Scaler:
        return Scaler.load(artifact_path(folder, "scaler.json"))

    @classmethod
    def describe_data(cls, data: Series) -> dict[str, Any]:
        counts = {split: stop - start for split, (start, stop) in data.splits.items()}
        own = data.scaler.covariates
        about = {"columns": list(data.columns), "period": data.scaler.period}
        about |= {name: list(part) for name in ("known", "past", "cycles") if (part := getattr(own, name))}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | about | {"notes": data.notes}

    @classmethod
    def summarize_data(cls, data: Series) -> str:
        start, stop = data.splits["train"]
        columns = f"{len(data.columns)} series" if len(data.columns) > 1 else f"the series {next(iter(data.columns))!r}"
        rows, period = stop - start, data.scaler.period
        if not data.times.named:
            return f"{rows:,} training rows of {columns} of {data.name}, period {period}"
        step = describe_step(data.times.step)
        return f"{rows:,} training rows of {columns} of {data.name}, a row every {step}, period {period}"

    @classmethod
    def data_summary(cls, data: Series) -> DataSummary:
        splits = {
            split: {"rows": stop - start, "missing values": data.missing.get(split, 0)}
            for split, (start, stop) in data.splits.items()
        }
        facts: dict[str, int | str] = {"series": len(data.columns), "period": data.scaler.period}
        if data.times.named:
            facts["a row every"] = describe_step(data.times.step)
        return DataSummary(name=data.name, splits=splits, facts=facts, notes=data.notes)

    @classmethod
    def other_data(cls, config: DataConfig, data: Sequence[str], artifacts: Scaler) -> DataConfig:
        """All of another series is the part that is measured."""
        return replace(config, data=tuple(data), whole=True)

    @classmethod
    def resolve(cls, run: RunConfig, data: Series, params: int | None) -> RunConfig:
        settings = dict(run.model)
        name = settings.pop("name")
        run = replace(run, task=replace(run.task, lookback=run.task.fitting(data.splits["train"])))
        settings |= {"series": len(data.columns), "lookback": run.task.lookback, "horizon": run.task.horizon}
        own = data.scaler.covariates
        settings |= {"known_inputs": own.ahead, "past_inputs": len(own.past), "own_covariates": own.apart}
        config = forecaster.Config(model=name, **settings)
        if params is not None:
            if name == "ar":
                raise ContractError("params: an autoregression has as many as its look-back asks for; set --lookback")
            config = config.sized(params, f"{name} with a horizon of {config.horizon}")
        if run.task.fit == "solve" and not has_closed_form(config, run.task):
            raise ContractError(
                f"series: fit=solve needs one layer of ar without quantiles, with a linear effect, found {name}"
            )
        files = tuple(absolute_name(file, NAMES) for file in run.data.data)
        return replace(run, data=replace(run.data, data=files), model=describe_model(name, config))

    @classmethod
    def build_model(cls, settings: dict[str, Any], artifacts: Scaler, load_run: LoadRun) -> Forecaster:
        settings = dict(settings)
        name = settings.pop("name", None)
        with building(name):
            found = forecaster.Config(model=cls.check_model(name), **settings).build()
        if found.config.series != len(artifacts.columns):
            raise ContractError(
                f"model: expected {len(artifacts.columns)} series as the scaler has, found {found.config.series}"
            )
        return found

    @classmethod
    def law_example(cls, model: Forecaster, artifacts: Scaler) -> tuple[nn.Module, Tensor, Memory | None]:
        """The part of a forecaster that goes step by step."""
        memory = model.memory
        if not isinstance(memory, Stepper):
            raise RunError(
                "expected a forecaster that goes step by step, found attention=full, which sees all of its past at "
                "once; the laws bind attention=causal"
            )
        generator = torch.Generator().manual_seed(0)
        steps = max(4, min(12, model.config.steps))
        return memory, torch.randn(3, steps, memory.dim, generator=generator, dtype=torch.float64), None

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        return model.cost(1, run.task.lookback).state_bytes

    # Windows

    def origins(self, split: str, horizon: int | None = None) -> range:
        """The first rows of the horizons of all windows of a split."""
        horizon = horizon or self.config.horizon
        if split not in self.data.splits:
            raise DataError(f"{self.data.name}: expected a split out of train, valid and test, found {split!r}")
        start, stop = self.data.splits[split]
        first = start + self.lookback if split == "train" else max(start, self.lookback)
        if first + horizon > stop:
            back = self.lookback if split == "train" else max(0, self.lookback - start)
            raise DataError(
                f"{self.data.name}: expected at least {back + horizon:,} rows for {split} (look-back "
                f"{self.lookback:,}, horizon {horizon:,}), found {stop - start:,}; give more rows, or a smaller "
                "--lookback or --horizon"
            )
        return range(first, stop - horizon + 1)

    def window(self, origins: Sequence[int] | np.ndarray, horizon: int | None = None) -> Batch:
        """The windows around rows of the series; what lies beyond its end does not count."""
        horizon = horizon or self.config.horizon
        at = torch.as_tensor(np.asarray(origins), device=self.device)[:, None]
        back = torch.arange(-self.lookback, 0, device=self.device)
        forth = at + torch.arange(horizon, device=self.device)
        near = forth.clamp(max=len(self.values) - 1)
        y = self.values[near]
        counts = None if self.seen is None else self.seen[near]
        if max(origins) + horizon > len(self.values):
            inside = (forth < len(self.values))[..., None].expand_as(y)
            counts = inside if counts is None else counts & inside
        if self.late is not None:  # before a series begins there is no past to forecast it from
            begun = (at > self.late)[:, None].expand_as(y)
            counts = begun if counts is None else counts & begun
        known = past = None
        if self.known is not None:  # beyond the end of the table what is known is what was known last
            known = self.known[torch.cat([at + back, forth], dim=1).clamp(max=len(self.known) - 1)]
        if self.past is not None:
            past = self.past[at + back]
        return Batch(self.values[at + back], y, counts, known, past)

    def cut(self, origins: range, size: int | None = None) -> Iterator[range]:
        """Origins in batches, of the size for evaluation where none is given."""
        size = size or self.config.eval_batch
        for i in range(0, len(origins), size):
            yield origins[i : i + size]

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
        losses = model.losses(model(batch.x, batch.y, batch.beside), batch.y, self.config.loss)  # type: ignore[operator]
        if batch.counts is None:
            return Loss(losses.mean(), losses.numel())
        terms = batch.counts.sum()
        return Loss((losses * batch.counts).sum() / terms.clamp(min=1), losses.numel(), terms=terms)

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(batch.x.shape[:2])

    def reading_shape(self, model: Any, batch: Batch) -> tuple[int, int]:
        return len(batch.x), model.config.steps

    def flops(self, model: Any, *shape: int) -> float:
        return model.cost(*shape).flops

    def solve(self, model: Any, tokens: float | None) -> Solution | None:
        """A linear autoregression in closed form, over every window of the training part."""
        if not has_closed_form(model.config, self.config):
            return None
        model.to(self.device).eval()
        if self.known is not None:
            start, stop = self.data.splits["train"]
            seen = None if self.seen is None else self.seen[start:stop]
            model.effect.solve(self.known[start:stop], self.values[start:stop], seen)
        model.solve(self.measured_windows(model.config.channels == "joint", model), self.config.ridge)
        return Solution(tokens=len(self.origins("train")), message="solved by least squares")

    @torch.no_grad()
    def calibrate(self, model: Any) -> bool:
        """Intervals of every kind, from the errors on validation."""
        model.spread.fill_(1.0)  # the distances themselves
        scores, counts = [], []
        for part in self.cut(self.origins("valid")):
            batch = self.window(part)
            mean, lower, upper = model.forecast(batch.x, beside=batch.beside)
            error = batch.y - mean
            scores.append(torch.where(error > 0, error / (upper - mean), -error / (mean - lower)).cpu().numpy())
            counted = torch.ones_like(error, dtype=torch.bool) if batch.counts is None else batch.counts
            counts.append(counted.cpu().numpy())
        found = calibration.calibrate(np.concatenate(scores), np.concatenate(counts), model.config.level)
        model.spread.copy_(torch.from_numpy(found))
        return True

    def measured_windows(self, joint: bool, model: Any = None) -> Iterator[Window]:
        """The training windows whose whole future was measured; each series alone, or `joint`.

        With a model without the effect of what is known ahead, and with what is known only so far beside them.
        """
        found = False
        for part in self.cut(self.origins("train"), 1024):
            batch = self.window(part)
            x, y, counts, beside = batch.x, batch.y, batch.counts, batch.beside
            extra = None
            if model is not None and beside is not None:
                if beside.past is not None:
                    extra = model.fold_beside(beside.past)
                if beside.known is not None:
                    effect = model.effect(beside.known)
                    x, y = x - effect[:, : x.shape[1]], y - effect[:, x.shape[1] :]
            if counts is not None or not joint:
                if not joint:
                    x, y = (rearrange(own, "b t c -> (b c) t 1") for own in (x, y))
                    counts = None if counts is None else rearrange(counts, "b t c -> (b c) t 1")
                if counts is not None:
                    whole = counts.all(dim=2).all(dim=1)
                    x, y = x[whole], y[whole]
                    extra = None if extra is None else extra[whole]
            if len(x):
                found = True
                yield Window(x, y, extra)
        if not found:
            raise DataError(
                f"{self.data.name}: expected training windows with every value of their horizon measured, found "
                "none; set fit=steps or fill=linear, or a smaller --horizon"
            )

    # Measuring

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """The rolling backtest: a forecast from every row of a split, and what came of it."""
        origins, by_window = self.origins(split), []
        errors = self._errors()
        for part in self.cut(origins):
            batch = self.window(part)
            mean, lower, upper = model.forecast(batch.x, beside=batch.beside)  # type: ignore[operator]
            errors.add(mean, batch.y, batch.counts, (lower, upper))
            by_window.append(self._squared(mean, batch))
        level: Any = model.config.level  # type: ignore[union-attr]
        apart = len(origins) // (self.lookback + self.config.horizon)  # windows that share no row
        found = {"windows": len(origins), "horizon": self.config.horizon, "rule": self.rule(split)}
        found["calibrated"] = bool(model.spread.any())  # type: ignore[union-attr,operator]
        found["pieces"] = {"mse": pieces.cut(torch.cat(by_window).cpu(), min(pieces.MOST, max(1, apart)))}
        return self._summarize(errors, level) | found

    @staticmethod
    def _squared(mean: Tensor, batch: Batch) -> Tensor:
        """The squared error of each window, over what was measured of it."""
        errors = (mean - batch.y).square()
        if batch.counts is None:
            return errors.flatten(1).mean(dim=1)
        counts = batch.counts.expand_as(errors).to(errors)
        kept = torch.where(counts > 0, errors, 0.0).flatten(1).sum(dim=1)
        return kept / counts.flatten(1).sum(dim=1).clamp(min=1)

    @property
    def reported(self) -> str:
        splits = self.data.splits
        if splits["test"] == splits["valid"]:  # all of it, for a run on everything
            return "valid"
        try:
            self.origins("test")
        except DataError:
            return "valid"
        return "test"

    def rule(self, split: str) -> str:
        config = self.config
        return (
            f"{self.lookback} → {config.horizon} points, all {len(self.origins(split)):,} windows of {split}, "
            "scaled by the training part"
        )

    def _errors(self) -> Errors:
        return Errors(self.config.horizon, self.values.shape[1], self.device)

    def _summarize(self, errors: Errors, level: float | None = None) -> dict[str, Any]:
        return summarize(errors, self.data.name, self.data.scaler, level)

    def baselines(self, split: str) -> dict[str, float]:
        return {name: found[self.metric] for name, found in self.rivals(split).items()}

    def rivals(self, split: str) -> dict[str, dict[str, Any]]:
        """All figures of the baselines, over the same windows."""
        rivals = Baselines(self)
        found = {name: self._errors() for name in rivals.names}
        for part in self.cut(self.origins(split)):
            batch = self.window(part)
            for name, forecast in rivals.forecasts(part, batch):
                found[name].add(forecast, batch.y, batch.counts)
        return {name: self._summarize(errors) for name, errors in found.items()}

    def figures(self, model: Any, split: str, **options: Any) -> dict[str, Any]:
        found = self.evaluate(model, split)
        in_pieces = found.pop("pieces")
        rivals = self.rivals(split)
        fed_back = measure_ahead(model, self, split) if model.config.ahead == "recursive" else {}
        return {
            "metric": {"name": self.metric, "value": found[self.metric], "rule": found["rule"]},
            "figures": found,
            "intervals": model.config.intervals,
            "horizon": self.config.horizon,
            **fed_back,
            "baselines": {name: rival[self.metric] for name, rival in rivals.items()},
            "rivals": rivals,
            # a thousandth less is a tie
            "better": [name for name, rival in rivals.items() if rival[self.metric] < 0.999 * found[self.metric]],
        } | ({"pieces": in_pieces} if options.get("pieces") else {})

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        return tabulate(found)

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        errors = ", ".join(f"{name} {format_error(found[name])}" for name in ("mse", "mae", "mase"))
        return "; ".join([f"validation {errors} ({found['rule']})", *missing_intervals(found, found["horizon"])])

    # Inspection and races

    probe = staticmethod(probe.probe)

    def declared_cost(self, run: LoadedRun[Series, Scaler], length: int) -> None:
        """None: a forecaster reads its look-back and no other length."""


TASKS = (SeriesTask,)
