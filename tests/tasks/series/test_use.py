"""Forecasts that go on where a file ends, and gaps that are filled."""

import math

import numpy as np
import pytest

from recollect import load
from recollect.data.files import DataError
from recollect.report.series import plot
from recollect.tasks.series.forecaster import Forecaster
from recollect.tasks.series.tables.table import read_table
from recollect.tasks.series.task import SeriesTask
from recollect.tasks.series.use import fill, forecast, history
from recollect.training import evaluation
from recollect.training import run as runs
from tasks.cases import hourly
from tasks.series.cases import configure, write


def test_a_series_that_never_changes_is_forecast_all_the_same(tmp_path):
    path = write(tmp_path, "a\n" + "7\n" * 300)
    found = runs.train(SeriesTask, configure(path, "ar"), str(tmp_path / "run"))
    assert found["mse"] == pytest.approx(0, abs=1e-9)
    assert found["mase"] is None
    assert "mase –" in SeriesTask.headline(found)
    SeriesTask.table(evaluation.evaluate(str(tmp_path / "run"), split="test"))
    rows = list(forecast(Forecaster.of_run(runs.load(tmp_path / "run")), path))
    assert [row.mean for row in rows] == pytest.approx([7.0] * 4)
    assert (rows[0].lower, rows[0].upper) == pytest.approx((7.0, 7.0))


@pytest.fixture
def used(solved):
    return Forecaster.of_run(solved)


@pytest.mark.parametrize("model", SeriesTask.models)
def test_every_model_becomes_a_run_that_can_be_measured_verified_and_asked(table, tmp_path, model):
    out = str(tmp_path / "run")
    found = runs.train(SeriesTask, configure(table, model, steps=2), out)
    assert math.isfinite(found["mse"])
    assert "coverage" in found
    assert max(evaluation.verify(out).values()) < 1e-10
    rows = list(forecast(Forecaster.of_run(runs.load(out)), table))
    assert [row.series for row in rows] == ["a"] * 4 + ["b"] * 4
    assert all(row.lower < row.mean < row.upper for row in rows)
    assert rows[0].time == "2024-01-13 12:00:00"


def test_a_forecast_goes_on_where_the_file_ends(used, tmp_path):
    longer = read_table(write(tmp_path, hourly(rows=310), "longer.csv"))
    rows = list(forecast(used, write(tmp_path, hourly(rows=300)), 10))
    assert [row.time for row in rows[:10]] == longer.times.texts[300:310]
    for c, name in enumerate("ab"):
        means = [row.mean for row in rows if row.series == name]
        assert np.allclose(means, longer.values[300:310, c], atol=0.3)
    assert {row.how for row in rows} == {"extrapolated"}
    known = [row for row in rows if row.lower is not None]
    assert len(known) == 2 * 4  # errors were measured up to the horizon of the run
    assert all(row.lower < row.mean < row.upper for row in known)


def test_a_file_shorter_than_the_look_back_is_refused(used, tmp_path):
    with pytest.raises(DataError, match="at least 24 rows, the look-back of the run, found 20"):
        list(forecast(used, write(tmp_path, hourly(rows=20))))
    with pytest.raises(DataError, match="horizon of at least 1"):
        list(forecast(used, write(tmp_path, hourly()), -1))


def test_bounds_that_are_missing_are_said_to_be(solved, table, tmp_path):
    model = load(solved.path)
    assert model.forecast(table).notes == ()
    (note,) = model.forecast(table, 6).notes
    assert note.startswith("no bounds beyond 4 points ahead, the horizon of the run")
    runs.train(SeriesTask, configure(table, "ar", valid_share=0.1), str(tmp_path / "short"))
    (note,) = load(tmp_path / "short").forecast(table).notes
    assert note.startswith("no intervals from 3 points ahead on: to calibrate them at 80% takes 10 windows")


@pytest.mark.parametrize(("intervals", "words"), [("residual", "no intervals"), ("gaussian", "intervals are the mod")])
def test_a_run_without_a_validation_says_so_of_its_intervals(table, tmp_path, intervals, words):
    runs.train(SeriesTask, configure(table, "ar", intervals=intervals), str(tmp_path / "run"))
    run = runs.load(tmp_path / "run")
    run.model.spread.zero_()  # as a run that was stopped before its first validation has it
    forecaster = Forecaster.of_run(run)
    lower = np.array([np.nan if row.lower is None else row.lower for row in forecast(forecaster, table)])
    (note,) = forecaster.missing_bounds(lower.reshape(2, -1).T)
    assert note.startswith(words)
    assert "stopped before its first validation" in note
    assert note in SeriesTask.table(run.task.figures(run.model, "test") | {"split": "test"})[2]


