"""What is exported of a forecaster beside its step: the whole forecast of a window, with its interval."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.exported import Exports, Inputs, Sample, WholeCall
from .effect import Beside
from .readers import Stepper
from .tables.layout import layout_of


class WholeForecast(nn.Module):
    """Mean, lower and upper end of every point of the horizon, in scaled units: B H C each."""

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, list(names)

    def forward(
        self, window: Tensor, a: Tensor | None = None, b: Tensor | None = None, c: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """window: B L C, scaled; then what `names` says: known B L+H G K, past B L G P, and noise B P 2 H' C for the
        paths of a recursive Gaussian."""
        given = dict(zip(self.names, (a, b, c), strict=False))
        beside = Beside(given.get("known"), given.get("past"))
        return tuple(self.model.forecast(window, beside=beside, noise=given.get("noise")))


class SeriesExports(Exports):
    def pipeline_tag(self, run: Any) -> str:
        return "time-series-forecasting"

    def has_step(self, run: Any) -> bool:
        """With attention=full the past is seen all at once."""
        return isinstance(run.model.memory, Stepper)

    def calls(self, run: Any) -> dict[str, WholeCall]:
        config = run.model.config
        shapes = beside_shapes(config)
        if config.draws:
            shapes["noise"] = tuple(noise_shape(config))

        def draw(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
            every = {"window": (config.lookback, config.series)} | shapes
            return {name: torch.randn(rows, *shape, generator=generator) for name, shape in every.items()}

        call = WholeCall(
            module=WholeForecast(run.model, tuple(shapes)),
            inputs=Inputs(draw=draw, axes={name: {0: "batch"} for name in ("window", *shapes)}),
            outputs=["mean", "lower", "upper"],
        )
        return {"forecast": call}

    def settings(self, run: Any) -> dict[str, Any]:
        config, scaler, data = run.model.config, run.artifacts, run.config.data
        return {
            "columns": list(scaler.columns),
            "center": list(scaler.mean),
            "scale": list(scaler.deviation),
            "period": scaler.period,
            "lookback": config.lookback,
            "horizon": config.horizon,
            "level": config.level,
            "beside": {name: list(shape) for name, shape in beside_shapes(config).items()},
            "noise": noise_shape(config) if config.draws else None,
            "recursive": config.ahead == "recursive",
            "reading": json.loads(json.dumps(asdict(layout_of(data)))) | {"draw": data.draw},
        }

    def sample(self, run: Any, rows: int) -> Sample:
        batch = run.task.window(np.asarray(run.task.origins("valid"))[:rows])
        beside = batch.beside or Beside(None, None)
        given = {"window": batch.x} | {name: part for name, part in beside._asdict().items() if part is not None}
        steps = run.model.steps_of(batch.x, batch.beside) if self.has_step(run) else None
        return Sample(steps=steps, calls={} if run.model.config.draws else {"forecast": given})


def beside_shapes(config: Any) -> dict[str, tuple[int, ...]]:
    """Of the covariates of one window, those that a model takes."""
    groups = config.series if config.own_covariates else 1
    found = {}
    if config.known_inputs:
        found["known"] = (config.lookback + config.horizon, groups, config.known_inputs)
    if config.past_inputs:
        found["past"] = (config.lookback, groups, config.past_inputs)
    return found


def noise_shape(config: Any) -> list[int]:
    """Of the standard normal numbers for one window: paths, what is fed back and what is added, points, series."""
    return [config.paths, 2, config.blocks * config.segment, config.series]
