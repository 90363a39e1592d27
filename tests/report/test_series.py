"""Figures of forecasts."""

import subprocess
import sys
from datetime import datetime

import pytest

from recollect.report import series as series_figure
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
    with pytest.raises(ValueError, match="expected a figure's name to end in .png, .svg, .pdf, found '.gif'"):
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
