"""Cross-entropy in chunks: torch's own in values and gradients, finite differences, and no tensor of all the logits."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as draws
from torch.nn.functional import cross_entropy, linear
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from recollect.core import state as states
from recollect.layers import loss
from recollect.layers.loss import linear_cross_entropy
from recollect.models import language


@pytest.fixture(params=[1, 8], ids=["as-it-is", "whole-tiles"])
def small_chunks(request, monkeypatch):
    """Pieces of a few rows, on a device that likes the vocabulary as it is or in multiples of eight."""
    monkeypatch.setitem(loss.CHUNK, "cpu", 40)
    monkeypatch.setitem(loss.GRAIN, "cpu", request.param)


def inputs(rows, vocab, dim, *, bias=True, dtype=torch.float64, seed=0):
    draw = torch.Generator().manual_seed(seed)
    hidden, weight = (torch.randn(n, dim, generator=draw, dtype=torch.float64).to(dtype) for n in (rows, vocab))
    given = [hidden, weight, torch.randn(vocab, generator=draw, dtype=torch.float64).to(dtype) if bias else None]
    targets = torch.randint(vocab, (rows,), generator=draw)
    return [None if t is None else t.requires_grad_() for t in given], targets


def plain(hidden, weight, bias, targets, *, smoothing=0.0, ignore=-100, reduction="none"):
    logits = linear(hidden, weight, bias)
    logits = logits.float() if logits.dtype == torch.bfloat16 else logits
    return cross_entropy(logits, targets, label_smoothing=smoothing, ignore_index=ignore, reduction=reduction)


def gradients(losses, tensors, weights=None):
    tensors = [t for t in tensors if t is not None and t.requires_grad]
    return torch.autograd.grad(losses, tensors, torch.ones_like(losses) if weights is None else weights)


@pytest.mark.usefixtures("small_chunks")
@given(
    rows=draws.integers(1, 30),
    vocab=draws.integers(2, 50),
    dim=draws.integers(1, 6),
    bias=draws.booleans(),
    smoothing=draws.sampled_from([0.0, 0.1, 0.7]),
    ignored=draws.booleans(),
    reduction=draws.sampled_from(["none", "mean"]),
)
def test_losses_and_gradients_are_torchs(rows, vocab, dim, bias, smoothing, ignored, reduction):
    tensors, targets = inputs(rows, vocab, dim, bias=bias)
    if ignored:
        targets[1::3] = 0
    options = {"smoothing": smoothing, "ignore": 0} if ignored and (targets != 0).any() else {"smoothing": smoothing}
    found = linear_cross_entropy(*tensors, targets, reduction=reduction, **options)
    expected = plain(*tensors, targets, reduction=reduction, **options)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn(found.shape, dtype=torch.float64)
    for mine, theirs in zip(gradients(found, tensors, weights), gradients(expected, tensors, weights), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        silent = linear_cross_entropy(*tensors, targets, reduction=reduction, **options)
    torch.testing.assert_close(silent, expected.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients_are_those_of_finite_differences(reduction, smoothing):
    tensors, targets = inputs(7, 11, 3)

    def run(*tensors):
        return linear_cross_entropy(*tensors, targets, smoothing=smoothing, ignore=4, reduction=reduction)

    assert torch.autograd.gradcheck(run, tensors)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient_and_changes_none(reduction, frozen):
    tensors, targets = inputs(9, 12, 3)
    everything = list(gradients(linear_cross_entropy(*tensors, targets, reduction=reduction), tensors))
    tensors[frozen].requires_grad_(False)
    rest = gradients(linear_cross_entropy(*tensors, targets, reduction=reduction), tensors)
    del everything[frozen]
    for mine, expected in zip(rest, everything, strict=True):
        torch.testing.assert_close(mine, expected, rtol=0, atol=0)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_second_derivative_is_refused_rather_than_wrong(reduction):
    tensors, targets = inputs(9, 12, 3)
    value = linear_cross_entropy(*tensors, targets, reduction=reduction).sum()
    with pytest.raises(RuntimeError, match="expected a first derivative"):
        torch.autograd.grad(value, tensors[:1], create_graph=True)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_loss_too_large_for_a_probability_stays_finite(reduction):
    hidden, weight = torch.full((6, 1), 40.0, requires_grad=True), torch.linspace(-5, 5, 12)[:, None].requires_grad_()
    found = linear_cross_entropy(hidden, weight, None, torch.zeros(6, dtype=torch.int64), reduction=reduction)
    assert found.flatten()[0].item() == pytest.approx(400, rel=1e-5)
    assert all(g.isfinite().all() for g in gradients(found, [hidden, weight]))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_under_autocast_it_is_as_near_to_the_truth_as_torch(reduction):
    """Both round to bfloat16; the distance of each from float64 is compared, with room for luck."""
    tensors, targets = inputs(64, 50, 16, dtype=torch.float32)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    truth = plain(*exact, targets, reduction=reduction)
    with torch.autocast("cpu", torch.bfloat16):
        found = linear_cross_entropy(*tensors, targets, reduction=reduction)
        torchs = plain(*tensors, targets, reduction=reduction)
    assert found.dtype == torchs.dtype == torch.float32
    columns = zip(
        [found, *gradients(found, tensors)],
        [torchs, *gradients(torchs, tensors)],
        [truth, *gradients(truth, exact)],
        strict=True,
    )
    for mine, theirs, wanted in columns:
        assert mine.dtype == torch.float32
        assert 0 < (mine - wanted).norm() < 1.5 * (theirs - wanted).norm() + 1e-3 * wanted.norm()


class Largest(TorchDispatchMode):
    """Notes the largest number of elements that any operation gave."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.elements = max([self.elements, *(t.numel() for t in tree_leaves(made) if isinstance(t, torch.Tensor))])
        return made


