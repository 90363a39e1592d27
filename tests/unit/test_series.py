"""Series: tables and what is wrong with them, the task's figures by hand, runs and what they are used for."""

import gzip
import json
import math
import os
import subprocess
import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from recollect.core.contract import ContractError
from recollect.data.files import DataError
from recollect.report import series as series_figure
from recollect.report.series import plot
from recollect.tasks.series import data
from recollect.tasks.series.baselines import BASELINES, repeat_season
from recollect.tasks.series.data import Series
from recollect.tasks.series.errors import Errors, summarize
from recollect.tasks.series.gaps import bridged, close_gaps, trim
from recollect.tasks.series.multi_step import free_run, k_step, measure_ahead
from recollect.tasks.series.scaler import Scaler, season
from recollect.tasks.series.settings import Config, DataConfig
from recollect.tasks.series.sources import noisy_sine, open_table
from recollect.tasks.series.table import read_table
from recollect.tasks.series.task import SeriesTask
from recollect.tasks.series.use import fill, forecast, history, open_file
from recollect.train import run as runs
from recollect.train.folder import RunError, RunFolder
from recollect.train.recipe import read_recipe


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))


def write(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def hourly(rows=300, columns=("a", "b"), missing=()):
    """A table of waves with a season of 12."""
    lines = [",".join(["date", *columns])]
    draw = np.random.default_rng(0)
    for t in range(rows):
        day, hour = divmod(t, 24)
        cells = [
            f"{10 * c + math.sin(2 * math.pi * t / 12 + c) + draw.normal(0, 0.05):.4f}" for c in range(len(columns))
        ]
        cells = ["" if (t, c) in missing else cell for c, cell in enumerate(cells)]
        lines.append(",".join([f"2024-{1 + day // 28:02}-{1 + day % 28:02} {hour:02}:00:00", *cells]))
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------ tables


@pytest.mark.parametrize(
    "text",
    [
        "date,a,b\n2024-01-01,1.5,2\n2024-01-02,2.5,3\n",
        "\ufeffdate,a,b\r\n2024-01-01,1.5,2\r\n2024-01-02,2.5,3\r\n",
        "date;a;b\n2024-01-01;1,5;2\n2024-01-02;2,5;3\n",
        "date\ta\tb\n2024-01-01\t1.5\t2\n2024-01-02\t2.5\t3\n\n\n",
        'date,"a",b\n"2024-01-01", 1.5 ,2\n2024-01-02,"2.5",3',
        "date;a;b\n01.01.2024;1.5;2\n02.01.2024;2.5;3\n",
        "date,a,b\n2024/01/01,1.5,2e0\n2024/01/02,+2.5,.3e1\n",
        "date|a|b\n2024-01-01|1,5|2\n2024-01-02|2,5|3\n",
        "a,b,when\n1.5,2,2024-01-01\n2.5,3,2024-01-02\n",
        "date,a,b,\n2024-01-01,1.5,2,\n2024-01-02,2.5,3,\n",
        ",date,a,b\n0,2024-01-01,1.5,2\n1,2024-01-02,2.5,3\n",
    ],
    ids=[
        *("plain", "mark and crlf", "decimal comma", "tabs", "quotes", "dotted dates", "slashes", "bars"),
        *("time last", "trailing separators", "row numbers"),
    ],
)
def test_a_table_is_read_however_it_is_written(tmp_path, text):
    found = read_table(write(tmp_path, text))
    assert found.columns == ("a", "b")
    assert found.values.tolist() == [[1.5, 2], [2.5, 3]]
    assert "2024" in found.times.after(2)[0]


def test_a_column_without_a_name_is_read_where_it_is_asked_for_or_alone(tmp_path):
    path = write(tmp_path, "date,,a\n2024-01-01,1,2\n2024-01-02,3,4\n")
    assert read_table(path).columns == ("a",)
    assert read_table(path, target=["column 2"]).values.tolist() == [[1], [3]]
    assert read_table(write(tmp_path, "date,\n2024-01-01,1\n2024-01-02,3\n")).values.tolist() == [[1], [3]]


def test_digits_in_another_column_than_the_first_are_numbers_even_where_they_could_be_a_date(tmp_path):
    found = read_table(write(tmp_path, "a,b\n1,20240101\n2,20240102\n"))
    assert found.columns == ("a", "b")
    assert found.times.after(1) == ["2"]


def test_a_packed_table_is_read_as_a_plain_one(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert read_table(path).values.tolist() == [[1, 2], [3, 4]]


def test_without_a_header_columns_are_numbered_and_rows_are_the_time(tmp_path):
    found = read_table(write(tmp_path, "1,2\n3,4\n5,6\n"))
    assert found.columns == ("1", "2")
    assert found.times.after(2) == ["3", "4"]
    assert read_table(write(tmp_path, "1,2\n3,4\n"), header="yes").values.tolist() == [[3, 4]]
    assert read_table(write(tmp_path, "1,2\n3,4\n5,6\n"), target=["2"]).values.tolist() == [[2], [4], [6]]


def test_only_the_columns_asked_for_are_read(tmp_path):
    path = write(tmp_path, "when,what,x,y\n1,one,1,2\n2,two,3,4\n")
    found = read_table(path, target=["y", "x"], time="when")
    assert (found.columns, found.values.tolist()) == (("y", "x"), [[2, 1], [4, 3]])
    assert found.times.after(1) == ["3"]


@pytest.mark.parametrize("text", ["", "NaN", "na", "?", "null", "N/A", " ", "-"])
def test_what_says_that_a_number_is_missing_is_understood(tmp_path, text):
    found = read_table(write(tmp_path, f"a,b\n1,2\n{text},3\n4,5\n"))
    assert np.isnan(found.values).tolist() == [[False, False], [True, False], [False, False]]


@pytest.mark.parametrize(
    ("times", "after"),
    [
        (["2024-01-30", "2024-01-31"], ["2024-02-01", "2024-02-02"]),
        (["2024-01-31", "2024-02-29", "2024-03-31"], ["2024-04-30", "2024-05-31"]),
        (["2024-11-15", "2024-12-15", "2025-01-15"], ["2025-02-15", "2025-03-15"]),
        (["2023-11", "2023-12", "2024-01"], ["2024-02", "2024-03"]),
        (["2024-01-01 23:30:00", "2024-01-01 23:45:00"], ["2024-01-02 00:00:00", "2024-01-02 00:15:00"]),
        (["2024-01-01T22:00", "2024-01-01T23:00"], ["2024-01-02T00:00", "2024-01-02T01:00"]),
        (["2024-01-01T22:00:00+02:00", "2024-01-01T23:00:00+02:00"], ["2024-01-02T00:00:00+02:00"]),
        (["1999", "2000", "2001"], ["2002", "2003"]),
        (["0.1", "0.2", "0.3"], ["0.4", "0.5"]),
        (["20240228", "20240229"], ["20240301"]),
        (["20240228T0600", "20240229T0600"], ["20240301T0600"]),
        (["20240228T060000+0200", "20240229T060000+0200"], ["20240301T060000+0200"]),
        (["2024-01-01T22:00:00Z", "2024-01-01T23:00:00Z"], ["2024-01-02T00:00:00Z"]),
        (["2024-01-01 00:00:00.500", "2024-01-01 00:00:00.750"], ["2024-01-01 00:00:01.000"]),
        (["2024-01-31", "2024-02-29"], ["2024-03-31", "2024-04-30"]),  # the last of the month, not the 29th
        (["2024-04-30", "2024-05-31", "2024-06-30"], ["2024-07-31", "2024-08-31"]),
        (["2024-01-30", "2024-02-29", "2024-03-30"], ["2024-04-30", "2024-05-30", "2024-06-30", "2024-07-30"]),
        (["2024-01-01", "2024-02-01", "2024-04-01", "2024-05-01"], ["2024-06-01", "2024-07-01"]),  # one month lacks
        (["2021-01-01", "2022-01-01", "2023-01-01"], ["2024-01-01", "2025-01-01"]),  # over a leap day
        (["2024-02-01", "2024-02-29", "2024-03-28"], ["2024-04-25"]),  # four weeks are no month
        (
            ["2024-03-07", "2024-03-08", "2024-03-11", "2024-03-12"],
            ["2024-03-13", "2024-03-14", "2024-03-15", "2024-03-18"],
        ),
        (["2024-03-07", "2024-03-08", "2024-03-09"], ["2024-03-10"]),  # a Saturday is among them
        (["2024-03-08", "2024-03-11", "2024-03-12", "2024-03-14", "2024-03-15"], ["2024-03-18"]),  # a holiday
        (["2024-03-05", "2024-03-08", "2024-03-11", "2024-03-14"], ["2024-03-17"]),  # every three days
        (["31.12.2023 23:00", "01.01.2024 00:00"], ["01.01.2024 01:00"]),
        (["1/11/2024", "1/12/2024", "1/13/2024"], ["01/14/2024"]),  # the last one shows that the month comes first
        (["11/01/2024", "12/01/2024", "13/01/2024"], ["14/01/2024"]),
        (["12/31/2023 22:00", "12/31/2023 23:00"], ["01/01/2024 00:00"]),
    ],
)
def test_times_go_on_as_they_came(tmp_path, times, after):
    text = "time,x\n" + "".join(f"{time},{i}\n" for i, time in enumerate(times))
    assert read_table(write(tmp_path, text)).times.after(len(after)) == after


def test_weekends_are_no_gaps_in_a_table_of_weekdays_and_holidays_are(tmp_path):
    days = [date(2024, 3, 4) + timedelta(days=n) for n in range(40)]
    weekdays = [day for day in days if day.weekday() < 5]
    rows = [f"{day},{n % 5}\n" for n, day in enumerate(weekdays)]
    assert data.load(write(tmp_path, "date,x\n" + "".join(rows)), even=True).notes == []
    del rows[10]
    (note,) = data.load(write(tmp_path, "date,x\n" + "".join(rows))).notes
    assert "1 steps of another length than 1 weekday, the first before row 12" in note


def test_times_that_may_have_the_day_or_the_month_first_are_refused(tmp_path):
    rows = "".join(f"{first:02}/01/2024,{first}\n" for first in range(1, 13))
    with pytest.raises(DataError, match="column 'date': .* the day or the month first; write the year first"):
        read_table(write(tmp_path, "date,x\n" + rows))


def test_a_table_of_slashed_dates_without_a_header_keeps_its_first_row(tmp_path):
    found = read_table(write(tmp_path, "1/30/2024,1\n1/31/2024,2\n2/1/2024,3\n"))
    assert found.values.tolist() == [[1], [2], [3]]


def test_the_end_of_the_calendar_is_a_line(tmp_path):
    found = read_table(write(tmp_path, "date,x\n9998-12-31,1\n9999-12-31,2\n"))
    with pytest.raises(DataError, match="up to the year 9999"):
        found.times.after(3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date,a\n2024-01-01,1\n2024-01-02,oops\n", "row 3, column 'a': expected a number, found 'oops'"),
        ("a,b\n1,2\n1,inf\n", "row 3, column 'b': expected a number, found 'inf'"),
        ("date,a\n1/14/2024,1\n1/1x/2024,2\n", "row 3, column 'date': expected a time like '1/14/2024'"),
        ("date,a\n1/14/2024,1\n1/12/2024,2\n", "row 3, column 'date': expected a time after '1/14/2024'"),
        ("a,b\n1,2\n1,1_000\n", "row 3, column 'b': expected a number, found '1_000'"),
        ("a;b\n1;2\n1;1.000,5\n", "row 3, column 'b': expected a number, found '1.000,5'"),
        ("a,b\n1,2\n3\n", "row 3: expected 2 columns as in the first row, found 1"),
        ("a,b\n1,2\n3,4,5\n", "row 3: expected 2 columns as in the first row, found 3"),
        ("a,a\n1,2\n", "row 1: expected each column's name once, found 'a' twice"),
        ("a,b\n", "found only a header"),
        ("\n \n", "found blank lines"),
        ("date,x\n2024-01-02,1\n2024-01-01,2\n", "row 3, column 'date': expected a time after '2024-01-02'"),
        ("date,x\n2024-01-02,1\n2024-01-02,2\n", "row 3, column 'date': expected a time after"),
        ("date,x\n2024-01-02,1\nsoon,2\n", "row 3, column 'date': expected a time like '2024-01-02'"),
        ("date,x\n2024-01-02,1\n2024-02-30,2\n", "row 3, column 'date': expected a time like"),
        ("date,x\n2024-01-02,1\n,2\n", "row 3, column 'date': expected a time like"),
        ("date,x\n01-02-2024,1\n", r"row 2, column 'date': expected a time \(2016-07-01.*, found '01-02-2024'"),
        ("date,x\n2024-01-01T00:00,1\n2024-01-02T00:00+01:00,2\n", "row 3, .* all with a zone or all without"),
        ("date\n2024-01-01\n2024-01-02\n", "a column of numbers beside the time column 'date'"),
        ('a,b\n1,2\n"3,4\n', "row 3: expected 2 columns"),
    ],
    ids=lambda value: value[:24].replace("\n", "/") if "\n" in value else "",
)
def test_what_is_wrong_with_a_table_is_said_with_its_row_and_column(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_table(write(tmp_path, text))
    assert "table.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_are_counted_as_an_editor_counts_them(tmp_path):
    """Blank lines and cells of several lines too."""
    with pytest.raises(DataError, match="row 6, column 'a'"):
        read_table(write(tmp_path, '"a","the\nb"\n\n1,2\n\nx,3\n'))


def test_a_column_that_is_not_there_is_refused_with_a_suggestion(tmp_path):
    path = write(tmp_path, "date,load,price\n2024-01-01,1,2\n")
    with pytest.raises(DataError, match="a column 'laod', found date, load, price; did you mean 'load'"):
        read_table(path, target=["laod"])
    with pytest.raises(DataError, match="a column 'dat', found .*; did you mean 'date'"):
        read_table(path, time="dat")
    with pytest.raises(DataError, match="each --target once, found 'load' twice"):
        read_table(path, target=["load", "price", "load"])
    with pytest.raises(DataError, match="other columns than the time column"):
        read_table(path, target=["date"])


def test_what_is_no_text_is_refused_with_its_place(tmp_path):
    (tmp_path / "table.csv").write_bytes(b"a,b\n1,\xff\n")
    with pytest.raises(DataError, match="expected UTF-8"):
        read_table(tmp_path / "table.csv")
    with pytest.raises(DataError, match="expected a CSV file or one of sine, .* did you mean etth1"):
        data.load("eth1")


# ------------------------------------------------------------------------------------------------ cleaning


def test_missing_values_at_the_ends_are_left_out_with_a_note(tmp_path):
    path = write(tmp_path, "a,b\n,1\n2,2\n3,3\n4,4\n5,?\n6,\n")
    found, notes = trim(read_table(path))
    assert found.values.tolist() == [[2, 2], [3, 3], [4, 4]]
    assert found.times.after(1) == ["4"]
    assert "1 rows at the begin" in notes[0]
    assert "begins at row 3" in notes[0]
    assert "2 rows at the end" in notes[1]
    assert "ends with row 5" in notes[1]


def test_gaps_inside_are_closed_by_lines_or_held_and_counted(tmp_path):
    path = write(tmp_path, "a,b\n0,1\n,2\n,\n6,8\n")
    table, _ = trim(read_table(path))
    values, notes = close_gaps(table, "linear")
    assert values.tolist() == [[0, 1], [2, 2], [4, 5], [6, 8]]
    assert "3 of 8 values are missing" in notes[0]
    held, _ = close_gaps(table, "mask")
    assert held.tolist() == [[0, 1], [0, 2], [0, 2], [6, 8]]
    with pytest.raises(DataError, match="row 3, column 'a': expected a number, found a missing one"):
        close_gaps(table, "refuse")


def test_columns_that_are_empty_or_never_meet_are_refused(tmp_path):
    with pytest.raises(DataError, match="numbers in column 'b', found none"):
        trim(read_table(write(tmp_path, "a,b\n1,\n2,\n")))
    with pytest.raises(DataError, match="overlap in time"):
        trim(read_table(write(tmp_path, "a,b\n1,\n2,\n,3\n,4\n")))


def test_uneven_steps_are_noted_or_refused(tmp_path):
    text = "time,x\n" + "".join(f"{t},{t}\n" for t in (1, 2, 3, 5, 6, 7, 8, 9, 10, 12))
    path = write(tmp_path, text)
    found = data.load(path)
    assert any("2 steps of another length than 1, the first before row 5" in note for note in found.notes)
    assert found.times.after(2) == ["13", "14"]
    with pytest.raises(DataError, match="expected even time steps, found 2 steps"):
        data.load(path, even=True)


def test_what_is_masked_does_not_count_in_the_scale(tmp_path):
    """b climbs by 1 with each row, where it was measured."""
    rows = [f"{t % 5},{'' if 10 <= t < 20 else t}\n" for t in range(40)]
    found = data.load(write(tmp_path, "a,b\n" + "".join(rows)), fill="mask", period=1).scaler
    measured = np.array([*range(10), *range(20, 28)])
    assert found.mean[1] == pytest.approx(measured.mean())
    assert found.deviation[1] == pytest.approx(measured.std())
    assert found.naive[1] * found.deviation[1] == pytest.approx(1)
    late = "a,b\n" + "".join(f"{t},{'' if 0 < t < 35 else t}\n" for t in range(40))
    assert data.load(write(tmp_path, late), fill="mask").scaler.mean[1] == 0


def test_a_constant_column_keeps_its_scale_with_a_note(tmp_path):
    path = write(tmp_path, "a,b\n" + "".join(f"{t % 3},0.1\n" for t in range(40)))
    found = data.load(path)
    assert found.scaler.deviation[1] == 1
    assert found.scaler.mean[1] == pytest.approx(0.1)
    assert any("constant in the training part, so left unscaled: 'b'" in note for note in found.notes)
    figures = SeriesTask(Config(lookback=3, horizon=1), found).rivals("test")
    assert all(math.isfinite(figures[name]["mase"]) for name in figures)


def test_a_series_that_never_changes_is_forecast_all_the_same(tmp_path):
    path = write(tmp_path, "a\n" + "7\n" * 60)
    found = runs.train(SeriesTask, configure(path, "ar"), str(tmp_path / "run"))
    assert found["mse"] == pytest.approx(0, abs=1e-9)
    assert found["mase"] is None
    assert "mase –" in SeriesTask.headline(found)
    SeriesTask.table(runs.evaluate(str(tmp_path / "run"), split="test"))
    assert [row.mean for row in forecast(runs.load(tmp_path / "run"), path)] == pytest.approx([7.0] * 4)


def test_numbers_too_large_to_square_are_refused(tmp_path):
    with pytest.raises(DataError, match="of a size that can be squared, found larger ones in 'a'"):
        data.load(write(tmp_path, "a\n" + "1e300\n-1e300\n" * 10))


# ------------------------------------------------------------------------------------------------ scale and parts


def test_the_scale_is_that_of_the_training_part_alone(tmp_path):
    values = np.concatenate([np.random.default_rng(0).normal(5, 2, 70), np.full(30, 1e6)])
    found = data.load(write(tmp_path, "x\n" + "".join(f"{v!r}\n" for v in values.tolist())))
    assert found.splits == {"train": (0, 70), "valid": (70, 80), "test": (80, 100)}
    assert found.scaler.mean[0] == pytest.approx(values[:70].mean())
    assert found.scaler.deviation[0] == pytest.approx(values[:70].std())
    assert np.allclose(found.scaler.stretch(found.scaler.shrink(found.values)), found.values)


@pytest.mark.parametrize("period", [2, 7, 24])
def test_a_season_is_found_in_noise_with_a_trend(period):
    t = np.arange(max(200, period * 20))
    wave = np.random.default_rng(0).normal(size=period)
    wave = ((wave - wave.mean()) / wave.std())[t % period]
    noise = np.random.default_rng(1).normal(0, 0.3, size=len(t))
    assert season((wave + noise + 0.01 * t)[:, None]) == period


def test_where_there_is_no_season_none_is_found():
    assert season(np.random.default_rng(0).normal(size=(500, 1))) == 1
    assert season(np.zeros((100, 1))) == 1
    assert season(np.arange(5.0)[:, None]) == 1
    assert data.load("sine").scaler.period == 1


def test_the_yearly_sunspot_numbers_have_the_published_mean_and_deviation():
    """309 years of the international (Zürich) number, before its revision of 2015."""
    found = data.load("sunspots")
    assert (found.times.texts[0], found.times.texts[-1], len(found.values)) == ("1700", "2008", 309)
    assert found.values.mean() == pytest.approx(49.752104, abs=1e-6)
    assert found.values.std(ddof=1) == pytest.approx(40.452595, abs=1e-6)
    assert found.values.max() == found.values[1957 - 1700, 0] == 190.2
    assert found.scaler.period == 11


def test_the_noisy_sine_is_drawn_anew_with_each_draw():
    first, second = noisy_sine(draw=0), noisy_sine(draw=1)
    clean = np.sin(0.01 * np.arange(1, 1001))
    assert (first - clean).std() == pytest.approx(0.2, abs=0.01)
    assert not np.allclose(first, second)
    assert np.array_equal(first, noisy_sine(draw=0))
    changed = noisy_sine(draw=0, change=500)
    assert np.array_equal(changed[:500], first[:500])
    assert np.abs(changed[500:] - first[500:]).max() > 1


def test_a_scaler_is_kept_and_read_strictly(tmp_path):
    found = data.load("sine").scaler
    path = tmp_path / "scaler.json"
    found.save(path)
    assert Scaler.load(path) == found
    good = json.loads(path.read_text())
    for change, message in [
        ({"mean": [1.0, 2.0]}, "one entry for each column"),
        ({"mean": [float("nan")]}, "finite numbers"),
        ({"mean": ["1"]}, "finite numbers"),
        ({"deviation": [0.0]}, "deviations above 0"),
        ({"columns": [3]}, "names of columns"),
        ({"period": 0}, "a period of at least 1"),
        ({"period": True}, "a period of at least 1"),
        ({"more": 1}, "found other keys"),
        ({"columns": [], "mean": [], "deviation": [], "naive": []}, "one entry for each column"),
    ]:
        path.write_text(json.dumps(good | change))
        with pytest.raises(DataError, match=message) as caught:
            Scaler.load(path)
        assert "\n" not in str(caught.value)
    path.write_text("{")
    with pytest.raises(DataError, match="expected a scaler in JSON"):
        Scaler.load(path)


@pytest.mark.skipif("RECOLLECT_DATA" not in os.environ, reason="needs the known sets (RECOLLECT_DATA)")
@pytest.mark.parametrize(
    ("name", "rows", "parts"),
    [("etth1", 17_420, (8_640, 2_880, 2_880)), ("exchange", 7_588, (5_311, 760, 1_517))],
)
def test_the_known_sets_are_cut_as_the_papers_cut_them(name, rows, parts):
    found = data.load(name)
    assert len(found.values) == rows
    assert tuple(stop - start for start, stop in found.splits.values()) == parts
    assert found.notes == []
    task = SeriesTask(Config(lookback=336, horizon=96), found)
    assert len(task.origins("test")) == parts[2] - 96 + 1


# ------------------------------------------------------------------------------------------------ the task


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


class Says:
    """A forecaster that says the last value plus something."""

    class config:  # noqa: N801
        level = 0.8

    def __init__(self, plus=0.0, half=1.0):
        self.plus, self.half = plus, half

    def forecast(self, past, horizon=None):
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


# ------------------------------------------------------------------------------------------------ runs


SMALL = {
    "steps": 8,
    "lookback": 12,
    "horizon": 4,
    "batch": 8,
    "width": 8,
    "warmup": 2,
    "save_every": 3,
    "eval_every": 4,
}


def configure(path, model="gru", **settings):
    heads = {"heads": "2"} if model in tiny.HEADED else {}
    texts = heads | {name: str(value) for name, value in (SMALL | settings).items()}
    return runs.configure(SeriesTask, texts, model=model, data=(str(path),))


@pytest.fixture
def table(tmp_path):
    return write(tmp_path, hourly())


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("gru", {"segment": 4, "head_dropout": 0.3}),
        ("lstm", {"ahead": "recursive", "intervals": "gaussian"}),
        ("transformer", {"segment": 4, "stride": 2, "attention": "full", "dropout": 0.2, "normalise": "window"}),
        ("mlp", {"intervals": "quantile"}),
        ("ar", {"fit": "steps"}),
    ],
)
def test_a_resumed_run_equals_the_uninterrupted_one(table, tmp_path, monkeypatch, model, settings):
    run = configure(table, model, **settings)
    runs.train(SeriesTask, run, str(tmp_path / "whole"))
    tiny.train_until(SeriesTask, run, tmp_path / "resumed", 3, monkeypatch)
    runs.resume(str(tmp_path / "resumed"))
    assert tiny.outcome(RunFolder(tmp_path / "resumed")) == tiny.outcome(RunFolder(tmp_path / "whole"))


