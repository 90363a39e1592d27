"""The kernels of attention by additive scores against plain operations, on a GPU or in the interpreter."""

from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import randomise
from recollect import kernels
from recollect.core import laws
from recollect.core import state as states
from recollect.core.contract import Memory
from recollect.kernels.attention import soft_align
from recollect.layers import build
from recollect.layers.soft_align import SoftAlign, State

pytestmark = pytest.mark.triton
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [torch.float32] if DEVICE == "cuda" else [torch.float32, torch.float64]  # the interpreter alone knows float64
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
SIZES: dict[str, dict[str, int]] = {
    "odd widths, a key wider than a value": {"width": 5, "memory_dim": 7, "align_dim": 19},
    "a value wider than a key": {"width": 6, "memory_dim": 33, "align_dim": 3},
    "numbers of one": {"width": 1, "memory_dim": 1, "align_dim": 1},
    "blocks of few places": {"width": 4, "memory_dim": 5, "align_dim": 1025},
}
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_cell = pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
every_order = pytest.mark.parametrize("order", ["align-first", "cell-first"])


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps of each chunk that the kernels took: a test that never reached them would prove nothing."""
    from recollect.kernels.attention import additive

    seen, prepare = [], additive.prepare

    def watched(source: Any, weights: Any, steps: int, *, save: bool) -> Any:
        seen.append(steps)
        return prepare(source, weights, steps, save=save)

    monkeypatch.setattr(additive, "prepare", watched)
    return seen


def make(dtype: torch.dtype, **options: Any) -> SoftAlign:
    """A layer of random parameters, its scores of size 1: with far larger ones float32 has few digits of a gradient."""
    layer: Any = build("soft-align", **{"dim": 3, "width": 4, "memory_dim": 5, "align_dim": 6} | options).to(
        DEVICE, dtype
    )
    randomise(layer)
    with torch.no_grad():
        vector_of(layer).mul_(2 * layer.query.out_features**-0.5)
    return layer


def vector_of(layer: SoftAlign) -> Tensor:
    return dict(layer.named_parameters())["attend.score.weight"]


def begin(layer: SoftAlign, valid: Tensor) -> State:
    """A state of random numbers, a gradient wanted of each."""
    values = torch.randn(*valid.shape, layer.memory_dim, device=DEVICE, dtype=layer.key.weight.dtype)
    state = layer.initial_state(len(valid), memory=Memory(values, valid.to(DEVICE)))
    return states.map(lambda t: torch.randn_like(t).requires_grad_() if t.is_floating_point() else t, state)


def until(places: int, ends: list[int]) -> Tensor:
    return torch.arange(places) < torch.tensor(ends)[:, None]


def everything(layer: SoftAlign, x: Tensor, state: State, cuts: tuple[int, ...] = ()) -> list[Tensor]:
    """Outputs, the state after them, and the gradients of all that goes in, from all that comes out."""
    x, after, parts = x.detach().requires_grad_(), state, []
    for part in x.tensor_split(cuts, dim=1):
        y, after = layer(part, after)
        parts.append(y)
    outputs = [torch.cat(parts, dim=1), *states.leaves(after)[:-1]]
    generator = torch.Generator().manual_seed(7)
    slopes = [torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t) for t in outputs]
    inputs = [x, *states.leaves(state)[:-1], *layer.parameters()]
    found = torch.autograd.grad(outputs, inputs, slopes, allow_unused=True, materialize_grads=True)
    return [t.detach() for t in (*outputs, *found)]


def plain(layer: SoftAlign, x: Tensor, state: State, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "can_take", lambda tensor: False)
        return everything(layer, x, state)


def assert_same(found: list[Tensor], expected: list[Tensor], least: float = 1e-4) -> None:
    """Relative to each tensor's largest entry, or for those that are nothing but rounding to the largest of all."""
    largest = max(float(b.abs().max()) for b in expected)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.dtype == b.dtype
        error = float((a - b).abs().max()) / max(float(b.abs().max()), least * largest)
        assert error <= TOLERANCE[b.dtype], f"tensor {i} of shape {tuple(b.shape)} is off by {error:.3g}"


