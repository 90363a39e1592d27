"""One step of test-time training in one kernel against the layer's own, on a GPU or in Triton's interpreter."""

import pytest
import torch

from oracles import randomise
from recollect import kernels
from recollect.core import state as states
from recollect.layers import build, ttt_fused

pytestmark = pytest.mark.triton
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LINEAR = {
    "as in the authors' code": {"mini_batch": 4},
    "as in the paper's equations": {"mini_batch": 3, "average": False},
    "a boundary at every step": {"mini_batch": 1},
    "no boundary": {"mini_batch": None, "average": False},
    "no norm": {"mini_batch": 4, "norm": False, "rate": 0.1},
    "no bias": {"mini_batch": 4, "bias": False},
    "fixed rate": {"mini_batch": 4, "learn_rate": False},
    "a start at zero": {"mini_batch": 4, "learn_start": False},
    "rotary": {"mini_batch": 4, "rotary": True},
    "an odd width": {"mini_batch": 4, "dim": 26, "heads": 2},
}
MLP = {
    "as in the authors' code": {"mini_batch": 4},
    "as in the paper's equations": {"mini_batch": 3, "average": False},
    "no norm": {"mini_batch": 4, "norm": False, "rate": 0.01},
    "no bias": {"mini_batch": 4, "bias": False},
    "an odd width": {"mini_batch": 4, "dim": 14, "heads": 2, "expand": 3},
    "rotary": {"mini_batch": 4, "rotary": True},
}
CASES = [pytest.param("ttt-linear", options, id=f"linear, {name}") for name, options in LINEAR.items()]
CASES += [pytest.param("ttt-mlp", options, id=f"mlp, {name}") for name, options in MLP.items()]


def made(name, options):
    torch.manual_seed(0)
    layer = build(name, **({"dim": 16, "heads": 2} | options)).eval()
    randomise(layer)
    return layer.to(DEVICE)


@torch.no_grad()
def projected(layer, x):
    """What a step sees, as the flat step lays it out."""
    seen = [layer.q(x), layer.k(x), layer.v(x)]
    return torch.cat([*seen, layer.rate(x)] if layer.config.learn_rate else seen, dim=-1)


@torch.no_grad()
@pytest.mark.parametrize(("name", "options"), CASES)
def test_each_step_gives_the_layers_output_and_state(name, options):
    layer = made(name, options)
    step, rows = ttt_fused.Step(layer), 3
    state = layer.initial_state(rows)
    state = state._replace(clock=torch.arange(rows, device=DEVICE))  # each row at another place
    for _ in range(6):
        x = torch.randn(rows, layer.dim, device=DEVICE)
        expected, after = layer.one_step(x[:, None], state)
        before = [tensor.clone() for tensor in states.leaves(state)]
        raw, found = step(projected(layer, x), state)
        for was, now in zip(before, states.leaves(state), strict=True):
            assert torch.equal(was, now), "the state was written"
        y = layer.out(layer.out_norm(raw) if layer.config.out_norm else raw)
        torch.testing.assert_close(y, expected[:, 0], rtol=1e-4, atol=1e-5)
        for mine, theirs in zip(states.leaves(found), states.leaves(after), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        copied = states.map(torch.clone, state)
        again, there = step(projected(layer, x), copied, in_place=True)
        for mine, theirs in zip([again, *states.leaves(there)], [raw, *states.leaves(found)], strict=True):
            assert torch.equal(mine, theirs)
        places = [tensor.data_ptr() for tensor in states.leaves(copied)]
        assert [tensor.data_ptr() for tensor in states.leaves(there)][:-1] == places[:-1], "all but the clock"
        state = after


@torch.no_grad()
@pytest.mark.parametrize("name", ["ttt-linear", "ttt-mlp"])
def test_a_state_laid_out_otherwise_is_copied_and_the_copy_waited_for(name, monkeypatch):
    from recollect.kernels.ttt import step as kernel

    wanted, own = [], kernel.overlapping
    monkeypatch.setattr(kernel, "overlapping", lambda device, early: wanted.append(early) or own(device, early))
    layer = made(name, {"mini_batch": 4})
    step, rows = ttt_fused.Step(layer), 3
    start = layer.initial_state(rows)._replace(clock=torch.arange(rows, device=DEVICE))
    state = states.map(lambda part: part + torch.rand_like(part) if part.is_floating_point() else part, start)
    laid = states.map(lambda part: part.mT.contiguous().mT if part.dim() > 1 else part.repeat_interleave(2)[::2], state)
    wide = projected(layer, torch.randn(rows, layer.dim, device=DEVICE)).repeat(1, 2)
    seen = wide[:, : wide.shape[1] // 2]
    found, expected = step(seen, laid), step(seen.clone(), state)
    for mine, theirs in zip(states.leaves(found), states.leaves(expected), strict=True):
        assert torch.equal(mine, theirs)
    assert wanted == [False, True]


@pytest.mark.parametrize("name", ["ttt-linear", "ttt-mlp"])
@pytest.mark.parametrize("options", [{}, {"learn_rate": False, "out_norm": False}], ids=str)
def test_a_layer_called_for_one_step_takes_the_kernel(name, options, monkeypatch):
    """Where nobody asks for gradients and nothing is lowered; else the plain form, to the same numbers."""
    monkeypatch.setattr(kernels, "can_launch", lambda tensor: kernels.is_plain_eager())
    used, own = [], ttt_fused.Step.__call__
    monkeypatch.setattr(ttt_fused.Step, "__call__", lambda *args: used.append(1) or own(*args))
    layer = made(name, {"mini_batch": 4} | options)
    state = layer.initial_state(3)._replace(clock=torch.arange(3, device=DEVICE))
    x = torch.randn(3, 1, layer.dim, device=DEVICE)
    with torch.no_grad():
        found, after = layer(x, state)
        assert used == [1]
        with torch.autocast(DEVICE, torch.bfloat16):
            layer(x, state)
    expected, then = layer(x, state)
    assert used == [1]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(states.leaves(after), states.leaves(then), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_inner_models_that_no_program_could_hold_are_not_taken():
    assert ttt_fused.fits_step(build("ttt-linear", dim=128))
    assert not ttt_fused.fits_step(build("ttt-linear", dim=256))
    assert ttt_fused.fits_step(build("ttt-mlp", dim=128, heads=2))
    assert not ttt_fused.fits_step(build("ttt-mlp", dim=128))
    assert not ttt_fused.fits_step(build("ttt-linear", dim=16).double())