@pytest.mark.parametrize("model", SeriesTask.models)
def test_every_model_becomes_a_run_that_can_be_measured_verified_and_asked(table, tmp_path, model):
    out = str(tmp_path / "run")
    found = runs.train(SeriesTask, configure(table, model, steps=2), out)
    assert math.isfinite(found["mse"])
    assert "coverage" in found
    assert max(runs.verify(out).values()) < 1e-10
    rows = list(forecast(runs.load(out), table))
    assert [row.series for row in rows] == ["a"] * 4 + ["b"] * 4
    assert all(row.lower < row.mean < row.upper for row in rows)
    assert rows[0].time == "2024-01-13 12:00:00"


def test_a_run_folder_and_its_row_say_everything(table, tmp_path):
    out = str(tmp_path / "run")
    runs.train(SeriesTask, configure(table), out)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.json", "model.safetensors", "scaler.json", "metrics.jsonl", "checkpoints", "manifest.json",
    }  # fmt: skip
    row = runs.result(out, split="test", device="cpu")
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
    found = runs.evaluate(out, split="test")
    assert "seasonal naive" in found["better"]
    assert any(line.startswith("better than this model: ") for line in SeriesTask.table(found)[2])


def test_a_solved_run_is_a_run_like_any_other(table, tmp_path):
    out = str(tmp_path / "run")
    found = runs.train(SeriesTask, configure(table, "ar"), out)
    assert found["mse"] < 0.05
    assert [row["step"] for row in RunFolder(out).metrics()] == [1]
    assert runs.evaluate(out, split="valid")["metric"]["value"] == pytest.approx(found["mse"])
    assert found["coverage"] == pytest.approx(0.8, abs=0.08)  # of 27 windows, in whole ones