def compare(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, valid: Tensor, steps: int = 4, **options: Any) -> None:
    layer = make(dtype, **options)
    state, x = begin(layer, valid), torch.randn(len(valid), steps, layer.dim, device=DEVICE, dtype=dtype)
    assert_same(everything(layer, x, state), plain(layer, x, state, monkeypatch))


@every_dtype
@every_order
@every_cell
def test_the_kernels_equal_plain_operations_gradients_and_state_included(cell, order, dtype, launches, monkeypatch):
    compare(monkeypatch, dtype, until(6, [6, 1, 4]), cell=cell, order=order)
    assert launches == [4]


@every_dtype
@pytest.mark.parametrize("sizes", SIZES)
def test_widths_may_be_any_and_need_not_be_alike(sizes, dtype, launches, monkeypatch):
    compare(monkeypatch, dtype, until(11, [11, 2]), steps=2, **SIZES[sizes])
    assert launches == [2]


@every_dtype
@pytest.mark.parametrize("places", [1, 2, 32, 33, 70])
def test_a_source_may_have_any_number_of_places(places, dtype, launches, monkeypatch):
    """A block of them, fewer, or several and a rest."""
    compare(monkeypatch, dtype, until(places, [places, 1]), steps=2, cell="rnn")
    assert launches == [2]


@every_dtype
def test_valid_places_may_stand_anywhere(dtype, launches, monkeypatch):
    """Also with none in the first block of places, or in the last."""
    valid = torch.rand(3, 70) < 0.5
    valid[0, :40] = False
    valid[1, 30:] = False
    valid[2, :] = False
    valid[2, 69] = True
    compare(monkeypatch, dtype, valid, steps=2, order="cell-first", feed=False)
    assert launches == [2]


@every_dtype
def test_chunks_give_what_the_whole_gives(dtype, launches, monkeypatch):
    layer = make(dtype, cell="lstm")
    state, x = begin(layer, until(6, [6, 1, 4])), torch.randn(3, 6, layer.dim, device=DEVICE, dtype=dtype)
    assert_same(everything(layer, x, state, (1, 3)), plain(layer, x, state, monkeypatch))
    assert launches == [1, 2, 3]


def test_sources_that_lie_otherwise_in_memory_give_the_same(launches, monkeypatch):
    layer = make(DTYPES[-1])
    state, x = begin(layer, until(6, [6, 1, 4])), torch.randn(3, 2, layer.dim, device=DEVICE, dtype=DTYPES[-1])
    expected = plain(layer, x, state, monkeypatch)
    turned = states.map(lambda t: t.detach().mT.contiguous().mT if t.ndim > 1 else t, (state.values, state.valid))
    state = state._replace(values=turned[0].requires_grad_(), valid=turned[1])
    assert not state.values.is_contiguous()
    assert_same(everything(layer, x, state), expected)
    assert launches == [2]


@every_dtype
def test_sums_of_any_size_give_numbers(dtype, launches, monkeypatch):
    """Where tanh is 1 to the last bit, and where its square is nothing.

    With all keys alike the gradient of a query is the sum of those of a row's scores, which is 0 but for rounding.
    """
    for scale in (1e30, 1e-30, 0.0):
        layer = make(dtype)
        state, x = begin(layer, until(6, [6, 1, 4])), torch.randn(3, 2, layer.dim, device=DEVICE, dtype=dtype)
        with torch.no_grad():
            state.keys.mul_(scale)
            layer.query.weight.mul_(scale)
        found, expected = everything(layer, x, state), plain(layer, x, state, monkeypatch)
        assert all(t.isfinite().all() for t in expected)
        assert_same(found, expected, least=1e-2)
    assert launches == [2, 2, 2]


