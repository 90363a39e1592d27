"""The instrument of forecasting: errors by how far ahead, beyond the run's own horizon too."""

from dataclasses import dataclass
from typing import Any

from ...core.chart import Chart, Line
from ...core.inspection import Instrument, Reading
from ...core.task import LoadedRun
from .multi_step import measure_ahead


@dataclass(frozen=True, kw_only=True)
class Options:
    """There are none."""


def read_ahead(run: LoadedRun[Any, Any], options: Options) -> Reading:
    """The error k points ahead in the test part, and of one free run."""
    found = measure_ahead(run.model, run.task, "test")
    steps, free = found["k_step"], found["free_run"]
    model = run.config.model["name"]
    line = Line(name=model, x=list(steps), y=[step["mse"] for step in steps.values()], model=model)
    chart = Chart(
        title="error by how far ahead", x="points ahead", y="squared error", lines=[line], log_x=True,
        level=free["mean"], level_name="the training part's mean",
    )  # fmt: skip
    summary = [
        f"{k:,} ahead: squared error {step['mse']:.4f} ({step['windows']:,} windows)" for k, step in steps.items()
    ]
    summary.append(
        f"running freely for {free['points']:,} points: {free['free']:.4f}; predicting the mean: {free['mean']:.4f}"
    )
    return Reading(summary=summary, figures=found, charts=[chart])


INSTRUMENTS = (Instrument("ahead", Options, read_ahead),)
