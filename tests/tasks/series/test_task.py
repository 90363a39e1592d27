"""Forecasting as a task: windows, errors and baselines by hand, runs and what they say."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import recollect
from recollect.core.contract import ContractError
from recollect.data.files import DataError
from recollect.tasks.series import data
from recollect.tasks.series.baselines import BASELINES, repeat_season
from recollect.tasks.series.errors import Errors, summarize
from recollect.tasks.series.settings import Config
from recollect.tasks.series.task import SeriesTask
from recollect.training import evaluation
from recollect.training import run as runs
from tasks.cases import hourly
from tasks.series.cases import configure, of, write


class Says:
    """A forecaster that says the last value plus something."""

    class config:  # noqa: N801
        level = 0.8

    spread = torch.ones(1)

    def __init__(self, plus=0.0, half=1.0):
        self.plus, self.half = plus, half

    def forecast(self, past, horizon=None, beside=None):
        mean = past[:, -1:].expand(-1, horizon or 2, -1) + self.plus
        return mean, mean - self.half, mean + self.half


def test_every_window_counts_once_and_looks_back_over_the_edge():
    task = of(np.arange(20))
    assert list(task.origins("train")) == [4, 5, 6, 7, 8]
    assert list(task.origins("test")) == list(range(10, 19))
    batch = task.window([10])
    assert batch.x[0, :, 0].tolist() == [6, 7, 8, 9]
    assert batch.y[0, :, 0].tolist() == [10, 11]
    small = of(np.arange(20), batch=2)
    batches = small.batches("train", seed=3)
    first = [float(y) for _ in range(3) for y in next(batches).y[:, 0, 0]]
    assert sorted(first) == [4, 5, 6, 7, 8]
    second = [float(y) for _ in range(3) for y in next(batches).y[:, 0, 0]]
    assert sorted(second) == sorted(first)
    assert second != first
    again = small.batches("train", seed=3, start=4)
    assert [float(y) for y in next(again).y[:, 0, 0]] == second[2:4]


def test_errors_by_hand():
    """A line that climbs by 1: the last value is wrong by 1, then by 2."""
    task = of(np.arange(20))
    found = task.evaluate(Says(half=1.5), "test")
    assert found["mse"] == pytest.approx((1 + 4) / 2)
    assert found["mae"] == pytest.approx(1.5)
    assert found["mase"] == pytest.approx(1.5)
    assert found["by_horizon"]["1"]["mse"] == pytest.approx(1)
    assert found["by_horizon"]["2"]["mae"] == pytest.approx(2)
    assert found["coverage"] == pytest.approx(0.5)
    assert found["interval"] == pytest.approx(3)
    assert found["windows"] == 9


def test_mase_by_hand(tmp_path):
    """The error over that of the seasonal naive forecast in the training part, column by column."""
    values = np.array([[t % 3, 10 * (t % 3)] for t in range(60)], dtype=float)
    values[:42, 0] += np.arange(42) * 0.5  # in training the season comes back 1.5 higher
    path = write(tmp_path, "a,b\n" + "\n".join(f"{a},{b}" for a, b in values))
    found = data.load(path, period=3)
    scaler = found.scaler
    assert scaler.naive[0] * scaler.deviation[0] == pytest.approx(1.5)
    assert scaler.naive[1] * scaler.deviation[1] == pytest.approx(np.abs(np.diff(values[:42, 1])).mean())
    task = SeriesTask(Config(lookback=3, horizon=1), found)
    rival = task.rivals("test")["naive"]
    errors = np.abs(np.diff(values[found.splits["test"][0] - 1 :], axis=0)).mean(axis=0)
    # b repeats to the bit, so its unit is the error of the last value
    units = 1.5, np.abs(np.diff(values[:42, 1])).mean()
    assert rival["mase"] == pytest.approx(np.mean(errors / units))


def test_errors_are_told_in_the_datas_own_units_too(tmp_path):
    values = np.random.default_rng(0).normal(size=100) * 7 + 3
    path = write(tmp_path, "a\n" + "\n".join(map(repr, values.tolist())))
    task = SeriesTask(Config(lookback=2, horizon=1), data.load(path))
    rival = task.rivals("test")["naive"]
    errors = np.diff(values[79:])
    assert rival["mse_raw"] == pytest.approx((errors**2).mean(), rel=1e-4)
    assert rival["mae_raw"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
    deviation = task.data.scaler.deviation[0]
    assert rival["mse"] == pytest.approx(rival["mse_raw"] / deviation**2, rel=1e-6)


def test_the_advice_to_use_the_line_is_one_that_gives_it(table, tmp_path):
    """A run of `ar` with other settings is told more than `--model ar`."""
    runs.train(SeriesTask, configure(table, "ar", ridge=10, lookback=24), str(tmp_path / "far"))
    loaded = runs.load(tmp_path / "far")
    advice = loaded.task.instead["linear"]
    assert advice == "--model ar --set ridge=0.0001"
    runs.train(SeriesTask, configure(table, "ar", ridge=0.0001, lookback=24), str(tmp_path / "near"))
    near = runs.load(tmp_path / "near")
    assert near.task.evaluate(near.model, "valid")["mse"] == pytest.approx(
        near.task.baselines("valid")["linear"], rel=1e-4
    )


def test_the_baselines_by_hand():
    """A season of 3 with a jump in the middle."""
    values = np.array([0.0, 1, 5] * 10)
    task = of(values, lookback=4, horizon=4, period=3)
    rivals = task.rivals("test")
    assert set(rivals) == set(BASELINES)
    assert rivals["seasonal naive"]["mse"] == 0
    assert rivals["linear"]["mse"] == pytest.approx(0, abs=1e-3)
    assert rivals["mean"]["mse"] == pytest.approx(
        np.mean([(values[t : t + 4] ** 2).mean() for t in task.origins("test")])
    )
    expected = np.mean([((values[t : t + 4] - values[t - 1]) ** 2).mean() for t in task.origins("test")])
    assert rivals["naive"]["mse"] == pytest.approx(expected)
    assert rivals["markov 1"]["mse"] < 0.1 * rivals["naive"]["mse"]  # each value says which comes next
    assert task.baselines("test") == {name: found["mse"] for name, found in rivals.items()}


def test_the_last_season_is_repeated_from_where_there_is_one_however_windows_are_batched():
    values = np.random.default_rng(0).normal(size=24)
    windows = [4, 6, 7, 12]  # the first has seen no whole season of 5 yet
    said = repeat_season(values[:, None], windows, period=5, horizon=7)
    expected = [[values[t - 1]] * 7 if t < 5 else [values[t - 5 + h % 5] for h in range(7)] for t in windows]
    assert np.allclose(said[..., 0], expected)


def test_the_coverage_of_a_known_gaussian_is_its_own():
    values = np.random.default_rng(0).normal(size=4000)
    task = of(values, lookback=1, horizon=1)
    errors = Errors(1, 1, "cpu")
    y = task.window(task.origins("test")).y
    errors.add(torch.zeros_like(y), y, None, (torch.full_like(y, -1.2816), torch.full_like(y, 1.2816)))
    assert summarize(errors, "x", task.data.scaler, 0.8)["coverage"] == pytest.approx(0.8, abs=0.02)


def test_what_was_not_measured_counts_for_nothing():
    values = np.arange(20.0)
    values[12] = 1000
    seen = np.ones((20, 1), dtype=bool)
    seen[12] = False
    with_gap, without = of(values, seen=seen), of(values)
    assert without.evaluate(Says(), "test")["mse"] > 1e4
    batch = with_gap.window([11, 12])
    assert batch.counts.flatten().tolist() == [True, False, False, True]
    model = SeriesTask.build_model({"name": "ar", "lookback": 4, "horizon": 2}, with_gap.data.scaler, runs.load)
    moved = batch._replace(y=torch.where(batch.counts, batch.y, batch.y + 7))
    with torch.no_grad():
        assert torch.equal(with_gap.loss(model, batch).value, with_gap.loss(model, moved).value)
        assert not torch.equal(
            without.loss(model, batch._replace(counts=None)).value, with_gap.loss(model, batch).value
        )


def test_a_series_too_short_is_refused_with_what_it_takes(tmp_path):
    path = write(tmp_path, "x\n" + "".join(f"{i}\n" for i in range(30)))
    with pytest.raises(DataError, match=r"at least 30 rows for train \(look-back 24, horizon 6\), found 21"):
        SeriesTask(Config(lookback=24, horizon=6), data.load(path))
    with pytest.raises(DataError, match=r"at least 6 rows for valid .*, found 3.*smaller --lookback or --horizon"):
        SeriesTask(Config(lookback=4, horizon=6), data.load(path))


def test_residual_intervals_hold_their_share_of_what_they_were_measured_on():
    values = np.random.default_rng(0).normal(size=600)
    task = of(values, lookback=3, horizon=2)
    model = SeriesTask.build_model(
        {"name": "ar", "lookback": 3, "horizon": 2, "level": 0.7}, task.data.scaler, runs.load
    ).eval()
    task.solve(model, None)
    assert task.calibrate(model)
    found = task.evaluate(model, "valid")
    assert found["coverage"] == pytest.approx(0.7, abs=0.01)
    assert found["level"] == 0.7


@pytest.mark.parametrize("channels", ["independent", "joint"])
def test_what_was_not_measured_is_not_solved_for(channels):
    """Two series that double; where nothing was measured stands something else."""
    t = np.arange(24) % 6
    values = np.stack([2.0**t, 3 * 2.0**t], axis=1)
    seen = np.ones(values.shape, dtype=bool)
    for row in (3, 10, 17):
        values[row, 1], seen[row, 1] = 999, False
    task = of(values, lookback=1, horizon=1, seen=seen, splits=dict.fromkeys(("train", "valid", "test"), (0, 24)))
    task.origins = lambda split: [o for o in range(1, 24) if t[o] and o - 1 not in (3, 10, 17)]
    settings = {"name": "ar", "lookback": 1, "horizon": 1, "series": 2, "channels": channels, "normalise": "none"}
    model = SeriesTask.build_model(settings, task.data.scaler, runs.load).eval()
    task.solve(model, None)
    assert model(torch.tensor([[[5.0, 15.0]]])).flatten().tolist() == pytest.approx([10, 30], abs=1e-3)
    blind = of(values, lookback=1, horizon=2, seen=seen & (np.arange(24) % 2 == 0)[:, None])
    assert "linear" not in blind.rivals("test")
    with pytest.raises(DataError, match="every value of their horizon measured, found none; set fit=steps"):
        blind.solve(model, None)


def test_a_run_folder_and_its_row_say_everything(table, tmp_path):
    out = str(tmp_path / "run")
    runs.train(SeriesTask, configure(table), out)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.json", "data.json", "model.safetensors", "scaler.json", "metrics.jsonl", "checkpoints", "manifest.json",
    }  # fmt: skip
    row = evaluation.result(out, split="test", device="cpu")
    assert row["task"] == "series"
    assert row["metric"]["name"] == "mse"
    assert row["metric"]["value"] == row["figures"]["mse"]
    assert set(row["baselines"]) == set(BASELINES)
    assert row["flops"] > 0
    assert row["state_bytes"] == 2 * 8 * 4  # a state of width 8 for each of two series
    columns, lines, below = SeriesTask.table(row)
    assert columns[0] == "horizon"
    assert [line[0] for line in lines] == ["1", "4", "all"]
    assert any("without learning, mse: naive" in line for line in below)
    assert any("intervals meant to hold 80% held" in line for line in below)
    json.dumps(row)


def test_a_better_baseline_is_named(table, tmp_path):
    out = str(tmp_path / "run")
    runs.train(SeriesTask, configure(table, steps=1, lr="1e-9"), out)
    found = evaluation.evaluate(out, split="test")
    assert "seasonal naive" in found["better"]
    assert any(line.startswith("better than this model: ") for line in SeriesTask.table(found)[2])


def test_all_of_another_file_is_measured_on_the_scale_of_the_run(table, tmp_path):
    out = str(tmp_path / "run")
    runs.train(SeriesTask, configure(table, "ar"), out)
    other = write(tmp_path, hourly(rows=50), "other.csv")
    found = evaluation.evaluate(out, split="test", data=[other])
    assert found["figures"]["windows"] == 50 - 12 - 4 + 1
    swapped = write(tmp_path, hourly(rows=50, columns=("b", "c")), "swapped.csv")
    with pytest.raises(DataError, match="expected a column 'a', found date, b, c"):
        evaluation.evaluate(out, split="test", data=[swapped])


def test_a_run_whose_scaler_fits_another_model_is_refused(table, tmp_path):
    out = tmp_path / "run"
    runs.train(SeriesTask, configure(table), str(out))
    data.load("sine").scaler.save(out / "scaler.json")
    with pytest.raises(ContractError, match="expected 1 series as the scaler has, found 2"):
        runs.load(out)


def test_a_run_from_before_there_were_covariates_and_grids_is_read_as_it_was(table, tmp_path):
    out = tmp_path / "run"
    runs.train(SeriesTask, configure(table, "ar"), str(out))
    wanted = recollect.load(out).forecast(table)
    config, scaler = json.loads((out / "config.json").read_text()), json.loads((out / "scaler.json").read_text())
    new = {"id", "known", "past", "every", "aggregate", "zone", "time_format", "decimal", "encoding", "calendar"}
    config["data"] = {name: value for name, value in config["data"].items() if name not in new}
    new = {"interval_scale", "known_inputs", "past_inputs", "own_covariates", "effect"}
    config["model"] = {name: value for name, value in config["model"].items() if name not in new}
    (out / "config.json").write_text(json.dumps(config))
    (out / "scaler.json").write_text(json.dumps({k: scaler[k] for k in scaler if k not in ("step", "covariates")}))
    found = recollect.load(out).forecast(table)
    assert np.array_equal(found.mean, wanted.mean)
    assert np.array_equal(found.lower, wanted.lower)


@pytest.mark.parametrize(
    ("rows", "given", "expected"), [(216, None, 27), (768, None, 96), (20_000, None, 96), (7, None, 1), (216, 96, 96)]
)
def test_a_look_back_that_is_not_set_is_96_or_an_eighth_of_the_training_rows(rows, given, expected):
    assert Config(lookback=given).fitting((5, 5 + rows)) == expected


def test_the_look_back_that_fits_is_written_down_and_beats_the_mean_on_the_sunspots(tmp_path):
    run = runs.configure(SeriesTask, {}, model="ar", data=["sunspots"])
    out = tmp_path / "run"
    runs.train(SeriesTask, run, str(out))
    found = runs.load(out)
    assert found.config.task.lookback == 27 == found.model.config.lookback
    mse = evaluation.evaluate(out, split="valid")["metric"]["value"]
    guesses = found.task.baselines("valid")
    assert mse < guesses["seasonal naive"] < guesses["mean"]
    page = (Path(__file__).parents[3] / "docs" / "layers" / "window.md").read_text(encoding="utf-8")
    assert all(f"{value:.4f}" in page for value in (mse, guesses["seasonal naive"], guesses["mean"]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"valid_share": 0.5, "test_share": 0.5}, "shares above 0"),
        ({"fit": "solve"}, "fit=solve needs one layer of ar"),
        ({"lookbak": 3}, "did you mean 'lookback'"),
        ({"loss": "hubert"}, "did you mean 'huber'"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_it_begins(table, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        runs.train(SeriesTask, configure(table, **settings), str(tmp_path / "run"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_errors_of_any_size_can_be_told_apart_in_the_table(tmp_path):
    """In the units of the data they may be tiny or huge."""
    for size, name in ((1e-9, "tiny"), (1e9, "huge")):
        rows = "".join(f"{size * (math.sin(t) + t % 3)!r}\n" for t in range(200))
        runs.train(SeriesTask, configure(write(tmp_path, "a\n" + rows, f"{name}.csv"), "ar"), str(tmp_path / name))
        found = evaluation.evaluate(str(tmp_path / name), split="test")
        columns, table, _ = SeriesTask.table(found)
        for column in ("mse_raw", "mae_raw"):
            cell = table[-1][columns.index(column)]
            assert float(cell) == pytest.approx(found["figures"][column], rel=1e-3)
            assert len(cell) < 12


@pytest.mark.parametrize("model", [name for name in SeriesTask.models if name not in SeriesTask.unsized])
def test_every_model_has_the_size_asked_for_on_two_columns(model, tmp_path):
    path = write(tmp_path, "a,b\n" + "".join(f"{math.sin(t)},{t % 5}\n" for t in range(200)))
    runs.train(SeriesTask, configure(path, model, steps=1), str(tmp_path / "run"), params=5_000)
    found = runs.load(str(tmp_path / "run")).model
    assert found.config.series == 2
    assert sum(p.numel() for p in found.parameters()) == pytest.approx(5_000, rel=0.15)
