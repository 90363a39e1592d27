"""Forecasters beside others' on the same windows of ETTh1: python -m benchmarks.forecasting [--data-dir DIR]

The oil temperature, 24 hours ahead from the last 168, once a day through the test part; errors in units of the training
part's deviation, intervals at 80 %. statsmodels and darts are no dependencies: where they are installed, their naive
methods, smoothing and Theta are fitted to each window anew, their autoregressions to the training part. Rows go to
results/forecasting-etth1.json, and the table in docs/forecasting.md is made of them.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recollect.tasks.series.baselines import Baselines
from recollect.tasks.series.errors import Errors, summarize
from recollect.tasks.series.task import SeriesTask
from recollect.training import run as runs
from recollect.training.folder import commit, machine

from .forecasting_peers import WAYS, Split, Way, quietly

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
        for library, ways in WAYS.items():
            rows += [{"of": library, **found} for found in measure_peers(run.task, ways)]
    about = {"what": __doc__.split("\n\n")[1].replace("\n", " "), "windows": len(daily(run.task)), "level": LEVEL}
    about["versions"] = {library: version(library) for library in WAYS if library in {row["of"] for row in rows}}
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


def measure_peers(task: SeriesTask, ways: Callable[[Split], Iterator[tuple[str, Way]]]) -> Iterator[dict[str, Any]]:
    """The forecasters of another library, a window of each day at a time."""
    data = task.data
    train, valid = (data.splits[part][1] - data.splits[part][0] for part in ("train", "valid"))
    values = data.scaler.shrink(data.values)[:, 0]
    for name, way in ways(Split(values, train, valid, LOOKBACK, HORIZON, HORIZON, LEVEL)):
        errors = Errors(HORIZON, 1, "cpu")
        for origin in daily(task):
            mean, *ends = (None if part is None else as_batch(part) for part in quietly(way, origin))
            errors.add(mean, task.window([origin]).y, None, None if None in ends else tuple(ends))
        yield {"name": name, **summary(task, errors, LEVEL)}


def as_batch(points: np.ndarray) -> torch.Tensor:
    """The points of one window as B H C."""
    return torch.from_numpy(np.array(points))[None, :, None]


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