def test_missing_rows_are_filled_like_empty_ones(used, tmp_path):
    lines = hourly().split("\n")
    absent = write(tmp_path, "\n".join(lines[:101] + lines[104:]), "absent.csv")
    empty = write(tmp_path, hourly(missing={(t, c) for t in (100, 101, 102) for c in (0, 1)}), "empty.csv")
    assert list(fill(used, absent)) == list(fill(used, empty))
    assert len(list(fill(used, absent))) == 6


def test_a_table_on_another_grid_is_refused(used, tmp_path):
    lines = hourly().split("\n")
    path = write(tmp_path, "\n".join([lines[0], *lines[1::2]]), "halved.csv")
    with pytest.raises(DataError, match="a row every 1 hour, as the run was trained on, found one every 2 hours"):
        used.open_file(path)


def test_gaps_are_filled_and_told_apart_from_what_lies_ahead(solved, used, tmp_path):
    whole = read_table(write(tmp_path, hourly()))
    missing = {(100, 0), (101, 0), (102, 0), (200, 1), (5, 0), (298, 1), (299, 1)}
    rows = list(fill(used, write(tmp_path, hourly(missing=missing), "gaps.csv")))
    assert len(rows) == len(missing)
    assert [row.time for row in rows] == [whole.times.texts[t] for t, _ in sorted(missing)]
    truth = {(whole.times.texts[t], "ab"[c]): whole.values[t, c] for t, c in missing}
    for row in rows:
        assert row.mean == pytest.approx(truth[row.time, row.series], abs=0.5)
        ahead = row.time in whole.times.texts[298:]
        assert row.how == ("extrapolated" if ahead else "interpolated")
        early = row.time == whole.times.texts[5]  # less than a look-back lies before it: a line
        assert (row.lower is None) == early
        assert early or row.lower < row.mean < row.upper
    first, middle, last = (row.upper - row.lower for row in rows if row.series == "a" and row.lower is not None)
    spread = solved.model.spread[:, 0].numpy() * solved.artifacts.deviation[0] * 2
    assert first < spread[0]
    assert last < spread[2]
    assert middle > 0


def test_what_a_bridge_ends_at_is_what_was_measured(used, tmp_path):
    """Were the value after the gap another one, so would be what is filled in, and most at its end."""
    text = hourly(missing={(100, 0), (101, 0)})
    lines = text.split("\n")
    cells = lines[103].split(",")
    raised = "\n".join([*lines[:103], ",".join([cells[0], str(float(cells[1]) + 3), cells[2]]), *lines[104:]])
    before, after = (list(fill(used, write(tmp_path, t, "gap.csv"))) for t in (text, raised))
    first, second = (b.mean - a.mean for a, b in zip(before, after, strict=True))
    assert 0.5 < first < second < 3


def test_before_its_first_value_nothing_is_said_of_a_column(used, tmp_path):
    assert list(fill(used, write(tmp_path, hourly(missing={(0, 0), (1, 0)}), "late.csv"))) == []
    with pytest.raises(DataError, match="before row 22, found 20"):
        list(fill(used, write(tmp_path, hourly(rows=21, missing={(20, 0)}), "short.csv")))


def test_a_series_that_ends_early_is_forecast_from_its_own_end(tmp_path):
    rows = [(f"{t},{name},{t % 12 + offset}\n", t, name) for t in range(300) for name, offset in (("a", 0), ("b", 50))]
    path = write(tmp_path, "t,id,x\n" + "".join(text for text, _, _ in rows), "whole.csv")
    runs.train(SeriesTask, configure(path, "ar", id="id", time="t"), str(tmp_path / "run"))
    early = [text for text, t, name in rows if name == "a" or t < 298]
    model = load(tmp_path / "run")
    whole, found = model.forecast(path), model.forecast(write(tmp_path, "t,id,x\n" + "".join(early), "early.csv"))
    assert found.times == whole.times
    assert np.isnan(found.lower).tolist() == [[False, False]] * 2 + [[False, True]] * 2
    assert found.mean == pytest.approx(np.array([[t % 12, t % 12 + 50] for t in range(300, 304)]), abs=0.1)
    assert found.mean[:, 0].tolist() == whole.mean[:, 0].tolist()
    (note,) = found.notes
    assert "series that end before the others: 1, the first 'b'" in note
    assert whole.notes == ()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_forecast_is_drawn(used, table, tmp_path, suffix):
    path = tmp_path / f"figure.{suffix}"
    found = used.open_file(table)
    assert plot(history(found, 48), forecast(used, found), path) == []
    assert path.stat().st_size > 1000
    if suffix == "svg":
        assert "measured" in path.read_text()
