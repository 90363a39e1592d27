"""Inputs that encoders refuse."""

import pytest
import torch

from oracles import refused
from recollect.layers import ENCODERS


@pytest.mark.parametrize("name", ENCODERS)
def test_wrong_inputs_are_refused_by_encoders(name: str) -> None:
    config = ENCODERS[name].variants()[0]
    encoder, dim = config.build().double(), config.dim
    for shape in ((2, 5, dim + 1), (5, dim), (2, 0, dim)):
        with refused(f"expected x of shape (batch, steps ≥ 1, {dim})", f"found {shape}"):
            encoder(torch.randn(shape).double())
    with refused("expected floating-point x", "found torch.int64"):
        encoder(torch.ones(2, 5, dim, dtype=torch.int64))
    with refused("expected x of torch.float64", "found torch.float32"):
        encoder(torch.randn(2, 5, dim))
    with refused("lengths: expected 1 to 5 (the steps of x)", "found 0 in row 1"):
        encoder(torch.randn(2, 5, dim).double(), [3, 0])