def test_all_of_another_file_is_measured_on_the_scale_of_the_run(table, tmp_path):
    out = str(tmp_path / "run")
    runs.train(SeriesTask, configure(table, "ar"), out)
    other = write(tmp_path, hourly(rows=50), "other.csv")
    found = runs.evaluate(out, split="test", data=[other])
    assert found["figures"]["windows"] == 50 - 12 - 4 + 1
    swapped = write(tmp_path, hourly(rows=50, columns=("b", "c")), "swapped.csv")
    with pytest.raises(DataError, match="expected a column 'a', found date, b, c"):
        runs.evaluate(out, split="test", data=[swapped])


def test_a_run_does_not_go_on_with_other_data(table, tmp_path):
    out = str(tmp_path / "run")
    runs.train(SeriesTask, configure(table), out)
    Path(table).write_text(hourly(rows=310))
    with pytest.raises(RunError, match="found other data"):
        runs.resume(out, longer=20)


def test_a_run_whose_scaler_fits_another_model_is_refused(table, tmp_path):
    out = tmp_path / "run"
    runs.train(SeriesTask, configure(table), str(out))
    data.load("sine").scaler.save(out / "scaler.json")
    with pytest.raises(ContractError, match="expected 1 series as the scaler has, found 2"):
        runs.load(out)
    (out / "scaler.json").unlink()
    with pytest.raises(RunError, match="expected this file in the run folder"):
        runs.load(out)


