"""Forecasters beside statsmodels' on the same windows of ETTh1: python -m benchmarks.forecasting [--data-dir DIR]

The oil temperature, 24 hours ahead from the last 168, once a day through the test part; errors in units of the training
part's deviation, intervals at 80 %. statsmodels is no dependency: where it is installed, its Holt-Winters and Theta
methods are fitted to each window anew and its autoregression to the training part. Rows go to
results/forecasting-etth1.json, and the table in docs/forecasting.md is made of them.
"""

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recollect.tasks.series.baselines import Baselines
from recollect.tasks.series.errors import Errors, summarize
from recollect.tasks.series.task import SeriesTask
from recollect.training import run as runs
from recollect.training.folder import commit, machine

PATH = Path(__file__).resolve().parents[1] / "results" / "forecasting-etth1.json"
LOOKBACK, HORIZON, LEVEL = 168, 24, 0.8
SETTINGS = {"target": "OT", "lookback": LOOKBACK, "horizon": HORIZON, "level": LEVEL}
GRU = {
    "segment": 24, "width": 64, "loss": "mae", "batch": 64, "lr": 0.001, "warmup": 20, "steps": 400, "eval_every": 50,
    "save_every": 400, "head_dropout": 0.1,
}  # fmt: skip
OWN = {  # what is trained: its name in the table, the model, its settings
    "`ar`": ("ar", {"ridge": 1e-4}),
    "`ar`, calendar": ("ar", {"ridge": 1e-4, "calendar": True}),
    "`ar`, other loads as `past`": ("ar", {"ridge": 1e-4, "past": "HUFL,HULL,MUFL,MULL,LUFL,LULL"}),
    "`gru`": ("gru", GRU),
}
Forecast = tuple[np.ndarray, np.ndarray, np.ndarray]  # mean, lower, upper: H


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, settings) in OWN.items():
            texts = {key: str(value) for key, value in (SETTINGS | settings).items()}
            config = runs.configure(SeriesTask, texts, model=model, data=("etth1",))
            out = f"{folder}/{len(rows)}"
            runs.train(SeriesTask, config, out, data_dir=options.data_dir)
            run = runs.load(out, data_dir=options.data_dir)
            rows.append({"name": name, "of": "recollect", **measure_own(run)})
        rows += [{"name": name, "of": "recollect", **found} for name, found in measure_baselines(run.task)]
        rows += [{"name": name, "of": "statsmodels", **found} for name, found in measure_statsmodels(run.task)]
    about = {"what": __doc__.split("\n\n")[1].replace("\n", " "), "windows": len(daily(run.task)), "level": LEVEL}
    found = about | {"rows": rows, "commit": commit(), "machine": machine()}
    PATH.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(found))


def daily(task: SeriesTask) -> range:
    """The windows of the test part, one a day."""
    return task.origins("test")[::HORIZON]


def summary(task: SeriesTask, errors: Errors, level: float | None) -> dict[str, Any]:
    found = summarize(errors, "etth1", task.data.scaler, level)
    return {name: found.get(name) for name in ("mse", "mae", "coverage", "interval")}


def measure_own(run: Any) -> dict[str, Any]:
    """A trained run on the windows of a day each."""
    task, errors = run.task, Errors(HORIZON, 1, "cpu")
    for part in task.cut(daily(task)):
        batch = task.window(part)
        mean, lower, upper = run.model.forecast(batch.x, beside=batch.beside)
        errors.add(mean, batch.y, None, (lower, upper))
    return summary(task, errors, LEVEL)


def measure_baselines(task: SeriesTask) -> Iterator[tuple[str, dict[str, Any]]]:
    """The baselines that `eval` shows."""
    rivals = Baselines(task)
    found = {name: Errors(HORIZON, 1, "cpu") for name in ("naive", "seasonal naive", "linear")}
    for part in task.cut(daily(task)):
        batch = task.window(part)
        for name, forecast in rivals.forecasts(part, batch):
            if name in found:
                found[name].add(forecast, batch.y, None)
    yield from ((name, summary(task, errors, None)) for name, errors in found.items())


def measure_statsmodels(task: SeriesTask) -> Iterator[tuple[str, dict[str, Any]]]:
    """Holt-Winters and Theta on each window, an autoregression on the training part; none without statsmodels."""
    try:
        from statsmodels.tsa.ar_model import AutoReg  # pyright: ignore[reportMissingImports]
        from statsmodels.tsa.forecasting.theta import ThetaModel  # pyright: ignore[reportMissingImports]
        from statsmodels.tsa.holtwinters import ExponentialSmoothing  # pyright: ignore[reportMissingImports]
    except ImportError:
        print("statsmodels is not installed: its rows are left out")
        return
    values = task.data.scaler.shrink(task.data.values)[:, 0]
    start, stop = task.data.splits["train"]
    fitted = AutoReg(values[start:stop], lags=LOOKBACK).fit()

    def smooth(origin: int) -> Forecast:
        past = values[origin - LOOKBACK : origin]
        model = ExponentialSmoothing(
            past, trend="add", damped_trend=True, seasonal="add", seasonal_periods=HORIZON, use_boxcox=False
        ).fit()
        paths = np.asarray(model.simulate(HORIZON, repetitions=500, random_state=0))
        low, high = np.quantile(paths, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
        return np.asarray(model.forecast(HORIZON)), low, high

    def theta(origin: int) -> Forecast:
        model = ThetaModel(values[origin - LOOKBACK : origin], period=HORIZON, method="additive").fit()
        ends = np.asarray(model.prediction_intervals(HORIZON, alpha=1 - LEVEL))
        return np.asarray(model.forecast(HORIZON)), ends[:, 0], ends[:, 1]

    def regress(origin: int) -> Forecast:
        moved = fitted.append(values[stop:origin]) if origin > stop else fitted
        found = moved.get_prediction(start=origin, end=origin + HORIZON - 1)
        ends = np.asarray(found.conf_int(alpha=1 - LEVEL))
        return np.asarray(found.predicted_mean), ends[:, 0], ends[:, 1]

    ways: dict[str, Callable[[int], Forecast]] = {"Holt-Winters": smooth, "Theta": theta, "AutoReg": regress}
    for name, way in ways.items():
        errors = Errors(HORIZON, 1, "cpu")
        for origin in daily(task):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mean, lower, upper = (torch.from_numpy(np.array(part))[None, :, None] for part in way(origin))
            errors.add(mean, task.window([origin]).y, None, (lower, upper))
        yield name, summary(task, errors, LEVEL)


def table(found: dict[str, Any]) -> str:
    """The rows as a table of Markdown, the least error first."""
    lines = ["| forecaster | of | mse | mae | 80 % intervals held | mean width |", "|---|---|---|---|---|---|"]
    for row in sorted(found["rows"], key=lambda row: row["mse"]):
        held = "–" if row["coverage"] is None else f"{row['coverage']:.1%}"
        wide = "–" if row["interval"] is None else f"{row['interval']:.3f}"
        lines.append(f"| {row['name']} | {row['of']} | {row['mse']:.4f} | {row['mae']:.4f} | {held} | {wide} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
