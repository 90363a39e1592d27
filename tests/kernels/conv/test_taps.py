"""The kernels of narrow convolutions against conv1d, on a GPU or, without one, in Triton's interpreter."""

import pytest
import torch
from torch.nn.functional import conv1d

from recollect.kernels.conv import convolve
from recollect.kernels.conv.convolve import Taps

pytestmark = pytest.mark.triton
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# rows, steps, channels in and out, taps, dilation
SHAPES = [(2, 9, 3, 5, 4, 2), (1, 1, 2, 2, 3, 5), (3, 6, 16, 1, 1, 1), (2, 300, 28, 20, 7, 33), (1, 129, 64, 64, 2, 1)]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which kernels were called: a test that never came to them would prove nothing."""
    from recollect.kernels.conv import taps

    seen = []
    for name in ("correlate", "correlate_inputs"):
        own = getattr(taps, name)
        monkeypatch.setattr(taps, name, lambda *given, name=name, own=own: seen.append(name) or own(*given))
    return seen


def drawn(batch, steps, dim, width, kernel, dilation):
    torch.manual_seed(0)
    whole = torch.randn(batch, (kernel - 1) * dilation + steps + 1, dim, device=DEVICE)
    weight = torch.randn(width, dim, kernel, device=DEVICE, requires_grad=True)
    return whole[:, 1:].requires_grad_(), weight, dilation  # a row begins later than the last one ends, as in the layer


@pytest.mark.parametrize("shape", SHAPES)
def test_narrow_convolutions_and_their_gradients_are_a_librarys(shape, launches):
    seen, weight, dilation = drawn(*shape)
    y = Taps.apply(seen, weight, dilation)
    slope = torch.randn_like(y)
    found = [y, *torch.autograd.grad(y, [seen, weight], slope)]
    assert launches == ["correlate", "correlate", "correlate_inputs"]
    x, w = (t.detach().double().requires_grad_() for t in (seen, weight))
    oracle = conv1d(x.mT, w, dilation=dilation).mT
    for a, b in zip(found, [oracle, *torch.autograd.grad(oracle, [x, w], slope.double())], strict=True):
        assert (a - b).abs().max() <= 2e-6 * b.abs().max() * shape[4] ** 0.5


def test_gradients_of_gradients_take_the_plain_form(launches):
    seen, weight, dilation = drawn(*SHAPES[0])
    (first,) = torch.autograd.grad(Taps.apply(seen, weight, dilation).square().sum(), seen, create_graph=True)
    assert launches == ["correlate"]
    assert torch.autograd.grad(first.square().sum(), weight)[0].abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_numbers_are_multiplied_as_they_are_and_summed_in_float32(dtype, launches):
    if DEVICE == "cpu" and dtype == torch.bfloat16:
        pytest.skip("the interpreter multiplies the bits of bfloat16, not its numbers")
    seen, weight, dilation = (t.detach().to(dtype) if torch.is_tensor(t) else t for t in drawn(*SHAPES[3]))
    y = Taps.apply(seen, weight, dilation)
    assert y.dtype == dtype
    assert launches == ["correlate"]
    oracle = conv1d(seen.double().mT, weight.double(), dilation=dilation).mT
    torch.testing.assert_close(y.double(), oracle.to(dtype).double(), rtol=0.01, atol=0.02)


@pytest.mark.parametrize("case", ["wide", "float64"])
def test_what_they_are_not_for_takes_the_plain_form(case, launches):
    seen, weight, dilation = drawn(1, 5, convolve.NARROW + 1 if case == "wide" else 3, 2, 2, 1)
    if case == "float64":
        seen, weight = seen.double(), weight.double()
    Taps.apply(seen, weight, dilation)
    assert not launches


def test_many_at_once_take_the_plain_form(launches):
    seen, weight, dilation = drawn(2, 5, 3, 2, 2, 1)
    whole = conv1d(seen.mT, weight, dilation=dilation).mT
    by_row = torch.func.vmap(lambda row: Taps.apply(row[None], weight, dilation))(seen)
    torch.testing.assert_close(by_row[:, 0], whole)
    by_weight = torch.func.vmap(lambda own: Taps.apply(seen, own, dilation))(torch.stack([weight, 2 * weight]))
    torch.testing.assert_close(by_weight, torch.stack([whole, 2 * whole]))
    assert not launches
    y = Taps.apply(seen, weight, dilation)
    slopes = torch.randn(3, *y.shape, device=DEVICE)
    found = torch.autograd.grad(y, [seen, weight], slopes, is_grads_batched=True)
    expected = torch.autograd.grad(whole, [seen, weight], slopes, is_grads_batched=True)
    torch.testing.assert_close(found, expected)
