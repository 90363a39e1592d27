"""Multi-step errors: a forecaster beyond its own horizon, where it goes on from its own forecasts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...data.files import DataError
from .errors import Errors, horizons, summarize
from .model import Forecaster

if TYPE_CHECKING:
    from .task import SeriesTask


def measure_ahead(model: Forecaster, task: "SeriesTask", split: str, ks: Sequence[int] = ()) -> dict[str, Any]:
    """The error k points ahead (1, 4, 16, … where none are named), and that of one free run."""
    start, stop = task.data.splits[split]
    ks = tuple(ks) or tuple(k for k in horizons(stop - start) if k < stop - start)
    return {"k_step": k_step(model, task, ks, split), "free_run": free_run(model, task, split)}


@torch.no_grad()
def k_step(
    model: Forecaster, task: "SeriesTask", ks: Sequence[int] = (1, 4, 16, 64), split: str = "test"
) -> dict[int, dict[str, float]]:
    """The error k points ahead, for any trained run.

    For each k every row of the split is a target once, but for the first k − 1.
    """
    longest = max(ks)
    first = task.origins(split, min(ks))
    start, stop = task.data.splits[split]
    errors = Errors(longest, task.values.shape[1], task.device)
    for part in task.cut(first):
        batch = task.window(part, longest)
        at = torch.as_tensor(np.asarray(part), device=task.device)[:, None] + torch.arange(longest, device=task.device)
        within = (at < stop)[..., None].expand_as(batch.y)
        counts = within if batch.counts is None else within & batch.counts
        errors.add(model.forecast(batch.x, longest, beside=batch.beside).mean, batch.y, counts)
    sizes = torch.tensor(task.data.scaler.deviation, dtype=torch.float64) ** 2
    found = {}
    for k in ks:
        square, count = errors.square[k - 1].cpu(), errors.count[k - 1].cpu()
        if not count.sum():
            raise DataError(f"{task.data.name}: expected more than {k} rows in {split}, found {stop - start}")
        raw = float((square * sizes).sum() / count.sum())
        found[k] = {"mse": float(square.sum() / count.sum()), "mse_raw": raw, "windows": int(count.max())}
    return found


@torch.no_grad()
def free_run(model: Forecaster, task: "SeriesTask", split: str = "test") -> dict[str, float]:
    """The error of one forecast from the first row of a split to its last, and of predicting the training mean."""
    origin = task.origins(split, 1)[0]
    horizon = task.data.splits[split][1] - origin
    batch = task.window([origin], horizon)
    forecast = model.forecast(batch.x, horizon, beside=batch.beside).mean
    found: dict[str, float] = {}
    for name, mean in (("free", forecast), ("mean", torch.zeros_like(forecast))):
        errors = Errors(horizon, task.values.shape[1], task.device)
        errors.add(mean, batch.y, batch.counts)
        summary = summarize(errors, task.data.name, task.data.scaler)
        found |= {name: summary["mse"], f"{name}_raw": summary["mse_raw"]}
    return found | {"points": horizon}
