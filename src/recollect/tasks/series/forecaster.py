"""What a forecast is made with: a run's own model, or the graph of an exported folder. Nothing here imports torch."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.settings import at_least
from ...core.trained import Array, Source
from ...data.files import DataError
from .calibration import explain_missing, explain_uncalibrated
from .covariates import Beside
from .data import match_run
from .scaler import Scaler
from .settings import POINTS
from .sources import MADE, open_table
from .tables.layout import Layout, layout_of
from .tables.table import Table

SEED = 0  # of the noise that a graph takes


class Ahead(NamedTuple):
    """The points after a window, H C each."""

    mean: Array
    lower: Array  # NaN where there is no interval
    upper: Array


@dataclass(frozen=True, kw_only=True)
class Reading(Layout):
    """How tables are read, by the settings of the data that a run was trained on."""

    draw: int = at_least(0, default=0)


@dataclass(frozen=True, kw_only=True)
class Window:
    """The settings of an export: how much its graph reads, and how far it looks ahead."""

    lookback: int = at_least(1, default=1, most=POINTS)
    horizon: int = at_least(1, default=1, most=POINTS)
    level: float = 0.8
    recursive: bool
    noise: tuple[int, ...] | None  # the shape of the normal numbers that the graph takes for a window
    reading: Reading


@dataclass(frozen=True, kw_only=True)
class Forecaster:
    """A trained forecaster: `look_ahead` gives so many points after a window (L C) and what is beside, all scaled."""

    scaler: Scaler
    lookback: int
    horizon: int  # that it was trained for
    level: float  # of its intervals
    reading: Reading
    look_ahead: Callable[[Array, int, Beside], Ahead]
    data_dir: str | None = None
    model: Any = None  # of a run, which takes several windows at once
    calibrated: bool = True  # whether its intervals are

    @classmethod
    def of(cls, source: Source) -> "Forecaster":
        """That of a run, by the model's own call, or of an exported folder, by its graph."""
        if source.exported is None:
            return cls.of_run(source.run)
        window = source.exported.read_settings(Window)
        return cls(
            scaler=Scaler.load(source.artifacts / "scaler.json"),
            lookback=window.lookback,
            horizon=window.horizon,
            level=window.level,
            reading=window.reading,
            look_ahead=partial(run_graph, source.exported.open_call("forecast", Ahead._fields), window),
        )

    @classmethod
    def of_run(cls, run: Any) -> "Forecaster":
        data, task = run.config.data, run.config.task
        return cls(
            scaler=run.artifacts,
            lookback=task.lookback,
            horizon=task.horizon,
            level=run.model.config.level,
            reading=Reading(**asdict(layout_of(data)), draw=data.draw),
            look_ahead=partial(run_model, run.model),
            data_dir=run.data_dir,
            model=run.model,
            calibrated=bool(run.model.spread.any()),
        )

    def forecast_window(self, past: Array, horizon: int, beside: Beside) -> Ahead:
        """The forecast of one window of raw values (L C), raw."""
        return Ahead(*map(self.scaler.stretch, self.look_ahead(self.scaler.shrink(past), horizon, beside)))

    def forecast_windows(self, pasts: Sequence[Array], horizon: int, besides: Sequence[Beside], together: int) -> Ahead:
        """The forecasts of several windows (each L C), raw: N H C; so many of them at once."""
        if self.model is None:
            each = [self.forecast_window(past, horizon, own) for past, own in zip(pasts, besides, strict=True)]
            return Ahead(*(np.stack(part) for part in zip(*each, strict=True)))
        found: list[Ahead] = []
        for at in range(0, len(pasts), together):
            windows = np.stack([self.scaler.shrink(past) for past in pasts[at : at + together]])
            parts = zip(*besides[at : at + together], strict=True)
            joined = (None if own[0] is None else np.stack(own) for own in parts)
            found.append(run_windows(self.model, windows, horizon, Beside(*joined)))
        return Ahead(*(self.scaler.stretch(np.concatenate(part)) for part in zip(*found, strict=True)))

    def missing_bounds(self, lower: Array) -> list[str]:
        """Why points of a forecast have no bounds, where some have none (`lower`: H C)."""
        bare = list(map(bool, np.atleast_1d(np.isnan(lower).any(axis=1))))
        notes = []
        if not self.calibrated:
            notes.append(explain_uncalibrated(bare[0]))
        elif any(bare[: self.horizon]):
            notes.append(explain_missing(bare.index(True) + 1, self.level))
        if len(lower) > self.horizon:
            notes.append(
                f"no bounds beyond {self.horizon:,} points ahead, the horizon of the run: how wrong it is further on "
                "was not measured"
            )
        return notes

    def open_file(self, file: str) -> Table:
        """A file with the columns that it was trained on."""
        layout = layout_of(self.reading)
        if layout.id is None and file not in MADE:
            layout = replace(layout, target=self.scaler.columns)
        return match_run(open_table(file, layout, draw=self.reading.draw, data_dir=self.data_dir), self.scaler)


def run_model(model: Any, window: Array, horizon: int, beside: Beside) -> Ahead:
    """A forecast by the model's own call."""
    one = Beside(*(None if part is None else part[None] for part in beside))
    return Ahead(*(part[0] for part in run_windows(model, window[None], horizon, one)))


def run_windows(model: Any, windows: Array, horizon: int, beside: Beside) -> Ahead:
    """The forecasts of windows N L C and what is beside each, by the model's own call: N H C."""
    import torch

    from .effect import Beside as Tensors

    with torch.no_grad():
        like = next(model.parameters())
        x, *given = (
            None if part is None else torch.from_numpy(np.ascontiguousarray(part)).to(like)
            for part in (windows, *beside)
        )
        return Ahead(*(part.double().cpu().numpy() for part in model.forecast(x, horizon, beside=Tensors(*given))))


def run_graph(
    graph: Callable[..., dict[str, Array]], window: Window, past: Array, horizon: int, beside: Beside
) -> Ahead:
    """A forecast by an exported graph.

    Beyond its horizon a direct one takes its forecast as the past of the next, without an interval, as the model does.
    """
    if window.recursive and horizon > window.horizon:
        raise DataError(
            f"forecast: expected a horizon of at most {window.horizon:,}, that of the export, found {horizon:,}; "
            "load the run that it was exported from"
        )
    noise = {}
    if window.noise is not None:
        noise["noise"] = np.random.default_rng(SEED).standard_normal((1, *window.noise))
    parts: list[Ahead] = []
    step, (known, extra) = window.horizon, beside
    for at in range(0, horizon, step):
        given = {}
        if known is not None:  # at its end points are forecast that nobody asked for
            own = known[at : at + window.lookback + step]
            given["known"] = np.concatenate([own, own[-1:].repeat(window.lookback + step - len(own), axis=0)])[None]
        if extra is not None:
            given["past"] = extra[None]
            extra = np.concatenate([extra, np.zeros((step, *extra.shape[1:]))])[-window.lookback :]
        found = graph(window=past[None], **given, **noise)
        near = Ahead(*(found[name][0].astype(np.float64) for name in Ahead._fields))
        if parts:  # intervals leave out the errors of forecasts that were fed back
            near = Ahead(near.mean, *(np.full_like(near.mean, np.nan) for _ in range(2)))
        parts.append(near)
        past = np.concatenate([past, near.mean])[-window.lookback :]
    return Ahead(*(np.concatenate(part)[:horizon] for part in zip(*parts, strict=True)))