def test_full_attention_is_bound_by_no_law_of_steps(table, tmp_path):
    out = str(tmp_path / "run")
    runs.train(SeriesTask, configure(table, "transformer", attention="full", steps=1), out)
    with pytest.raises(RunError, match="the laws bind attention=causal"):
        runs.verify(out)


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


def test_data_that_cannot_be_is_refused():
    with pytest.raises(ContractError, match="one file or known set, found 2"):
        DataConfig(data=("a.csv", "b.csv"))
    with pytest.raises(ContractError, match="target to be names"):
        DataConfig(target=(1,))  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="as many as its look-back"):
        runs.train(SeriesTask, configure("sine", "ar"), "nowhere", params=1000)


def test_a_run_goes_on_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, hourly())
    runs.train(SeriesTask, configure("table.csv", "ar"), str(tmp_path / "run"))
    monkeypatch.chdir("/")
    runs.evaluate(str(tmp_path / "run"), split="test")


# ------------------------------------------------------------------------------------------------ forecasts and gaps


@pytest.fixture
def solved(table, tmp_path):
    """A linear run, which knows the waves of `hourly` well."""
    runs.train(SeriesTask, configure(table, "ar", lookback=24), str(tmp_path / "solved"))
    return runs.load(tmp_path / "solved")


def test_a_forecast_goes_on_where_the_file_ends(solved, tmp_path):
    longer = read_table(write(tmp_path, hourly(rows=310), "longer.csv"))
    rows = list(forecast(solved, write(tmp_path, hourly(rows=300)), 10))
    assert [row.time for row in rows[:10]] == longer.times.texts[300:310]
    for c, name in enumerate("ab"):
        means = [row.mean for row in rows if row.series == name]
        assert np.allclose(means, longer.values[300:310, c], atol=0.3)
    assert {row.how for row in rows} == {"extrapolated"}
    known = [row for row in rows if row.lower is not None]
    assert len(known) == 2 * 4  # errors were measured up to the horizon of the run
    assert all(row.lower < row.mean < row.upper for row in known)


