"""Small tables and runs of forecasting."""

import numpy as np

import tiny
from recollect.tasks.series.data import Series
from recollect.tasks.series.scaler import Scaler
from recollect.tasks.series.settings import Config
from recollect.tasks.series.sources import open_table
from recollect.tasks.series.task import SeriesTask
from recollect.training import run as runs

SMALL = {
    "steps": 8, "lookback": 12, "horizon": 4, "batch": 8, "width": 8, "warmup": 2, "save_every": 3, "eval_every": 4,
    "valid_share": 0.2,
}  # fmt: skip


def write(tmp_path, text, name="table.csv"):
    """A table as a file; its path."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def configure(path, model="gru", **settings):
    """A run of a few steps on the table at `path`."""
    heads = {"heads": "2"} if model in tiny.HEADED else {}
    texts = heads | {name: str(value) for name, value in (SMALL | settings).items()}
    return runs.configure(SeriesTask, texts, model=model, data=(str(path),))


def of(values, lookback=4, horizon=2, seen=None, period=1, splits=None, **settings):
    """A task over numbers as they are, scaled by nothing."""
    values = np.asarray(values, dtype=float).reshape(len(values), -1)
    count, columns = values.shape
    scaler = Scaler(tuple("abc"[:columns]), (0.0,) * columns, (1.0,) * columns, (1.0,) * columns, period)
    times = open_table("sine").times.part(0, count)
    splits = splits or {"train": (0, count // 2), "valid": (count // 2, count), "test": (count // 2, count)}
    seen = np.ones(values.shape, dtype=bool) if seen is None else np.asarray(seen)
    found = Series("tiny", scaler.columns, values, seen, times, splits, scaler, "tiny", [])
    return SeriesTask(Config(lookback=lookback, horizon=horizon, **settings), found)
