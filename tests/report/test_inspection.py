"""The figure of an inspection: one panel with all its parts, and several runs side by side."""

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from recollect.report import gaze, inspection
from recollect.report.drawing import chart as drawing
from recollect.report.drawing import heatmap
from recollect.report.drawing.looks import MODELS
from recollect.report.inspection import Inspected


def curve(*values, title="size", names=("one",), **more):
    lines = [{"name": name, "x": [1, 2, 3], "y": list(values)} for name in names]
    return {"title": title, "x": "step", "y": "norm", "lines": lines, **more}


def grid(*rows, title="state", **more):
    return {"title": title, "x": "step", "y": "unit", "values": [list(row) for row in rows], "unit": "value", **more}


RNN = Inspected("a", "rnn", [grid((0.5, -0.25), group="state"), curve(1, 2, 3)], ("x", "y"))
LSTM = Inspected("b", "lstm", [grid((2.0, 0.0), title="cell", group="state"), curve(2, 3, 4)], ("x", "y"))
GAZE = gaze.chart(np.zeros((8, 8, 3)), ["dog"], np.full((1, 2, 2), 0.25), "gaze")
ATTENTION = Inspected("c", "transformer", [grid((0.1, 0.9), title="attention"), curve(1, 1, 1)], ("x", "y"))


def texts(drawn):
    return [one.text for one in ElementTree.fromstring(drawn).iter("text")]


def test_one_panel_holds_every_chart_of_a_run_with_its_scale():
    drawn = inspection.draw("state", [Inspected("a", "rnn", [*RNN.charts, GAZE])])
    assert {"State: rnn (a)", "State", "Size", "Gaze", "dog"} <= set(texts(drawn))
    assert drawn.count('class="frame scale"') == 2


def test_runs_stand_side_by_side_on_one_scale_and_their_curves_in_one_chart():
    state, sizes = inspection.merge([RNN, LSTM])
    assert [heatmap.limits(chart) for chart in state] == [(-2, 2), (-2, 2)]
    assert [line["model"] for line in sizes["lines"]] == ["rnn", "lstm"]
    drawn = inspection.draw("state", [RNN, LSTM, ATTENTION])
    said = texts(drawn)
    assert "State: rnn, lstm, transformer" in said
    assert "The same input for all: x y" in said
    assert said.count("this memory has nothing of the kind") == 3, "attention has no such state, the others no weights"
    for run in (RNN, LSTM, ATTENTION):
        assert f"s{MODELS[run.model].colour}" in re.findall(r"line (s\d)", drawn)


def test_different_inputs_are_said_to_differ():
    other = Inspected("b", "lstm", LSTM.charts, ("z",))
    assert "The inputs differ" in inspection.draw("state", [RNN, other])


def test_runs_that_were_given_the_same_and_went_on_otherwise_are_not_told_to_be_given_the_same():
    other = Inspected("b", "lstm", LSTM.charts, ("x", "z"))
    drawn = inspection.draw("state", [RNN, other], given=True)
    assert "All were given the same" in drawn
    assert "--text" not in drawn


def test_of_several_maps_of_one_kind_each_stands_beside_its_like():
    """An alignment before training and after it: the second must not give way to the first."""
    runs = [
        Inspected(name, name, [grid((0.5, 0.5), title=title, group="map") for title in ("before", "trained")])
        for name in ("attend", "transformer")
    ]
    titles = [[chart["title"] for chart in row] for row in inspection.merge(runs)]
    assert titles == [["attend: before", "transformer: before"], ["attend: trained", "transformer: trained"]]


def test_a_title_in_bold_fits_its_column():
    """60 letters of DejaVu Sans Bold at 14 pixels are 480 wide; columns of two runs are 477."""
    title = "onegate: gradient of the last output by distance of the input"
    runs = [
        Inspected(name, name, [curve(1, 2, 3, title=title.partition(": ")[2], names=("h", "c"))])
        for name in ("gru", "onegate")
    ]
    said = texts(inspection.draw("gradients", runs))
    assert title not in said
    assert any(title.startswith(text) for text in said if text and text.startswith("onegate: gradient"))


def test_two_runs_of_one_model_have_the_names_of_the_runs():
    again = Inspected("b", "rnn", RNN.charts, ("x", "y"))
    (_, sizes) = inspection.merge([RNN, again])
    assert [line["name"] for line in sizes["lines"]] == ["rnn (a)", "rnn (b)"]


def test_charts_of_several_curves_share_the_extent_of_their_axes():
    few, many = (curve(1, 2, top, names=("h", "c"), log_y=top > 9) for top in (3, 100))
    (row,) = inspection.merge([Inspected("a", "rnn", [few]), Inspected("b", "lstm", [many])])
    assert [chart["range"] for chart in row] == [(1, 100)] * 2
    assert all(chart["log_y"] for chart in row)


def boxes(drawn):
    """Where each text that is not turned lies on the whole drawing: left, top, right, bottom."""
    found = []

    def walk(parent, x, y):
        for one in parent:
            name = one.tag.split("}")[-1]
            if name in ("svg", "g"):
                walk(one, x + float(one.get("x", 0)), y + float(one.get("y", 0)))
            elif name == "text" and one.text and not one.get("transform"):
                size = float(one.get("font-size", drawing.svg.SIZE))
                wide = drawing.svg.width(one.text, size)
                left = x + float(one.get("x")) - {"end": wide, "middle": wide / 2}.get(one.get("text-anchor"), 0.0)
                top = y + float(one.get("y"))
                found.append((one.text, left, top - 0.7 * size, left + wide, top))

    walk(ElementTree.fromstring(drawn), 0.0, 0.0)
    return found


def overlapping(drawn):
    found = boxes(drawn)
    return [
        (a[0], b[0])
        for i, a in enumerate(found)
        for b in found[i + 1 :]
        if a[1] < b[3] - 0.5 and b[1] < a[3] - 0.5 and a[2] < b[4] - 0.5 and b[2] < a[4] - 0.5
    ]


@pytest.mark.parametrize("count", [3, 12, 48, 200])
@pytest.mark.parametrize("word", ["a", "word", "quatre-vingt-dix"])
def test_no_label_of_a_map_lies_on_another(count, word):
    """Turned ones stand a line apart along the top."""
    names = [word] * count
    square = grid(*([0.5] * count for _ in range(min(count, 40))), columns=names, rows=names[:40])
    drawn = drawing.compose([[square]], 860, "A map")
    assert len(boxes(drawn)) > 3
    assert overlapping(drawn) == []
    turned = [float(x) for x in re.findall(r'transform="rotate\(-55 ([\d.]+)', drawn)]
    assert all(b - a >= 15 for a, b in itertools.pairwise(turned))


def test_no_label_of_a_panel_lies_on_another():
    names = [f"layer {i}, hidden state h" for i in range(7)]
    charts = [
        curve(i, i + 1, 1000 * i + 9, names=names, title=f"a rather long title of chart {i} " * 3) for i in range(4)
    ]
    assert overlapping(inspection.draw("state", [Inspected("a", "rnn", charts)])) == []
    assert overlapping(inspection.draw("state", [RNN, LSTM, ATTENTION])) == []


def test_an_overlap_would_be_found():
    assert overlapping(drawing.svg.picture(drawing.svg.words(0, 10, "one"), drawing.svg.words(5, 12, "two"),
                                           width=90, height=20, title="", description=""))  # fmt: skip