def test_a_file_shorter_than_the_look_back_is_refused(solved, tmp_path):
    with pytest.raises(DataError, match="at least 24 rows, the look-back of the run, found 20"):
        list(forecast(solved, write(tmp_path, hourly(rows=20))))
    with pytest.raises(DataError, match="horizon of at least 1"):
        list(forecast(solved, write(tmp_path, hourly()), -1))


def test_gaps_are_filled_and_told_apart_from_what_lies_ahead(solved, tmp_path):
    whole = read_table(write(tmp_path, hourly()))
    missing = {(100, 0), (101, 0), (102, 0), (200, 1), (5, 0), (298, 1), (299, 1)}
    rows = list(fill(solved, write(tmp_path, hourly(missing=missing), "gaps.csv")))
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


def test_what_a_bridge_ends_at_is_what_was_measured(solved, tmp_path):
    """Were the value after the gap another one, so would be what is filled in, and most at its end."""
    text = hourly(missing={(100, 0), (101, 0)})
    lines = text.split("\n")
    cells = lines[103].split(",")
    raised = "\n".join([*lines[:103], ",".join([cells[0], str(float(cells[1]) + 3), cells[2]]), *lines[104:]])
    before, after = (list(fill(solved, write(tmp_path, t, "gap.csv"))) for t in (text, raised))
    assert [b.mean - a.mean for a, b in zip(before, after, strict=True)] == pytest.approx([1, 2], abs=1e-5)