@pytest.mark.parametrize("way", ["none", "mean", "no gradient"])
def test_the_logits_never_stand_whole_in_memory(way, monkeypatch):
    rows, vocab, dim = 64, 30, 3
    monkeypatch.setitem(loss.CHUNK, "cpu", 8 * vocab)
    tensors, targets = inputs(rows, vocab, dim)
    with Largest() as seen:
        if way == "no gradient":
            with torch.no_grad():
                linear_cross_entropy(*tensors, targets)
        else:
            linear_cross_entropy(*tensors, targets, reduction=way).sum().backward()
    assert seen.elements == 8 * vocab
    with Largest() as torchs:
        plain(*tensors, targets)
    assert torchs.elements == rows * vocab, "the measure sees what it is meant to"


def test_a_few_logits_are_taken_whole():
    tensors, targets = inputs(8, 30, 4)
    with Largest() as seen:
        found = linear_cross_entropy(*tensors, targets)
    assert seen.elements == 8 * 30
    assert torch.equal(found, plain(*tensors, targets))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("model", ["transformer", "lstm"])
@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_a_whole_model_gets_the_gradients_of_its_logits(model, tie):
    config = language.Config(vocab=11, model=model, width=8, layers=1, heads=2, tie=tie)
    model = config.build().double()
    tokens = torch.randint(11, (3, 8))
    x, y = tokens[:, :-1], tokens[:, 1:]
    parameters = list(model.parameters())
    logits, expected_state = model(x)
    expected = cross_entropy(logits.flatten(0, 1), y.flatten(), label_smoothing=0.1)
    wanted = torch.autograd.grad(expected, parameters)
    losses, _ = model.nll(x, y, smoothing=0.1)
    mean, state = model.nll(x, y, smoothing=0.1, reduction="mean")
    assert losses.shape == y.shape
    assert all(torch.equal(a, b) for a, b in zip(states.leaves(state), states.leaves(expected_state), strict=True))
    for value in (losses.mean(), mean):
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
        for mine, theirs in zip(torch.autograd.grad(value, parameters), wanted, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Dynamo and Inductor themselves call
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_it_compiles_whole_and_keeps_no_logits(reduction, backend, monkeypatch):
    rows, vocab, dim = 16, 30, 3
    monkeypatch.setitem(loss.CHUNK, "cpu", 8 * vocab)
    tensors, targets = inputs(rows, vocab, dim, dtype=torch.float32)
    saved = []

    def run(hidden, weight, bias, targets):
        with torch.autocast("cpu", torch.bfloat16):
            return linear_cross_entropy(hidden * 1, weight, bias, targets, smoothing=0.1, reduction=reduction)

    expected = run(*tensors, targets)
    compiled = torch.compile(run, backend=backend, fullgraph=True, dynamic=False)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        found = compiled(*tensors, targets)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    assert max(saved) < rows * vocab
    for mine, theirs in zip(gradients(found, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=5e-2, atol=5e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("vocab", [512, 500])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_it_can_be_captured_and_is_torchs_on_a_gpu(reduction, vocab, monkeypatch):
    monkeypatch.setitem(loss.CHUNK, "cuda", 64 * 512)
    tensors, targets = inputs(256, vocab, 32, dtype=torch.float32)
    tensors, targets = [t.detach().cuda().requires_grad_() for t in tensors], targets.cuda()

    def run():
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            value = linear_cross_entropy(*tensors, targets, reduction=reduction, smoothing=0.1, ignore=3)
        return value, *gradients(value, tensors)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    graph.replay()
    value = plain(*tensors, targets, reduction=reduction, smoothing=0.1, ignore=3)
    pairs = zip(found, (value, *gradients(value, tensors)), strict=True)
    errors = [float(((mine - theirs).norm() / theirs.norm()).detach()) for mine, theirs in pairs]
    assert max(errors) < 1e-2, f"the loss and the gradients of hidden, weight and bias are off by {errors}"
