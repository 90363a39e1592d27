"""Errors many steps ahead, by hand."""

import numpy as np
import pytest
import torch

from recollect.data.files import DataError
from recollect.tasks.series.multi_step import free_run, k_step, measure_ahead
from recollect.tasks.series.task import SeriesTask
from recollect.training import run as runs
from tasks.series.cases import of


def test_k_steps_ahead_errors_accumulate_as_they_must():
    """x ← x + 1, forecast as the last value: k steps ahead it is wrong by k."""
    task = of(np.arange(40.0), lookback=1, horizon=1)
    model = SeriesTask.build_model(
        {"name": "ar", "lookback": 1, "horizon": 1, "ahead": "recursive"}, task.data.scaler, runs.load
    )
    layer = model.memory.body.layers[0].map
    with torch.no_grad():
        layer.weight.fill_(1.0)
        layer.bias.fill_(0.0)
    found = k_step(model, task, (1, 4, 16))
    assert [found[k]["mse"] for k in (1, 4, 16)] == pytest.approx([1, 16, 256])
    assert [found[k]["windows"] for k in (1, 4, 16)] == [20, 17, 5]
    free = free_run(model, task)
    assert free["free"] == pytest.approx(np.mean(np.arange(1, 21) ** 2))
    assert free["mean"] == pytest.approx(np.mean(np.arange(20, 40) ** 2))
    with pytest.raises(DataError, match="more than 64 rows in test, found 20"):
        k_step(model, task, (1, 64))


def test_the_curve_of_a_run_has_every_power_of_four(solved):
    found = measure_ahead(solved.model, solved.task, "test")
    assert list(found["k_step"]) == [1, 4, 16]
    assert found["free_run"]["points"] == 60