def test_before_its_first_value_nothing_is_said_of_a_column(solved, tmp_path):
    assert list(fill(solved, write(tmp_path, hourly(missing={(0, 0), (1, 0)}), "late.csv"))) == []
    with pytest.raises(DataError, match="before row 22, found 20"):
        list(fill(solved, write(tmp_path, hourly(rows=21, missing={(20, 0)}), "short.csv")))


def test_the_curve_of_a_run_has_every_power_of_four(solved):
    found = measure_ahead(solved.model, solved.task, "test")
    assert list(found["k_step"]) == [1, 4, 16]
    assert found["free_run"]["points"] == 60


# ------------------------------------------------------------------------------------------------ figures and recipes


def test_gaps_are_drawn_from_what_was_measured_before_to_what_was_after_and_apart(tmp_path):
    text = "t,x\n" + "".join(f"{t},{'' if t in (2, 3, 6, 9) else t}\n" for t in range(10))
    table = read_table(write(tmp_path, text), time="t")
    filled = [(str(t), "x", t + 0.5, t - 1.0, t + 2.0, "interpolated") for t in (2, 3, 6, 9)]
    rows = list(bridged(table, filled))
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "4", "5", "6", "7", "7", "8", "9"]
    assert rows[0] == ("1", "x", 1.0, 1.0, 1.0)
    assert rows[1] == ("2", "x", 2.5, 1.0, 4.0)
    assert [math.isnan(row[2]) for row in rows].count(True) == 2
    assert math.isnan(rows[4][2])
    assert math.isnan(rows[8][3])
    path = tmp_path / "gaps.svg"
    assert plot(history(table), rows, path, "number") == []


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_forecast_is_drawn(solved, table, tmp_path, suffix):
    path = tmp_path / f"figure.{suffix}"
    found = open_file(solved, table)
    assert plot(history(found, 48), forecast(solved, found), path) == []
    assert path.stat().st_size > 1000
    if suffix == "svg":
        assert "measured" in path.read_text()


