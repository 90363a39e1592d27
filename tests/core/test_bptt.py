"""Four ways to cut backpropagation through time: the same values forward, and what each does to the gradient."""

import itertools
from typing import NamedTuple

import pytest
import torch
from torch import nn

import tiny
from recollect.core import bptt
from recollect.core import state as states
from recollect.core.bptt import Segment
from recollect.models import language

STEPS, GRID, CUT = 24, 4, 0.5
KINDS = ("full", "truncated", "random", "unbiased")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# ------------------------------------------------------------------------------------------------ plans


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("steps", "length"), [(24, 4), (25, 4), (3, 1), (7, 7), (5, 9), (1, 1)])
def test_a_plan_covers_the_window_once(kind, steps, length):
    for seed in range(20):
        segments = bptt.plan(kind, steps, length, CUT, generator(seed))
        assert sum(segment.steps for segment in segments) == steps
        assert min(segment.steps for segment in segments) >= 1
        if kind == "full" or length >= steps:
            assert len(segments) == 1


def test_truncated_segments_are_equal_and_all_cut_off():
    assert bptt.plan("truncated", 10, 4, CUT, generator()) == [Segment(4, 0), Segment(4, 0), Segment(2, 0)]


def test_random_segments_are_as_long_as_asked_on_average():
    drawn = [s for seed in range(400) for s in bptt.plan("random", 100, 5, CUT, generator(seed))[:-1]]
    lengths = torch.tensor([segment.steps for segment in drawn], dtype=torch.float64)
    assert (lengths.min(), lengths.max()) == (1, 9)
    assert abs(lengths.mean() - 5) < 4 * lengths.std() / len(lengths) ** 0.5
    assert {segment.factor for segment in drawn} == {0}


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9])
def test_the_unbiased_plan_cuts_as_often_as_asked_and_makes_up_for_it(cut):
    plans = [bptt.plan("unbiased", 24, 4, cut, generator(seed)) for seed in range(500)]
    factors = torch.tensor([[s.factor for s in plan[1:]] for plan in plans], dtype=torch.float64)
    assert set(factors.unique().tolist()) == {0, 1 / (1 - cut)}
    error = (cut * (1 - cut) / factors.numel()) ** 0.5
    assert abs((factors == 0).double().mean() - cut) < 4 * error
    assert factors.mean() == pytest.approx(1, abs=4 * error / (1 - cut)), "on average nothing is lost"


def test_a_plan_repeats_with_its_generator_and_only_then():
    for kind in ("random", "unbiased"):
        plans = [bptt.plan(kind, 64, 4, CUT, generator(seed)) for seed in (1, 1, 2)]
        assert plans[0] == plans[1] != plans[2]


# ------------------------------------------------------------------------------------------------ scaling


class Nested(NamedTuple):
    h: torch.Tensor
    clock: torch.Tensor
    inner: tuple


def some_state():
    h = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    return Nested(h * 3, torch.tensor([4, 5]), (k.sin(),)), (h, k)


@pytest.mark.parametrize("factor", [0.0, 1.0, 2.0, 4 / 3, 1e-6])
def test_scaling_changes_gradients_and_no_values(factor):
    state, inputs = some_state()
    scaled = bptt.scale_gradient(state, factor)
    assert type(scaled) is Nested
    for a, b in zip(states.leaves(scaled), states.leaves(state), strict=True):
        assert torch.equal(a, b)
        assert a.dtype == b.dtype

    def gradients(state):
        total = state.h.pow(2).sum() + (state.inner[0] * 7).sum()
        if not total.requires_grad:
            return [torch.zeros_like(t) for t in inputs]
        return torch.autograd.grad(total, inputs, retain_graph=True)

    for found, whole in zip(gradients(scaled), gradients(state), strict=True):
        torch.testing.assert_close(found, factor * whole, rtol=1e-15, atol=0)


# ------------------------------------------------------------------------------------------------ a closed form


class Scalar(nn.Module):
    """h ← a·h + x; the loss of a step is h itself."""

    def __init__(self, a):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(a, dtype=torch.float64))

    def nll(self, x, y, state=None):
        h = torch.zeros(len(x), dtype=torch.float64) if state is None else state
        found = []
        for x_t in x.unbind(1):
            h = self.a * h + x_t
            found.append(h)
        return torch.stack(found, dim=1), h


