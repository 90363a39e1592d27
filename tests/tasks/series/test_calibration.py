"""Intervals by split conformal calibration: the share that they hold, where they are not given, and their widths."""

import math

import numpy as np
import pytest

from recollect.tasks.series.calibration import calibrate, explain_missing, never_falling, windows_needed
from recollect.tasks.series.task import SeriesTask
from recollect.training import evaluation
from recollect.training import run as runs
from tasks.series.cases import configure, of, write


@pytest.mark.parametrize(("level", "windows"), [(0.5, 4), (0.8, 10), (0.9, 20), (0.95, 40)])
def test_the_windows_needed_are_those_with_two_misses(level, windows):
    assert windows_needed(level) == windows
    scores = np.arange(1.0, windows + 1)[:, None, None]
    everything = np.ones(scores.shape, dtype=bool)
    assert np.isfinite(calibrate(scores, everything, level)).all()
    assert np.isnan(calibrate(scores[1:], everything[1:], level)).all()


def test_the_multiplier_is_the_conformal_quantile():
    scores = np.random.default_rng(0).permutation(np.arange(1.0, 100))[:, None, None]
    assert calibrate(scores, np.ones(scores.shape, dtype=bool), 0.8)[0, 0] == 80  # of 99: the 80th
    counts = scores > 20
    assert calibrate(scores, counts, 0.8)[0, 0] == 84  # of 79: the 64th beyond 20


def test_windows_that_overlap_count_for_less_the_further_ahead():
    scores = np.ones((40, 8, 1))
    found = calibrate(scores, np.ones(scores.shape, dtype=bool), 0.8)[:, 0]
    assert np.isfinite(found).tolist() == [True] * 4 + [False] * 4
    assert explain_missing(5, 0.8).startswith("no intervals from 5 points ahead on: to calibrate them at 80% takes 10 ")


def test_values_that_never_fall_are_pools_of_their_means():
    found = never_falling(np.array([3.0, 1.0, 2.0, 5.0, 4.0, 6.0, math.nan]))
    assert found[:6].tolist() == [2, 2, 2, 4.5, 4.5, 6]
    assert math.isnan(found[6])


def test_a_horizon_that_is_surely_harder_than_later_ones_keeps_its_width():
    scores = np.abs(np.random.default_rng(0).standard_normal((400, 4, 1)))
    scores[:, 1] *= 5
    everything = np.ones(scores.shape, dtype=bool)
    found = calibrate(scores, everything, 0.8)[:, 0]
    assert (np.diff(found) >= 0).all()
    assert (scores[:, 1, 0] <= found[1]).mean() > 0.74  # the mean of the three would hold 45 % of them
    flat = calibrate(scores / np.array([1, 5, 1, 1])[:, None], everything, 0.8)[:, 0]
    assert flat == pytest.approx([1.28] * 4, abs=0.12)  # what chance alone lets fall is not pushed up


def test_a_forecast_that_never_errs_has_an_interval_of_no_width():
    scores = np.zeros((40, 2, 1))
    found = calibrate(scores, np.ones(scores.shape, dtype=bool), 0.8)
    assert ((found > 0) & (found < 1e-30)).all()


@pytest.mark.parametrize("intervals", ["residual", "gaussian"])
def test_the_intervals_of_a_random_walk_hold_their_share_at_every_horizon_and_widen(intervals):
    values = np.random.default_rng(1).normal(size=6000).cumsum() * 0.1
    parts = {"train": (0, 2000), "valid": (2000, 4000), "test": (4000, 6000)}
    task = of(values, lookback=2, horizon=8, splits=parts)
    settings = {"name": "ar", "lookback": 2, "horizon": 8, "intervals": intervals, "normalise": "last"}
    model = SeriesTask.build_model(settings, task.data.scaler, runs.load).eval()
    task.solve(model, None)
    task.calibrate(model)
    found = task.evaluate(model, "test")
    assert found["coverage"] == pytest.approx(0.8, abs=0.05)
    for ahead in ("1", "4", "8"):
        assert found["by_horizon"][ahead]["coverage"] == pytest.approx(0.8, abs=0.06)
    widths = [found["by_horizon"][ahead]["interval"] for ahead in ("1", "4", "8")]
    assert widths[1] / widths[0] == pytest.approx(2, rel=0.25)
    assert widths[2] / widths[0] == pytest.approx(math.sqrt(8), rel=0.25)
    assert found["bounded"] == 8


def test_a_gaussian_that_is_too_sure_of_itself_is_widened():
    values = np.random.default_rng(1).normal(size=3000)
    task = of(values, lookback=2, horizon=1, splits=dict.fromkeys(("train", "valid", "test"), (0, 3000)))
    settings = {"name": "ar", "lookback": 2, "horizon": 1, "intervals": "gaussian", "normalise": "none"}
    model = SeriesTask.build_model(settings, task.data.scaler, runs.load).eval()
    task.solve(model, None)
    model.memory.body.layers[0].map.bias.data[1] -= 1.0  # of log deviation
    assert task.evaluate(model, "test")["coverage"] < 0.5
    task.calibrate(model)
    assert task.evaluate(model, "test")["coverage"] == pytest.approx(0.8, abs=0.01)


def test_where_validation_is_too_short_no_interval_is_given_and_the_reason_is(tmp_path):
    path = write(tmp_path, "x\n" + "".join(f"{i % 7 + i % 3}\n" for i in range(120)))
    found = runs.train(SeriesTask, configure(path, "ar", valid_share=0.2, horizon=6), str(tmp_path / "run"))
    assert found["bounded"] == 1
    reason = "no intervals from 2 points ahead on: to calibrate them at 80% takes 10 windows"
    assert reason in SeriesTask.headline(found)
    rows, below = SeriesTask.table(evaluation.evaluate(str(tmp_path / "run"), split="test"))[1:]
    assert any(reason in line for line in below)
    assert [row[-1] == "–" for row in rows] == [False, True, True, False]
