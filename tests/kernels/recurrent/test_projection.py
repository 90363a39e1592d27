"""The input projection of recurrent layers: in cuDNN's precision, with torch's setting restored."""

import pytest
import torch

from oracles import assert_all_close, gradients, inputs
from recollect.kernels.recurrent import projection

matmul = torch.backends.cuda.matmul
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def tf32(monkeypatch):
    monkeypatch.setattr(projection, "uses_tf32", lambda x: True)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_a_linear_layer(shape, bias, tf32):
    x, W, b = inputs(*shape), inputs(5, 4), inputs(5) if bias else None
    wanted = [tensor for tensor in (x, W, b) if tensor is not None]
    expected, found = torch.nn.functional.linear(x, W, b), projection.project(x, W, b)
    assert_all_close([found, *gradients([found], wanted)], [expected, *gradients([expected], wanted)], str(shape))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_only_what_is_wanted_has_a_gradient(which, tf32):
    given = [inputs(3, 4), inputs(5, 4), inputs(5)]
    given = [tensor.detach().requires_grad_(at == which) for at, tensor in enumerate(given)]
    projection.project(*given).sum().backward()
    assert [tensor.grad is not None for tensor in given] == [at == which for at in range(3)]


def test_the_setting_is_put_back_also_after_an_error():
    before = matmul.fp32_precision
    with projection.use_tf32(True):
        assert matmul.fp32_precision == "tf32"
    assert matmul.fp32_precision == before
    with pytest.raises(KeyError), projection.use_tf32(True):
        raise KeyError
    assert matmul.fp32_precision == before
    with projection.use_tf32(False):
        assert matmul.fp32_precision == before


def test_of_several_threads_the_last_puts_the_setting_back():
    before, (first, second) = matmul.fp32_precision, (projection.use_tf32(True) for _ in range(2))
    with first:
        second.__enter__()
    assert matmul.fp32_precision == "tf32"
    second.__exit__(None, None, None)
    assert matmul.fp32_precision == before


def test_a_setting_that_follows_another_goes_on_following():
    own = torch.backends.fp32_precision
    try:
        torch.backends.fp32_precision = "tf32"
        with projection.use_tf32(True):
            pass
        torch.backends.fp32_precision = "ieee"
        assert matmul.fp32_precision == "ieee"
    finally:
        torch.backends.fp32_precision = own


def test_a_backward_pass_under_autocast_is_that_of_the_forward_pass(tf32):
    x, W = torch.randn(6, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)
    y = projection.project(x, W, None)
    expected = torch.autograd.grad(y.sum(), [x, W], retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(y.sum(), [x, W])
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, expected, strict=True))


@on_a_gpu
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # the thread of the way back is new
@pytest.mark.parametrize("allowed", [True, False])
def test_on_a_gpu_it_has_the_precision_of_cudnn_forward_and_backward(allowed):
    rnn = torch.backends.cudnn.rnn
    before, rnn.fp32_precision = rnn.fp32_precision, "tf32" if allowed else "ieee"
    try:
        x, W = (torch.randn(500, 500, device="cuda", requires_grad=True) for _ in range(2))
        y = projection.project(x, W, None)
    finally:
        rnn.fp32_precision = before
    slope = torch.randn_like(y)
    found = [y.detach(), *torch.autograd.grad(y, [x, W], slope)]
    a, b, c = (tensor.detach().double() for tensor in (x, W, slope))
    for mine, exact in zip(found, [a @ b.T, c @ b, c.T @ a], strict=True):
        off = float((mine - exact).abs().max() / exact.abs().max())
        assert (1e-5 < off < 1e-2) if allowed else off < 1e-5
