"""Products of float32 on tensor cores against torch's own, on a GPU or in Triton's interpreter."""

import pytest
import torch
from torch.nn.functional import linear

pytestmark = pytest.mark.triton
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def made(monkeypatch):
    """How many rows each product that is made here has."""
    from recollect.kernels import product

    seen, own = [], product.product
    monkeypatch.setattr(product, "product", lambda x, *rest: seen.append(len(x)) or own(x, *rest))
    return seen


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE)


def assert_near(found, expected):
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize(("rows", "size", "count"), [(16, 33, 17), (70, 64, 130), (128, 40, 200), (17, 16, 16)])
def test_all_three_forms_give_torchs_numbers(rows, size, count, made):
    from recollect.kernels.product import OnTensorCores

    x, whole, bias, add = drawn(rows, size), drawn(count, size + 3), drawn(count), drawn(rows, count)
    weight = whole[:, 3:]  # rows that begin further on
    exact = x.double() @ weight.double().mT
    own = add.clone()
    with OnTensorCores():
        assert_near(linear(x, weight), exact)
        assert_near(linear(x.view(1, rows, size), weight, bias)[0], exact + bias.double())
        assert_near(torch.mm(x, weight.mT), exact)
        assert_near(torch.mm(x, weight.mT, out=torch.empty_like(add)), exact)
        assert_near(torch.addmm(bias, x, weight.mT), exact + bias.double())
        assert torch.addmm(own, x, weight.mT, out=own) is own
    assert_near(own, exact + add.double())
    assert made == [rows] * 6


@pytest.mark.parametrize("nth", range(4))
def test_every_tile_gives_torchs_numbers(nth, monkeypatch):
    from recollect.kernels import product

    monkeypatch.setattr(product, "TILES", (product.TILES[nth]._replace(programs=0),))
    x, weight, add = drawn(70, 100), drawn(130, 100), drawn(70, 130)
    found = product.product(x, weight, add, torch.empty_like(add))
    assert_near(found, x.double() @ weight.double().mT + add.double())


def test_what_it_does_not_know_is_left_to_torch(made):
    from recollect.kernels.product import OnTensorCores

    x, weight = drawn(32, 24), drawn(40, 24)
    for a, b in ((x.double(), weight.double()), (x[:4], weight), (x, weight[:8]), (x.mT.contiguous().mT, weight)):
        with OnTensorCores():
            found = linear(a, b)
        torch.testing.assert_close(found, linear(a, b))
    with OnTensorCores():
        torch.testing.assert_close(torch.addmm(x.new_zeros(1), x, weight.mT, alpha=2.0), 2 * (x @ weight.mT))
        assert linear(x[0], weight).shape == (40,)
    with OnTensorCores(), torch.enable_grad():
        assert linear(x, weight.requires_grad_()).requires_grad
    assert not made


@pytest.mark.parametrize("form", ["linear", "mm", "addmm"])
def test_sizes_that_do_not_fit_are_torchs_to_refuse(form, made):
    from recollect.kernels.product import OnTensorCores

    x, weight = drawn(32, 24), drawn(40, 20)
    call = {
        "linear": lambda: linear(x, weight),
        "mm": lambda: torch.mm(x, weight.mT),
        "addmm": lambda: torch.addmm(drawn(40), x, weight.mT),
    }[form]
    with OnTensorCores(), pytest.raises(RuntimeError, match="cannot be multiplied"):
        call()
    with OnTensorCores(), pytest.raises(RuntimeError):
        linear(x, drawn(40, 24), drawn(39))
    assert not made


@pytest.mark.parametrize("shape", [(), (1,), (1, 40), (32, 40)], ids=str)
def test_what_is_added_is_spread_as_torch_does(shape):
    from recollect.kernels.product import OnTensorCores

    x, weight, add = drawn(32, 24), drawn(40, 24), drawn(*shape)
    exact = x.double() @ weight.double().mT + add.double()
    with OnTensorCores():
        assert_near(linear(x, weight, add), exact)
        assert_near(torch.addmm(add, x, weight.mT), exact)
        assert_near(torch.addmm(add, x, weight.mT, out=drawn(3)[:0]), exact)  # torch makes room


def test_rows_that_share_a_place_are_read_there(made):
    from recollect.kernels.product import OnTensorCores

    x, weight = drawn(1, 24).expand(32, 24), drawn(40, 24)
    with OnTensorCores():
        assert_near(linear(x, weight), x.double() @ weight.double().mT)
        assert_near(linear(x.expand(2, 32, 24), weight)[1], x.double() @ weight.double().mT)
    assert made == [32, 64]


def test_autocast_chooses_the_precision(made):
    from recollect.kernels.product import OnTensorCores

    with OnTensorCores(), torch.autocast(DEVICE, torch.bfloat16):
        assert linear(drawn(32, 24), drawn(40, 24)).dtype == torch.bfloat16
    assert not made


@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_a_capture_asks_what_the_library_may_do_in_torchs_own_words(precision):
    """Whoever sets `fp32_precision` is refused an answer by `allow_tf32`."""
    from recollect.decode.captured import float32_products
    from recollect.kernels.product import OnTensorCores

    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, precision
    try:
        found = float32_products(torch.device(DEVICE))
    finally:
        matmul.fp32_precision = before
    assert isinstance(found, OnTensorCores) == (DEVICE == "cuda" and precision == "ieee")


def test_a_compiler_sees_torchs_own_products():
    from recollect.kernels.product import OnTensorCores

    seen = []

    def backend(graph, inputs):
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    x, weight = drawn(32, 24), drawn(40, 24)
    compiled = torch.compile(linear, backend=backend, fullgraph=True)
    with OnTensorCores():
        assert_near(compiled(x, weight), x.double() @ weight.double().mT)
    assert len(seen) == 1
    torch.compiler.reset()
