"""The kernels of TTT over whole sequences against the plain form, on a GPU or else in Triton's interpreter."""

from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from kernels.ttt import cases
from kernels.ttt.cases import DEVICE, DTYPE, NARROW, assert_passes_by, everything, plain, used, watch
from recollect import kernels
from recollect.core import laws
from recollect.layers import build

pytestmark = pytest.mark.triton
TOLERANCE = {
    "ttt-linear": {torch.float32: 1e-5, torch.float64: 1e-10},
    "ttt-mlp": {torch.float32: 2e-5, torch.float64: 1e-10},
}
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "ttt-linear": {
        "as in the authors' code": {"mini_batch": 16},
        "as in the paper's equations": {"mini_batch": 16, "average": False},
        "places to spare in a tile": {"mini_batch": 5},
        "a boundary at every step": {"mini_batch": 1},
        "wider": {"mini_batch": 32, "dim": 32, "heads": 1},
        "heads that fill no tile": {"mini_batch": 16, "dim": 24},
        "wider ones that fill none": {"mini_batch": 5, "dim": 21, "heads": 1, "rotary": False},
        "heads that fill no tile, no norm": {"mini_batch": 16, "dim": 12, "norm": False},
        "no norm": {"mini_batch": 16, "norm": False},
        "no bias": {"mini_batch": 16, "bias": False},
        "fixed rate": {"mini_batch": 16, "learn_rate": False},
        "a start at zero": {"mini_batch": 16, "learn_start": False},
        "rotary": {"mini_batch": 16, "rotary": True},
    },
    "ttt-mlp": {
        "as in the authors' code": {"mini_batch": 16},
        "as in the paper's equations": {"mini_batch": 16, "average": False},
        "places to spare in a tile": {"mini_batch": 5},
        "a boundary at every step": {"mini_batch": 1},
        "wider": {"mini_batch": 16, "dim": 32, "heads": 1},
        "the widest": {"mini_batch": 16, "dim": 64, "heads": 1},
        "many places": {"mini_batch": 32, "heads": 1, "dim": 16},
        "more places than a head is wide": {"mini_batch": 40, "heads": 1, "dim": 7},
        "a hidden layer half as wide": {"mini_batch": 5, "expand": 2},
        "heads that fill no tile": {"mini_batch": 5, "dim": 24},
        "heads that fill no tile, no norm": {"mini_batch": 5, "dim": 12, "norm": False, "expand": 3},
        "no norm": {"mini_batch": 5, "norm": False},
        "no bias": {"mini_batch": 5, "bias": False},
        "neither": {"mini_batch": 5, "norm": False, "bias": False},
        "fixed rate": {"mini_batch": 5, "learn_rate": False},
        "a start at zero": {"mini_batch": 5, "learn_start": False},
        "rotary": {"mini_batch": 5, "rotary": True},
    },
}
EITHER = [(name, options) for name, each in OPTIONS.items() for options in each]


@pytest.fixture(params=OPTIONS)
def name(request: pytest.FixtureRequest) -> str:
    """Either layer, in the tests that are of both."""
    return request.param


@pytest.fixture
def kernel(name: str) -> Any:
    """The module of the layer's kernels."""
    return import_module(f"recollect.kernels.ttt.{name.removeprefix('ttt-')}")