def test_a_figure_shows_times_of_every_kind_and_any_name(tmp_path):
    for times in (["1", "2", "3"], ["2024-01-01", "2024-01-02", "2024-01-03"], ["01.02.2024", "x", "y"]):
        past = [(times[0], "cost $ of $x", 1.0), (times[1], "cost $ of $x", 2.0)]
        ahead = [(times[2], "cost $ of $x", 3.0, None, None)]
        assert plot(past, ahead, tmp_path / "figure.png") == []
    notes = plot([], [("1", "𓀀", 1.0, 0.0, 2.0)], tmp_path / "figure.png")
    assert not notes or "install" in notes[0]
    many = [("1", f"s{i}", 1.0, 0.0, 2.0) for i in range(20)]
    assert plot([], many, tmp_path / "figure.png") == ["the figure shows 12 of 20 series"]


def test_a_figure_of_no_kind_or_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected a figure's name to end in .png, .svg, .pdf, found '.gif'"):
        plot([], [("1", "x", 1.0, 0.0, 2.0)], tmp_path / "figure.gif")
    with pytest.raises(ValueError, match="expected a forecast to draw"):
        plot([], [], tmp_path / "figure.png")


def test_figures_need_no_torch():
    code = "import sys, recollect.report.series; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("series/*.json"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_a_run_that_can_be_built(path):

    found = read_recipe(str(path))
    run = runs.configure(SeriesTask, found.settings, model=found.model, data=found.data)
    scaler = Scaler(tuple("abcdefg"), (0.0,) * 7, (1.0,) * 7, (1.0,) * 7, 24)
    settings = run.model | {"series": 7, "lookback": run.task.lookback, "horizon": run.task.horizon}
    with torch.device("meta"):
        assert SeriesTask.build_model(settings, scaler, runs.load).config.steps > 1


def test_there_are_recipes():
    assert len(RECIPES) >= 8


@pytest.mark.parametrize(
    ("texts", "style", "expected"),
    [
        (["1.5", "2"], "iso", [1.5, 2.0]),
        (["2020-01-31", "2020-02-01 06:00"], "iso", [datetime(2020, 1, 31), datetime(2020, 2, 1, 6)]),
        (["31/01/2020", "01/02/2020"], "%d/%m/%Y", [datetime(2020, 1, 31), datetime(2020, 2, 1)]),
        (["31.01.2020", " 01.02.2020"], "%d.%m.%Y", [datetime(2020, 1, 31), datetime(2020, 2, 1)]),
        (["first", "second"], "iso", [0, 1]),
    ],
)
def test_times_stand_on_the_axis_as_they_are_written(texts, style, expected):
    assert series_figure._places(texts, style) == expected


def test_errors_of_any_size_can_be_told_apart_in_the_table(tmp_path):
    """In the units of the data they may be tiny or huge."""
    for size, name in ((1e-9, "tiny"), (1e9, "huge")):
        rows = "".join(f"{size * (math.sin(t) + t % 3)!r}\n" for t in range(200))
        runs.train(SeriesTask, configure(write(tmp_path, "a\n" + rows, f"{name}.csv"), "ar"), str(tmp_path / name))
        found = runs.evaluate(str(tmp_path / name), split="test")
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


def test_the_interval_of_one_point_ahead_is_seen(tmp_path, monkeypatch):
    """A band over one point has no width."""
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure.axes[0]))
    past = [(str(t), "x", float(t)) for t in range(5)]
    plot(past, [("5", "x", 5.0, 4.0, 7.0)], tmp_path / "figure.png")
    plot(past, [("5", "x", 5.0, 4.0, 7.0), ("6", "x", 6.0, 4.0, 8.0)], tmp_path / "figure.png")
    plot(past, [("5", "x", 5.0, None, None)], tmp_path / "figure.png")
    lines = [{line.get_label(): line.get_xydata().tolist() for line in panel.lines} for panel in drawn]
    assert lines[0]["interval"] == [[5, 4], [5, 7]]
    assert lines[0]["forecast"] == [[5, 5]]
    assert [len(panel.collections) for panel in drawn] == [0, 1, 0]
    assert "interval" not in lines[1]
    assert "interval" not in lines[2]
