"""Convolution over time as one product is cuDNN's, in value and in every gradient."""

import pytest
import torch
from torch.nn.functional import conv1d

import recollect
from recollect.layers.convolve import Taps, convolve, side_by_side

SHAPES = [(2, 9, 3, 5, 4, 2), (1, 1, 2, 2, 3, 5), (3, 6, 4, 1, 1, 1), (2, 40, 5, 3, 7, 4)]


def drawn(batch, steps, dim, width, kernel, dilation, **kw):
    torch.manual_seed(0)
    seen = torch.randn(batch, (kernel - 1) * dilation + steps, dim, dtype=torch.float64, **kw).requires_grad_()
    weight = torch.randn(width, dim, kernel, dtype=torch.float64, **kw).requires_grad_()
    return seen, weight, dilation


@pytest.mark.parametrize("shape", SHAPES)
def test_the_product_is_the_convolution(shape):
    seen, weight, dilation = drawn(*shape)
    y, oracle = Taps.apply(seen, weight, dilation), conv1d(seen.mT, weight, dilation=dilation).mT
    torch.testing.assert_close(y, oracle)
    slope = torch.randn_like(y)
    found, expected = (torch.autograd.grad(form, [seen, weight], slope) for form in (y, oracle))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_its_gradients_have_gradients(shape):
    seen, weight, dilation = drawn(*shape)
    torch.autograd.gradcheck(lambda seen, weight: Taps.apply(seen, weight, dilation), (seen, weight))
    torch.autograd.gradgradcheck(lambda seen, weight: Taps.apply(seen, weight, dilation), (seen, weight))


def test_rows_of_a_jacobian_at_once():
    seen, weight, dilation = drawn(*SHAPES[0])
    found = torch.func.jacrev(lambda seen: Taps.apply(seen, weight, dilation))(seen)
    expected = torch.func.jacrev(lambda seen: conv1d(seen.mT, weight, dilation=dilation).mT)(seen)
    torch.testing.assert_close(found, expected)


def test_only_what_is_asked_for_is_made(monkeypatch):
    seen, weight, dilation = drawn(*SHAPES[0])
    laid = []
    monkeypatch.setattr("recollect.layers.convolve.side_by_side", lambda *args: laid.append(1) or side_by_side(*args))
    y = Taps.apply(seen.detach(), weight, dilation)
    torch.autograd.grad(y.sum(), weight)
    assert len(laid) == 2  # forward, and for the weights; none for an input that no one asks about


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", [torch.float64, torch.bfloat16])
def test_on_a_gpu_as_cudnn(shape, precision):
    seen, weight, dilation = (x.detach().cuda() if torch.is_tensor(x) else x for x in drawn(*shape))
    bias = torch.randn(weight.shape[0], dtype=torch.float64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16, enabled=precision is torch.bfloat16):
        y = convolve(seen, weight, bias, dilation)
    oracle = conv1d(seen.mT, weight, bias, dilation=dilation).mT
    assert y.dtype == precision
    bound = 1e-9 if precision is torch.float64 else 0.1
    torch.testing.assert_close(y.double(), oracle, atol=bound, rtol=bound)


@pytest.mark.parametrize("name", ["conv", "tcn-block", "gated-conv"])
def test_layers_learn_the_same_by_either(name, monkeypatch):
    torch.manual_seed(0)
    layer = recollect.build(name, dim=6, kernel=4, dilation=3).double()
    x, slope = torch.randn(2, 3, 20, 6, dtype=torch.float64)

    def gradients():
        here = x.clone().requires_grad_()
        y, _ = layer(here, layer.initial_state(3))
        return torch.autograd.grad(y, [here, *layer.parameters()], slope)

    expected = gradients()
    taken = []

    def by_product(seen, weight, bias, dilation, groups):
        taken.append(dilation)
        return Taps.apply(seen, weight, dilation) + bias

    monkeypatch.setattr("recollect.layers.conv.convolve", by_product)
    torch.testing.assert_close(gradients(), expected)
    assert taken
