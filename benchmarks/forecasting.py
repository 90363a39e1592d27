"""Forecasters beside others' on the same windows of ETTh1: python -m benchmarks.forecasting [--data-dir DIR]

The oil temperature, 24 hours ahead from the last 168, once a day through the test part; errors in units of the training
part's deviation, intervals at 80 %. statsmodels and darts are no dependencies: where they are installed, their naive
methods, smoothing and Theta are fitted to each window anew, their autoregressions to the training part. Rows go to
results/forecasting-etth1.json, and the table in docs/forecasting.md is made of them.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
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

from .forecasting_peers import WAYS, Split, quietly

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
    parser.add_argument("--of", action="append", choices=("recollect", *WAYS), help="whose rows (default: all)")
    options = parser.parse_args()
    before = json.loads(PATH.read_text(encoding="utf-8")) if PATH.is_file() else {"rows": []}
    config = configure("ar", {})
    data = SeriesTask.load_data(config.data, options.data_dir)
    task = SeriesTask(config.task, data)
    rows: list[dict[str, Any]] = []
    for library in ("recollect", *WAYS):
        measured: list[dict[str, Any]] = []
        if options.of is None or library in options.of:
            found = (
                measure_recollect(task, options.data_dir) if library == "recollect" else measure_peers(task, library)
            )
            here = {"version": version(library)} if library in WAYS else {}
            measured = [{"of": library, **row, **here, "commit": commit()} for row in found]
        rows += measured or [row for row in before["rows"] if row["of"] == library]
    about = {"what": __doc__.split("\n\n")[1].replace("\n", " "), "windows": len(daily(task)), "level": LEVEL}
    written = about | {"rows": rows, "machine": machine()}
    PATH.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(written))


def configure(model: str, settings: dict[str, Any]) -> Any:
    texts = {key: str(value) for key, value in (SETTINGS | settings).items()}
    return runs.configure(SeriesTask, texts, model=model, data=("etth1",))


def measure_recollect(task: SeriesTask, data_dir: str | None) -> Iterator[dict[str, Any]]:
    """The runs of `OWN`, and the baselines that `eval` shows."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (model, settings)) in enumerate(OWN.items()):
            out = f"{folder}/{number}"
            runs.train(SeriesTask, configure(model, settings), out, data_dir=data_dir)
            yield {"name": name, **measure_own(runs.load(out, data_dir=data_dir))}
    yield from ({"name": name, **found} for name, found in measure_baselines(task))


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


def measure_peers(task: SeriesTask, library: str) -> Iterator[dict[str, Any]]:
    """The forecasters of another library, a window of each day at a time."""
    data = task.data
    train, valid = (data.splits[part][1] - data.splits[part][0] for part in ("train", "valid"))
    values = data.scaler.shrink(data.values)[:, 0]
    for name, way in WAYS[library](Split(values, train, valid, LOOKBACK, HORIZON, HORIZON, LEVEL)):
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
