"""The models at the boundaries of mini-batches, whose backward pass is written by hand, against finite differences."""

import pytest
import torch
from torch.autograd import gradcheck

from recollect.kernels.ttt import boundaries


def draw(*shape, scale=1.0):
    return (scale * torch.randn(*shape, dtype=torch.float64)).requires_grad_()


def test_gradients_of_the_linear_model_are_those_of_finite_differences():
    torch.manual_seed(0)
    groups, count, size, d = 2, 3, 2, 3
    weight, first = draw(groups, d + 1, d), draw(groups, d + 1, d)
    k, moves = draw(count, groups, size, d + 1), draw(count, groups, size, d + 1, scale=0.3)
    target, scale = draw(count, groups, size, d), draw(groups, 1, d)

    def found(weight, first, k, moves, target, scale):
        steps = boundaries.Steps(k, moves, moves, target, scale)
        return boundaries.linear(boundaries.Linear(weight), boundaries.Linear(first), steps).weight

    assert gradcheck(found, (weight, first, k, moves, target, scale))


@pytest.mark.parametrize("biased", [True, False], ids=["biases", "no biases"])
def test_gradients_of_the_mlp_are_those_of_finite_differences(biased):
    torch.manual_seed(0)
    groups, count, size, d, h = 1, 3, 2, 3, 4
    start = draw(groups, d + 1, h), draw(groups, h, d), draw(groups, 1, d)
    first = draw(groups, d + 1, h), draw(groups, h, d), draw(groups, 1, d)
    k, moves = draw(count, groups, size, d + 1), draw(count, groups, size, d + 1, scale=0.3)
    rate = draw(count, groups, size, 1, scale=0.3)
    target, scale = draw(count, groups, size, d), draw(groups, 1, d)

    def found(up, down, bias, first_up, first_down, first_bias, k, moves, rate, target, scale):
        steps = boundaries.Steps(k, moves, rate, target, scale)
        ends = boundaries.Mlp(first_up, first_down, first_bias)
        return tuple(boundaries.mlp(boundaries.Mlp(up, down, bias), ends, steps, biased))

    assert gradcheck(found, (*start, *first, k, moves, rate, target, scale))