@every_dtype
def test_a_score_far_above_the_rest_has_all_of_the_share(dtype, launches):
    """One place has a score of 1e4, the others of -1e4: the context is its value, to the bit."""
    layer = make(dtype, align_dim=1, order="cell-first")
    state, x = begin(layer, until(40, [40, 40])), torch.randn(2, 1, layer.dim, device=DEVICE, dtype=dtype)
    with torch.no_grad():
        layer.query.weight.zero_()
        vector_of(layer).fill_(1e4)
        state.keys.fill_(-50).select(1, 35).fill_(50)
        _, after = layer(x, state)
    assert torch.equal(after.context, state.values[:, 35])
    assert launches == [1]


def test_the_gradients_are_those_of_finite_differences(launches):
    if DEVICE == "cuda":
        pytest.skip("needs float64, which the kernels have in the interpreter only")
    layer = make(torch.float64, width=2, memory_dim=3, align_dim=3)
    state = begin(layer, until(3, [3, 2]))
    x = torch.randn(2, 2, layer.dim, dtype=torch.float64, requires_grad=True)

    def run(x: Tensor, keys: Tensor, values: Tensor, *_: Tensor) -> Tensor:
        return layer(x, state._replace(keys=keys, values=values))[0]

    weights = [layer.query.weight, vector_of(layer)]
    assert torch.autograd.gradcheck(run, (x, state.keys, state.values, *weights), fast_mode=True, atol=1e-6)
    assert launches


def test_two_passes_give_the_same_bits(launches):
    layer = make(DTYPES[-1])
    state, x = begin(layer, until(40, [40, 1, 7])), torch.randn(3, 3, layer.dim, device=DEVICE, dtype=DTYPES[-1])
    for a, b in zip(everything(layer, x, state), everything(layer, x, state), strict=True):
        assert torch.equal(a, b)
    assert launches == [3, 3]


def test_nothing_as_large_as_the_keys_is_saved_of_a_step(monkeypatch):
    saved, run_forward = [], soft_align.run_forward

    def spy(*given: Any, **named: Any) -> Any:
        found, steps = run_forward(*given, **named)
        saved.append(steps)
        return found, steps

    monkeypatch.setattr(soft_align, "run_forward", spy)
    layer = make(DTYPES[-1])
    x = torch.randn(2, 3, layer.dim, device=DEVICE, dtype=DTYPES[-1])
    layer(x, begin(layer, until(9, [9, 2])))
    with torch.no_grad():
        layer(x, begin(layer, until(9, [9, 2])))
    trained, written = saved
    assert trained.score_inputs.shape == (3, 2, 6)
    assert [share.shape for share in trained.alignments] == 3 * [(2, 9)]
    assert written.score_inputs.shape == (1, 2, 6)
    assert not written.alignments


@pytest.mark.slow
def test_the_laws_hold_for_the_kernels(launches):
    layer = make(DTYPES[-1]).eval()
    memory = Memory(torch.randn(2, 5, 5, device=DEVICE, dtype=DTYPES[-1]), until(5, [5, 2]).to(DEVICE))
    laws.check(layer, torch.randn(2, 7, layer.dim, device=DEVICE, dtype=DTYPES[-1]), memory)
    assert len(launches) > 10


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_lowered_sums_are_left_to_plain_operations(dtype, launches):
    layer = make(torch.float32)
    state = begin(layer, until(6, [6, 1]))
    with torch.autocast(DEVICE, dtype):
        y, _ = layer(torch.randn(2, 3, layer.dim, device=DEVICE), state)
    assert y.isfinite().all()
    assert not launches


@pytest.mark.parametrize(
    "options", [{"score": "dot"}, {"score": "general"}, {"align_dim": soft_align.WIDEST + 1}], ids=str
)
def test_other_scores_and_wider_keys_are_left_to_plain_operations(options, launches):
    layer: Any = build("soft-align", dim=3, **options).to(DEVICE)
    with torch.no_grad():
        layer(torch.randn(2, 3, layer.dim, device=DEVICE), begin(layer, until(6, [6, 1])))
    assert not launches


def test_without_a_gpu_or_the_interpreter_plain_operations_are_taken(launches, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    layer = build("soft-align", dim=3)
    layer(torch.randn(2, 3, 3), layer.initial_state(2, memory=Memory(torch.randn(2, 4, 3), until(4, [4, 1]))))
    assert not launches
