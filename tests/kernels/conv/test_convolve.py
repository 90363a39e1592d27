"""Convolution over time as one product is cuDNN's, in value and in every gradient."""

import pytest
import torch
from torch.nn.functional import conv1d

import recollect
from recollect.kernels.conv.convolve import Taps, convolve, unfold

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
    monkeypatch.setattr("recollect.kernels.conv.convolve.unfold", lambda *args: laid.append(1) or unfold(*args))
    y = Taps.apply(seen.detach(), weight, dilation)
    torch.autograd.grad(y.sum(), weight)
    assert len(laid) == 2  # forward, and for the weights; none for an input that no one asks about


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Dynamo itself calls
def test_what_a_compiler_makes_of_it_is_one_graph():
    seen, weight, dilation = drawn(*SHAPES[0])
    seen, weight = seen.detach().float(), weight.detach().float()
    compiled = torch.compile(lambda *given: Taps.apply(*given), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(seen, weight, dilation), conv1d(seen.mT, weight, dilation=dilation).mT)
    torch.compiler.reset()


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [*SHAPES, (2, 30, 80, 70, 3, 2)])
@pytest.mark.parametrize("mixed", [False, True])
def test_in_half_precision_on_a_gpu_it_is_cudnns_and_so_are_its_gradients(shape, mixed, monkeypatch):
    taken, apply = [], Taps.apply
    monkeypatch.setattr(Taps, "apply", lambda *given: taken.append(given[0].dtype) or apply(*given))
    seen, weight, dilation = (x.detach() if torch.is_tensor(x) else x for x in drawn(*shape))
    bias = torch.randn(weight.shape[0], dtype=torch.float64)
    given = [x.to("cuda", torch.float32 if mixed else torch.bfloat16).requires_grad_() for x in (seen, weight, bias)]
    with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
        y = convolve([given[0][:, :2], given[0][:, 2:]], *given[1:], dilation)
    assert taken == [y.dtype] == [torch.bfloat16]
    slope = torch.randn_like(y)
    exact = [x.detach().double().requires_grad_() for x in given]
    oracle = conv1d(exact[0].mT, exact[1], exact[2], dilation=dilation).mT
    found = [y, *torch.autograd.grad(y, given, slope)]
    expected = [oracle, *torch.autograd.grad(oracle, exact, slope.double())]
    for a, b in zip(found, expected, strict=True):
        assert (a.double() - b).abs().max() <= 0.03 * b.abs().max()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_float32_and_float64_stay_with_the_library(dtype, monkeypatch):
    monkeypatch.setattr(Taps, "apply", None)
    seen, weight, dilation = (x.detach().to("cuda", dtype) if torch.is_tensor(x) else x for x in drawn(*SHAPES[0]))
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.float64):  # which leaves float64 alone
        assert convolve([seen], weight, None, dilation).dtype == dtype


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
        return Taps.apply(torch.cat(seen, dim=1), weight, dilation) + bias

    monkeypatch.setattr("recollect.layers.conv.convolve", by_product)
    torch.testing.assert_close(gradients(), expected)
    assert taken
