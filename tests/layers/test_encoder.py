"""Inputs that encoders refuse."""

import pytest
import torch

from oracles import refused
from recollect.core.contract import Encoder
from recollect.layers import (
    ENCODERS,
)


@pytest.mark.parametrize("name", ENCODERS)
def test_empty_rows_are_refused_by_encoders(name: str) -> None:
    config = ENCODERS[name].variants()[0]
    with refused("lengths: expected 1 to 5 (the steps of x)", "found 0 in row 1"):
        config.build()(torch.randn(2, 5, config.dim), [3, 0])


def encoder_of(name: str) -> tuple[Encoder, int]:
    config = ENCODERS[name].variants()[0]
    return config.build().double(), config.dim


@pytest.mark.parametrize("name", ENCODERS)
def test_wrong_shapes_are_refused_by_encoders(name: str) -> None:
    encoder, dim = encoder_of(name)
    for shape in ((2, 5, dim + 1), (5, dim), (2, 0, dim)):
        with refused(f"expected x of shape (batch, steps ≥ 1, {dim})", f"found {shape}"):
            encoder(torch.randn(shape).double())


@pytest.mark.parametrize("name", ENCODERS)
def test_whole_numbers_are_refused_by_encoders(name: str) -> None:
    encoder, dim = encoder_of(name)
    with refused("expected floating-point x", "found torch.int64"):
        encoder(torch.ones(2, 5, dim, dtype=torch.int64))


@pytest.mark.parametrize("name", ENCODERS)
def test_x_of_another_dtype_than_the_weights_is_refused_by_encoders(name: str) -> None:
    encoder, dim = encoder_of(name)
    with refused("expected x of torch.float64", "found torch.float32"):
        encoder(torch.randn(2, 5, dim))
