"""Figures of forecasts."""

import math
import subprocess
import sys
from datetime import datetime
from xml.etree import ElementTree

import pytest

from recollect.report import series as series_figure
from recollect.report.drawing.times import date_ticks, seconds
from recollect.report.series import plot


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
    with pytest.raises(ValueError, match="expected a figure that ends in .png, .svg, .pdf, found another ending"):
        plot([], [("1", "x", 1.0, 0.0, 2.0)], tmp_path / "figure.gif")
    with pytest.raises(ValueError, match="expected a forecast to draw"):
        plot([], [], tmp_path / "figure.png")


def test_figures_need_no_torch():
    code = "import sys, recollect.report.series; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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


def drawn(tmp_path, past, ahead, **more):
    plot(past, ahead, tmp_path / "figure.svg", **more)
    return ElementTree.parse(tmp_path / "figure.svg").getroot()


def classed(tree, *names):
    return [one for one in tree.iter() if set(names) <= set((one.get("class") or "").split())]


PAST = [(str(t), "x", float(t)) for t in range(5)]


def test_the_interval_of_one_point_ahead_is_seen(tmp_path):
    """A band over one point has no width."""
    one = drawn(tmp_path, PAST, [("5", "x", 5.0, 4.0, 7.0)])
    assert (len(classed(one, "reach")), len(classed(one, "band"))) == (1, 0)
    two = drawn(tmp_path, PAST, [("5", "x", 5.0, 4.0, 7.0), ("6", "x", 6.0, 4.0, 8.0)])
    assert (len(classed(two, "reach")), len(classed(two, "band"))) == (0, 1)
    none = drawn(tmp_path, PAST, [("5", "x", 5.0, None, None)])
    assert (len(classed(none, "reach")), len(classed(none, "band"))) == (0, 0)


def test_an_interval_that_ends_before_the_forecast_is_a_band_as_far_as_it_goes(tmp_path):
    ahead = [(str(5 + h), "x", 5.0, *((4.0, 7.0) if h < 3 else (None, None))) for h in range(6)]
    (band,) = classed(drawn(tmp_path, PAST, ahead), "band")
    assert len(band.get("points").split()) == 6


def test_plain_rules_stand_beside_the_forecast_and_a_unit_beside_its_axis(tmp_path):
    past = [(f"2024-01-{t + 1:02}", "load [MW]", float(t % 3)) for t in range(9)]
    ahead = [(f"2024-01-{t + 10}", "load [MW]", 1.0, 0.0, 2.0) for t in range(4)]
    chart = series_figure.describe("load [MW]", past, ahead, "iso", 3)
    ys = {line["name"]: line["y"] for line in chart["lines"]}
    assert ys["last value"] == [2.0] * 4
    assert ys["one season before"] == [0.0, 1.0, 2.0, 0.0]
    said = [one.text for one in drawn(tmp_path, past, ahead, period=3).iter()]
    assert {"load, MW", "last value", "one season before", "2024-01-04"} <= set(said)
    assert "last value" not in [one.text for one in drawn(tmp_path, past, ahead, baselines=False).iter()]


@pytest.mark.parametrize("missing", ["empty", "absent"])
def test_a_gap_in_what_was_measured_is_seen(tmp_path, missing):
    past = [(str(t), "x", math.nan if t in (3, 4) else float(t)) for t in range(9)]
    if missing == "absent":
        past = [row for row in past if not math.isnan(row[2])]
    tree = drawn(tmp_path, past, [("9", "x", 9.0, None, None)])
    (gap,) = classed(tree, "lost")
    measured = [one.get("points").split() for one in classed(tree, "line", "plain")]
    assert [len(points) for points in measured] == [3, 4], "no line goes over it"
    left, right = float(measured[0][-1].split(",")[0]), float(measured[1][0].split(",")[0])
    assert float(gap.get("x")) == pytest.approx(left, abs=0.2)
    assert float(gap.get("x")) + float(gap.get("width")) == pytest.approx(right, abs=0.2)


@pytest.mark.parametrize(
    ("start", "end", "first"),
    [
        (datetime(2024, 1, 1, 0, 10), datetime(2024, 1, 1, 3), "00:30"),
        (datetime(2024, 1, 1), datetime(2024, 1, 6), "2024-01-01"),
        (datetime(2023, 12, 2), datetime(2024, 9, 6), "2024-01"),
        (datetime(1700, 1, 1), datetime(2024, 1, 1), "1700"),
    ],
)
def test_ticks_of_dates_are_few_and_round(start, end, first):
    found = date_ticks(seconds(start), seconds(end), 6)
    assert 3 <= len(found) <= 8
    assert found[0][1] == first
    assert all(seconds(start) <= place <= seconds(end) for place, _ in found)


def test_a_unit_is_what_stands_in_brackets():
    assert [series_figure.split_unit(name) for name in ("load [MW]", "t (°C)", "f(x) of y", "plain")] == [
        ("load", "MW"), ("t", "°C"), ("f(x) of y", ""), ("plain", ""),
    ]  # fmt: skip