@pytest.mark.parametrize("a", [0.5, 0.9, 1.1])
def test_the_gradient_of_a_scalar_recurrence_is_its_closed_form(a):
    """One impulse at step 0, so h_t = aᵗ and dh_t/da = t·aᵗ⁻¹, of which a segment from s on sees (t − s + 1)·aᵗ⁻¹."""
    x = torch.zeros(1, STEPS, dtype=torch.float64)
    x[0, 0] = 1

    def gradient(segments):
        model = Scalar(a)
        bptt.run(model, x, x, None, segments)[0].sum().backward()
        return model.a.grad.item()

    starts = [t // GRID * GRID for t in range(STEPS)]
    full = sum(t * a ** (t - 1) for t in range(1, STEPS))
    cut = sum((t - s + 1 if s else t) * a ** (t - 1) for t, s in enumerate(starts) if t)
    assert gradient(bptt.plan("full", STEPS, GRID, CUT, generator())) == pytest.approx(full, rel=1e-12)
    assert gradient(bptt.plan("truncated", STEPS, GRID, CUT, generator())) == pytest.approx(cut, rel=1e-12)
    scaled = [Segment(GRID, 0.0)] + [Segment(GRID, 3.0)] * (STEPS // GRID - 1)
    by_hand = 0.0
    for t in range(1, STEPS):  # what a step j < t adds crosses so many boundaries, and each multiplies it by 3
        by_hand += sum(a ** (t - 1) * 3.0 ** (starts[t] // GRID - starts[j] // GRID) for j in range(1, t + 1))
    assert gradient(scaled) == pytest.approx(by_hand, rel=1e-12)


# ------------------------------------------------------------------------------------------------ a small RNN


class Exact(nn.Module):
    """A language model whose loss stays in float64."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def nll(self, x, y, state=None):
        logits, state = self.model(x, state)
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
        return losses.view_as(y), state


@pytest.fixture(scope="module")
def rnn():
    """An RNN that remembers well enough for cuts to matter, and a window of text."""
    torch.manual_seed(11)
    model = language.Config(vocab=5, model="rnn", width=6, layers=1).build().double()
    with torch.no_grad():
        recurrent = model.body.layers[0].weight_hh_l0
        recurrent.copy_(torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0] * 0.98)
        model.body.layers[0].weight_ih_l0.mul_(0.5)
    return Exact(model), torch.randint(5, (3, STEPS + 1))


def gradient(rnn, segments):
    model, tokens = rnn
    model.zero_grad(set_to_none=True)
    bptt.run(model, tokens[:, :-1], tokens[:, 1:], None, segments)[0].mean().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.fixture(scope="module")
def full(rnn):
    return gradient(rnn, bptt.plan("full", STEPS, GRID, CUT, generator()))


@pytest.fixture(scope="module")
def by_cuts(rnn):
    """The gradient for every way to keep or cut the boundaries of the grid."""
    found = {}
    for factors in itertools.product((0.0, 1 / (1 - CUT)), repeat=STEPS // GRID - 1):
        found[factors] = gradient(rnn, [Segment(GRID, factor) for factor in (0.0, *factors)])
    return found


def drawn(kind, rnn, by_cuts, draws):
    """One gradient for each draw of a plan (draws, coordinates)."""
    found = []
    for seed in range(draws):
        segments = bptt.plan(kind, STEPS, GRID, CUT, generator(seed))
        factors = tuple(segment.factor for segment in segments[1:])
        found.append(by_cuts[factors] if kind == "unbiased" else gradient(rnn, segments))
    return torch.stack(found)


def test_over_all_cuts_the_unbiased_gradient_is_the_full_one_exactly(full, by_cuts):
    """No sampling: the 2⁵ plans with their probabilities."""
    mean = sum(
        found * CUT ** factors.count(0.0) * (1 - CUT) ** (len(factors) - factors.count(0.0))
        for factors, found in by_cuts.items()
    )
    torch.testing.assert_close(mean, full, rtol=1e-10, atol=1e-12)
    apart = torch.stack(list(by_cuts.values())) - full
    assert apart.norm(dim=1).min() > 1e-3 * full.norm(), "and yet no single draw is"


def test_the_mean_of_unbiased_draws_is_the_full_gradient_and_that_of_the_others_is_not(rnn, full, by_cuts):
    """Bounds on the unbiased estimator: every |mean − full| < 4.5 standard errors, root mean square < 1.2 of them.

    The coordinates lean on each other, so the root mean square is taken over 16 means of 500 draws each.
    On the others: a bias above 20 standard errors of the mean (as lengths of vectors).
    """
    rows = {}
    for kind, draws in (("full", 1), ("truncated", 1), ("random", 300), ("unbiased", 8000)):
        found = drawn(kind, rnn, by_cuts, draws)
        away = found.mean(dim=0) - full
        variance = found.var(dim=0, correction=0)
        error = (variance / draws).sqrt()
        rows[kind] = (away.norm() ** 2 / full.norm() ** 2, variance.sum() / full.norm() ** 2)
        if kind == "unbiased":
            moves = error > 1e-9 * full.abs().max()
            assert moves.sum() > len(full) // 2
            groups = found[:, moves].view(16, 500, -1)
            z = (groups.mean(dim=1) - full[moves]) / (groups.std(dim=1) / 500**0.5)
            worst, usual = max(z.abs().max(), (away / error)[moves].abs().max()), z.pow(2).mean().sqrt()
            print(f"\nunbiased: largest |z| {worst:.2f}, root mean square {usual:.2f}")
            assert worst < 4.5
            assert usual < 1.2
            assert (away[~moves].abs() < 1e-9).all(), "what no cut can change does not change"
        elif kind == "full":
            assert away.norm() == 0
        else:
            assert away.norm() > 20 * error.norm()
            assert away.norm() > 0.05 * full.norm(), "the bias is no trifle"
    print("relative to |full|²     bias²   variance   bias² + variance")
    for kind, (bias, variance) in rows.items():
        print(f"{kind:20} {bias:8.5f}   {variance:8.5f}   {bias + variance:8.5f}")
    assert rows["truncated"][1] == 0
    assert rows["unbiased"][1] > rows["random"][1] > 0, "the price of no bias is variance"


@pytest.mark.parametrize("model", tiny.KINDS)
def test_all_ways_give_the_same_values_forward(model):
    heads = {"heads": 2} if model in tiny.HEADED else {}
    built = Exact(language.Config(vocab=5, model=model, width=8, layers=2, **heads).build().double())
    tokens = torch.randint(5, (3, STEPS + 1))
    expected, final = built.nll(tokens[:, :-1], tokens[:, 1:])
    for kind in KINDS:
        segments = bptt.plan(kind, STEPS, 5, CUT, generator(3))
        assert len(segments) > 1 or kind == "full"
        found, state = bptt.run(built, tokens[:, :-1], tokens[:, 1:], None, segments)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        for a, b in zip(states.leaves(state), states.leaves(final), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_a_carried_state_comes_in_and_the_next_goes_out():
    model = Exact(language.Config(vocab=5, model="lstm", width=8, layers=1).build().double())
    tokens = torch.randint(5, (2, 13))
    whole, final = model.nll(tokens[:, :-1], tokens[:, 1:])
    _, middle = model.nll(tokens[:, :6], tokens[:, 1:7])
    segments = bptt.plan("truncated", 6, 2, CUT, generator())
    found, state = bptt.run(model, tokens[:, 6:-1], tokens[:, 7:], states.detach(middle), segments)
    torch.testing.assert_close(found, whole[:, 6:])
    for a, b in zip(states.leaves(state), states.leaves(final), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", ["full", "truncated", "random", "unbiased"])
def test_the_mean_of_a_window_is_that_of_its_losses(kind):
    tokens = torch.randint(5, (3, STEPS + 1), generator=generator())
    model = language.Config(vocab=5, model="gru", width=4, layers=1).build().double()
    segments = bptt.plan(kind, STEPS, 3, CUT, generator())
    found = []
    for way in (
        lambda *given: bptt.run(*given, smoothing=0.1)[0].mean(),
        lambda *given: bptt.mean(*given, smoothing=0.1)[0],
    ):
        value = way(model, tokens[:, :-1], tokens[:, 1:], None, segments)
        found.append([value, *torch.autograd.grad(value, list(model.parameters()))])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