@pytest.fixture
def launches(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    return watch(kernel, monkeypatch)


@pytest.fixture
def make(name: str) -> Any:
    return partial(cases.made, name)


def assert_same(name: str, found: list[Tensor], expected: list[Tensor]) -> None:
    cases.assert_same(found, expected, TOLERANCE[name][DTYPE])


@pytest.mark.parametrize(("name", "options"), EITHER)
def test_the_kernels_equal_the_plain_form_gradients_and_state_included(name, options, make, launches, monkeypatch):
    """Rows at three places: one begins at a boundary, one ends at one, one does neither."""
    layer = make(**OPTIONS[name][options])
    batch = layer.config.mini_batch
    state = used(layer, [0, batch - 1, batch + batch // 2])
    x = torch.randn(3, batch + 1, layer.dim, device=DEVICE, dtype=DTYPE)
    found = everything(layer, x, state)
    assert len(launches) == 1
    assert_same(name, found, plain(layer, x, state, monkeypatch))


@pytest.mark.parametrize("steps", [2, 4, 13])
def test_a_chunk_may_have_any_length(name, steps, make, launches, monkeypatch):
    """Two steps end before the first boundary of some rows, and at that of another."""
    layer = make(mini_batch=4)
    state = used(layer, [0, 2, 5, 7])
    x = torch.randn(4, steps, layer.dim, device=DEVICE, dtype=DTYPE)
    assert_same(name, everything(layer, x, state), plain(layer, x, state, monkeypatch))
    assert len(launches) == 1


def test_a_factor_clamped_to_zero_and_a_norm_weight_of_zero_have_gradients(name, make, launches, monkeypatch):
    """Neither is divided by."""
    layer = make(mini_batch=4)
    with torch.no_grad():
        layer.place_offset[-1] = -1
        layer.norm_weight[:, :, :3] = 0
    state = used(layer, [0, 3])
    x = torch.randn(2, 9, layer.dim, device=DEVICE, dtype=DTYPE)
    assert_same(name, everything(layer, x, state), plain(layer, x, state, monkeypatch))
    assert len(launches) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "places"), [("ttt-linear", 3, 3), ("ttt-mlp", 2, 5), ("ttt-mlp", 4, 5)], ids=str
)
def test_the_gradients_are_those_of_finite_differences(name, steps, places, kernel):
    if DEVICE == "cuda":
        pytest.skip("needs float64, which the kernels have in the interpreter only")
    size, hidden, offset = 16, 32, torch.tensor([2])
    q, k, v = (torch.randn(1, 1, steps, size).double().requires_grad_() for _ in range(3))
    rate, factors = (torch.rand(shape).double().mul(0.3).requires_grad_() for shape in ((1, 1, steps, 1), (places,)))
    linear = ((size, size), (1, size)) * 2
    mlp = ((size, hidden), (hidden, size), (1, hidden), (1, size)) * 2
    shapes = linear if name == "ttt-linear" else mlp
    inner = [torch.randn(1, 1, *shape).double().mul(0.3).requires_grad_() for shape in shapes]
    norm = [torch.randn(1, 1, size).double().requires_grad_() for _ in range(2)]

    def sequence(q, k, v, rate, factors, *rest):
        inner, norm = rest[: len(shapes)], rest[len(shapes) :]
        parts = [kernel.Inner(*inner[i : i + 4]) for i in range(0, len(inner), 4)]  # of the model, and what it gathered
        y, *after = kernel.run(q, k, v, rate, offset, factors, *parts, norm, True)
        return y, *(tensor for part in after for tensor in part)

    arguments = (q, k, v, rate, factors, *inner, *norm)
    assert torch.autograd.gradcheck(sequence, arguments, fast_mode=True, atol=1e-6)


@pytest.mark.slow
def test_the_laws_hold_for_the_kernels(name, make, launches, monkeypatch):
    own = {}
    if name == "ttt-mlp":
        own = {"expand": 2}
        monkeypatch.setitem(laws.TOLERANCE, torch.float32, TOLERANCE[name][torch.float32])  # 1.02e-5 on an H200
    layer = make(mini_batch=3, dim=16, heads=1, **own).eval()
    laws.check(layer, torch.randn(2, 7, layer.dim, device=DEVICE, dtype=DTYPE))
    assert len(launches) > 10


def test_autocast_narrows_the_products_and_nothing_else(make, launches, monkeypatch):
    layer = make(torch.float32, mini_batch=16)
    state = used(layer, [0, 5], torch.float32)
    x = torch.randn(2, 35, layer.dim, device=DEVICE)
    exact = everything(layer, x, state)
    with torch.autocast(DEVICE, NARROW):
        found = everything(layer, x, state)
        expected = plain(layer, x, state, monkeypatch)
    assert len(launches) == 2
    assert [t.dtype for t in found] == [t.dtype for t in expected]
    for a, b, c in zip(found, expected, exact, strict=True):
        assert a.isfinite().all()
        ours, theirs, scale = (float(t.abs().max()) for t in (a - c, b - c, c))
        assert ours <= 2 * theirs + 1e-3 * scale  # no further from the truth than the plain form under autocast
    assert float((found[1] - exact[1]).abs().max()) > 1e-5  # and yet narrowed


def test_what_only_passes_by_is_not_narrowed(make, launches):
    assert_passes_by(make(torch.float32, mini_batch=16))
    assert launches


def test_a_second_derivative_is_refused_in_a_line(name, make):
    layer = make(mini_batch=4, dim=12)
    x = torch.randn(1, 5, 12, device=DEVICE, dtype=DTYPE, requires_grad=True)
    with pytest.raises(RuntimeError, match=rf"{name}: expected a first derivative.*layer\.unroll"):
        torch.autograd.grad(layer(x, layer.initial_state(1))[0].sum(), x, create_graph=True)


def test_one_row_of_one_head_keeps_no_more_than_its_numbers(make, launches):
    layer = make(mini_batch=4, dim=12, heads=1).eval()
    laws.size(layer, torch.randn(1, 6, 12, device=DEVICE, dtype=DTYPE))
    assert launches


def test_two_passes_give_the_same_bits(make, launches):
    layer = make(mini_batch=16)
    state = used(layer, [0, 5])
    x = torch.randn(2, 20, layer.dim, device=DEVICE, dtype=DTYPE)
    for a, b in zip(everything(layer, x, state), everything(layer, x, state), strict=True):
        assert torch.equal(a, b)
    assert len(launches) == 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ttt-linear", {"name": "ttt-mlp"}),
        ("ttt-linear", {"dim": 260}),
        ("ttt-linear", {"mini_batch": 80}),
        ("ttt-linear", {"mini_batch": None, "average": False}),
        ("ttt-mlp", {"name": "ttt-linear"}),
        ("ttt-mlp", {"dim": 160}),
        ("ttt-mlp", {"dim": 128, "mini_batch": 40}),
        ("ttt-mlp", {"expand": 5}),
        ("ttt-mlp", {"mini_batch": 80}),
        ("ttt-mlp", {"mini_batch": None, "average": False}),
    ],
    ids=str,
)
def test_other_sizes_and_inner_models_take_another_form(name, options, launches):
    options = {"name": name, "dim": 32, "heads": 2, "mini_batch": 4} | options
    layer = build(options.pop("name"), **options).to(DEVICE)
    with torch.no_grad():
        layer(torch.randn(2, 5, layer.dim, device=DEVICE), layer.initial_state(2))
    assert not launches


