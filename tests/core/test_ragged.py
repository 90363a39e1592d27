"""Lengths, inputs and states that ragged runs refuse."""

from typing import Any

import pytest
import torch

from oracles import refused
from recollect.core import ragged
from recollect.layers import ENCODERS, build

WRONG_LENGTHS = [
    pytest.param([6, 2], "to 5 (the steps of x)", "found 6 in row 0", id="longer than x"),
    pytest.param([2, -1], "to 5 (the steps of x)", "found -1 in row 1", id="negative"),
    pytest.param([1, 2, 3], "expected 2 whole numbers, one a row", "(3,)", id="too many"),
    pytest.param([[1, 2]], "expected 2 whole numbers, one a row", "(1, 2)", id="of another rank"),
    pytest.param(torch.tensor([1.0, 2.0]), "expected 2 whole numbers, one a row", "torch.float32", id="not whole"),
]


@pytest.mark.parametrize(("lengths", "expected", "found"), WRONG_LENGTHS)
@pytest.mark.parametrize("name", ["lstm", "attention", "conv", "ttt-linear"])
def test_wrong_lengths_are_refused_by_ragged_runs(name: str, lengths: Any, expected: str, found: str) -> None:
    with refused("lengths: expected", expected, found):
        ragged.run(build(name, dim=4), torch.randn(2, 5, 4), lengths)


@pytest.mark.parametrize(("lengths", "expected", "found"), WRONG_LENGTHS)
@pytest.mark.parametrize("name", ENCODERS)
def test_wrong_lengths_are_refused_by_encoders(name: str, lengths: Any, expected: str, found: str) -> None:
    config = ENCODERS[name].variants()[0]
    with refused("lengths: expected", expected, found):
        config.build()(torch.randn(2, 5, config.dim), lengths)


@pytest.mark.parametrize(
    ("shape", "dtype", "expected", "found"),
    [
        pytest.param((2, 5, 3), torch.float32, "expected x of shape (batch, steps, 4)", "(2, 5, 3)", id="width"),
        pytest.param((2, 4), torch.float32, "expected x of shape (batch, steps, 4)", "(2, 4)", id="rank"),
        pytest.param((2, 0, 4), torch.float32, "expected at least one step", "(2, 0, 4)", id="no steps"),
        pytest.param((2, 5, 4), torch.int64, "expected floating-point x", "torch.int64", id="whole numbers"),
    ],
)
@pytest.mark.parametrize("name", ["lstm", "attention", "linear-attention", "conv"])
def test_wrong_x_is_refused_by_ragged_runs(name: str, shape: Any, dtype: Any, expected: str, found: str) -> None:
    with refused(expected, found):
        ragged.run(build(name, dim=4), torch.ones(shape, dtype=dtype), [min(2, shape[1])] * 2)


@pytest.mark.parametrize("name", ["lstm", "attention", "linear-attention", "conv"])
def test_a_wrong_state_is_refused_by_ragged_runs(name: str) -> None:
    layer, stranger = build(name, dim=4), build("rnn", dim=4)
    with refused("expected a state of 2 rows", "found 3 rows"):
        ragged.run(layer, torch.randn(2, 5, 4), [5, 2], layer.initial_state(3))
    with refused("expected a state of type", "found recollect.layers.rnn.State"):
        ragged.run(layer, torch.randn(2, 5, 4), [5, 2], stranger.initial_state(2))
