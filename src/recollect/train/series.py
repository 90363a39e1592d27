"""The job of forecasting: a series from a table, any layer of the lineage, and how far ahead its runs can see."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..core import laws
from ..core.contract import ContractError, Memory, check_settings
from ..layers import LAYERS
from ..models.body import KINDS, kind_of
from ..tasks.series import data as data_series
from ..tasks.series import model as forecaster
from ..tasks.series import task as series
from ..tasks.series.data import Series
from ..tasks.series.gaps import FillName
from ..tasks.series.model import Forecaster
from ..tasks.series.readers import Stepper
from ..tasks.series.scaler import Scaler
from ..tasks.series.sources import NAMES
from ..tasks.series.table import HeaderName
from ..tasks.series.task import SeriesTask, marks
from . import checkpoint
from .budget import Spent
from .folder import RunError, RunFolder
from .job import Job, Run, Used, told
from .progress import Progress, memory

MODELS = tuple(KINDS)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the numbers are: a CSV file, or a known set's name (none: the noisy sine), and how they are read.

    `target` are the columns to forecast (none: all but the time); `fill` says what is done about missing values inside;
    with `even` uneven time steps are refused; `period` is the season's (none: estimated); `draw` that of a made series.
    `whole` makes all of the file every part.
    """

    data: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    time: str | None = None
    header: HeaderName = "auto"
    fill: FillName = "linear"
    even: bool = False
    period: int | None = None
    valid_share: float = 0.1
    test_share: float = 0.2
    draw: int = 0
    whole: bool = False

    def __post_init__(self) -> None:
        check_settings(self, least={"draw": 0})
        for name in ("data", "target"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
                raise ContractError(f"series: expected {name} to be names, found {value!r}")
        if len(self.data) > 1:
            raise ContractError(f"series: expected one file or known set, found {len(self.data)}: {self.data}")
        if self.time is not None and not isinstance(self.time, str):
            raise ContractError(f"series: expected time to be the name of a column, found {self.time!r}")
        shares = (self.valid_share, self.test_share)
        if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
            raise ContractError(f"series: expected shares above 0 that leave some to train on, found {shares}")

    @property
    def source(self) -> str:
        return self.data[0] if self.data else "sine"

    def load(self, data_dir: str | None = None, scaler: Scaler | None = None) -> Series:
        settings = asdict(self)
        del settings["data"]
        return data_series.load(self.source, **settings, data_dir=data_dir, scaler=scaler)

    def anchored(self) -> "DataConfig":
        """The same file by its full name, so that a run can be gone on with from another folder."""
        if not self.data or self.source in NAMES or not Path(self.source).exists():
            return self
        return replace(self, data=(str(Path(self.source).absolute()),))


class SeriesJob(Job[Series, Scaler]):
    """Forecasting."""

    name = "series"
    models = MODELS
    default = "gru"
    data_config = DataConfig
    task_config = series.Config
    stacks = True
    unsized = ("ar",)

    def homes(self, model: str) -> dict[str, type]:
        return {"model": forecaster.Config, "layer": LAYERS[kind_of(model).layer]}

    def read(self, config: DataConfig, data_dir: str | None, kept: Scaler | None = None) -> Series:
        return config.load(data_dir, kept)

    def keep(self, data: Series) -> Scaler:
        return data.scaler

    def save(self, kept: Scaler, folder: Path) -> None:
        kept.save(folder / "scaler.json")

    def recall(self, folder: Path) -> Scaler:
        path = folder / "scaler.json"
        if not path.exists():
            raise RunError(f"{path}: expected this file in the run folder, found none")
        return Scaler.load(path)

    def describe(self, data: Series) -> dict[str, Any]:
        counts = {split: stop - start for split, (start, stop) in data.splits.items()}
        about = {"columns": list(data.columns), "period": data.scaler.period}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | about | {"notes": data.notes}

    def greet(self, data: Series) -> str:
        start, stop = data.splits["train"]
        columns = f"{len(data.columns)} series" if len(data.columns) > 1 else f"the series {next(iter(data.columns))!r}"
        return f"{stop - start:,} training rows of {columns} of {data.name}, period {data.scaler.period}"

    def resolve(self, run: Run, data: Series, params: int | None) -> Run:
        settings = dict(run.model)
        name = settings.pop("name")
        settings |= {"series": len(data.columns), "lookback": run.task.lookback, "horizon": run.task.horizon}
        config = forecaster.Config(model=name, **settings)
        if params is not None:
            if name == "ar":
                raise ContractError("params: an autoregression has as many as its look-back asks for; set --lookback")
            config = config.sized(params, f"{name} with a horizon of {config.horizon}")
        if run.task.fit == "solve" and not _solvable(config, run.task, forced=True):
            raise ContractError(f"series: fit=solve needs one layer of ar without quantiles, found {name}")
        full = asdict(config)
        full.pop("model")
        return replace(run, data=run.data.anchored(), model={"name": name} | full)

    def build(self, settings: dict[str, Any], kept: Scaler, inside: tuple[Path, ...] = ()) -> nn.Module:
        settings = dict(settings)
        name = settings.pop("name", None)
        try:
            found = forecaster.Config(model=self.takes(name), **settings).build()
        except (KeyError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
            raise told(name, error) from error
        if found.config.series != len(kept.columns):
            raise ContractError(
                f"model: expected {len(kept.columns)} series as the scaler has, found {found.config.series}"
            )
        return found

    def task(self, run: Run, data: Series, device: str) -> SeriesTask:
        return SeriesTask(run.task, data, device)

    def figures(self, model: Any, task: SeriesTask, split: str, **options: Any) -> dict[str, Any]:
        found = task.evaluate(model, split)
        rivals = task.rivals(split)
        fed_back = ahead(model, task, split) if model.config.ahead == "recursive" else {}
        return {
            "metric": {"name": task.metric, "value": found[task.metric], "rule": found["rule"]},
            "figures": found,
            "intervals": model.config.intervals,
            **fed_back,
            "baselines": {name: rival[task.metric] for name, rival in rivals.items()},
            "rivals": rivals,
            # a thousandth less is a tie
            "better": [name for name, rival in rivals.items() if rival[task.metric] < 0.999 * found[task.metric]],
        }

    def example(self, model: Any, kept: Scaler) -> tuple[Tensor, Memory | None]:
        memory = model.memory
        if not isinstance(memory, Stepper):
            raise RunError(
                "expected a forecaster that goes step by step, found attention=full, which sees all of its past at "
                "once; the laws bind attention=causal"
            )
        generator = torch.Generator().manual_seed(0)
        steps = max(4, min(12, model.config.steps))
        return torch.randn(3, steps, memory.dim, generator=generator, dtype=torch.float64), None

    def verify(self, path: str) -> dict[str, float]:
        """The laws on the trained memory of a run: that is what goes step by step."""
        used = self.load(path)
        x, memory = self.example(used.model, used.kept)
        return laws.check(used.model.memory.double(), x, memory)

    def state_bytes(self, model: Any, run: Run) -> int:
        return model.cost(1, run.task.lookback).state_bytes

    def table(self, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        figures = found["figures"]
        names = ["mse", "mae", "mase", "mse_raw", "mae_raw"] + (["coverage"] if "coverage" in figures else [])
        rows = [[str(h), *(_short(own[n]) for n in names)] for h, own in figures["by_horizon"].items()]
        rows.append(["all", *(_short(figures[n]) for n in names)])
        metric = found["metric"]["name"]
        below = [
            figures["rule"],
            f"without learning, {metric}: " + "  ".join(f"{n} {_short(v)}" for n, v in found["baselines"].items()),
        ]
        if found["better"]:
            below.append(f"better than this model: {', '.join(found['better'])}")
        if "coverage" in figures:
            own = found["intervals"] == "residual" and found.get("split") == "valid"
            told = " (of the errors that they were made from: ask for --split test)" if own else ""
            below.append(f"intervals meant to hold {figures['level']:.0%} held {figures['coverage']:.1%}{told}")
        return ("horizon", *names), rows, below

    def headline(self, found: dict[str, Any]) -> str:
        held = f", {found['level']:.0%} intervals held {found['coverage']:.1%}" if "coverage" in found else ""
        errors = ", ".join(f"{name} {_short(found[name])}" for name in ("mse", "mae", "mase"))
        return f"validation {errors}{held} ({found['rule']})"

    def elsewhere(self, config: DataConfig, data: Sequence[str], kept: Scaler) -> DataConfig:
        """All of another series is the part that is measured."""
        return replace(config, data=tuple(data), whole=True)

    def fit(
        self, task: Any, model: nn.Module, run: Run, folder: RunFolder, device: str, progress: Progress, again: bool
    ) -> dict[str, Any]:
        assert isinstance(model, Forecaster)
        if _solvable(model.config, run.task):
            folder.cut_metrics(0)
            model.to(device).eval()
            spent = Spent()
            task.solve(model)
            took = spent.at_once(len(task.origins("train"))) | {"memory": memory(torch.device(device))}
            progress.say("solved by least squares")
            note: dict[str, Any] = {}
        else:
            super().fit(task, model, run, folder, device, progress, again)
            took, (_, note) = None, checkpoint.read_tensors(folder.model_path)
        if model.config.intervals == "residual":
            model.spread.copy_(task.reach(model, "valid"))
        checkpoint.write_tensors(folder.model_path, checkpoint.weights(model), note)
        found = task.evaluate(model, "valid")
        if took is not None:
            folder.log(took | {"valid": found[task.metric]})
        return found


def _solvable(config: forecaster.Config, task: series.Config, forced: bool = False) -> bool:
    if config.model != "ar" or config.layers != 1 or config.intervals == "quantile" or task.fit == "steps":
        return False
    return forced or task.fit == "solve" or task.loss == "mse"


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if value == 0 or 1e-2 <= abs(value) < 1e6 else f"{value:.4g}"


def k_step(
    used: Used[Scaler], ks: Sequence[int] = (), *, split: str = "test", data_dir: str | None = None
) -> dict[str, Any]:
    """The k-step-ahead curve of a run and its free-running error, on its own data."""
    found = used.run.data.load(data_dir, used.kept)
    device = str(next(used.model.parameters()).device)
    return ahead(used.model, SeriesTask(used.run.task, found, device), split, ks)


def ahead(model: Forecaster, task: SeriesTask, split: str, ks: Sequence[int] = ()) -> dict[str, Any]:
    """The error k points ahead (1, 4, 16, … where none are named), and that of one free run."""
    start, stop = task.series.splits[split]
    ks = tuple(ks) or tuple(k for k in marks(stop - start) if k < stop - start)
    return {"k_step": series.k_step(model, task, ks, split), "free_run": series.free_run(model, task, split)}


JOB = SeriesJob()