@pytest.mark.parametrize("name", ["ttt-linear"])
def test_a_counter_of_flops_sees_the_products_of_the_plain_form(name, launches, monkeypatch):
    layer = build(name, dim=32, heads=2).to(DEVICE)
    x = torch.randn(2, 20, 32, device=DEVICE)
    counted = []
    for taken in (kernels.can_take, lambda tensor: False):
        monkeypatch.setattr(kernels, "can_take", taken)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            layer(x, layer.initial_state(2))
        counted.append(counter.get_total_flops())
    assert not launches
    assert counted[0] == counted[1] > 0


def test_without_a_gpu_or_the_interpreter_the_plain_form_is_taken(name, launches, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    layer = build(name, dim=32, heads=2)
    layer(torch.randn(2, 5, 32), layer.initial_state(2))
    assert not launches


@pytest.mark.parametrize(
    ("seen", "steps", "expected"), [([0, 4], 8, 2), ([0, 1], 8, 3), ([3, 6], 2, 2), ([0, 2], 2, 1)]
)
def test_without_a_gpu_the_plain_form_has_no_mini_batch_to_spare(seen, steps, expected, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    layer = build("ttt-linear", dim=8, heads=2, mini_batch=4)
    calls, run = [], layer.mini_batch
    monkeypatch.setattr(layer, "mini_batch", lambda *parts: calls.append(1) or run(*parts))
    state = layer.initial_state(2)._replace(clock=torch.tensor(seen))
    layer(torch.randn(2, steps, 8), state)
    assert len(calls) == expected
