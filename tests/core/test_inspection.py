"""Probes and readings."""

import math

import pytest
import torch

from measure.probes import build, subject
from recollect.core.chart import Chart, Line
from recollect.core.inspection import Reading, slope


def test_a_reading_is_json_without_numbers_that_json_lacks():
    line = Line(name="a", x=[1, 2], y=[math.inf, 1.0])
    found = Reading(
        summary=["said"], figures={"a": (math.nan, 2)}, charts=[Chart(title="t", x="x", y="y", lines=[line])]
    ).to_json()
    assert found["a"] == [None, 2]
    assert found["charts"][0]["lines"][0]["y"] == [None, 1.0]


def test_a_slope_is_that_of_least_squares():
    assert slope([0, 1, 2], [1, 3, 5]) == pytest.approx(2)
    assert math.isnan(slope([1], [1]))


def test_a_subject_in_float64_leaves_the_model_as_it_was():
    model = build("gru").float()
    exact = subject(model).double()
    assert exact.model is exact.stepper is not model
    assert next(exact.model.parameters()).dtype == torch.float64
    assert next(model.parameters()).dtype == torch.float32
