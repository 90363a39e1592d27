"""What the tests of TTT's kernels have in common: layers in use, all that comes of them, the plain form beside."""

from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import randomise
from recollect import kernels
from recollect.core import state as states
from recollect.layers import build, ttt

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.float32 if DEVICE == "cuda" else torch.float64  # the interpreter knows float64, the GPU's form not
NARROW = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # which the interpreter can multiply


def watch(module: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shape of q in each call of the kernels: a test that never came to them would prove nothing."""
    seen, run = [], module.run

    def watched(q: Tensor, *rest: Any) -> Any:
        seen.append(tuple(q.shape))
        return run(q, *rest)

    monkeypatch.setattr(module, "run", watched)
    return seen


def made(name: str, dtype: torch.dtype = DTYPE, **options: Any) -> ttt.Ttt:
    """A layer of random parameters, no factor of it clamped, since that would hide its gradient."""
    layer = build(name, **{"dim": 32, "heads": 2} | options).to(DEVICE, dtype)
    randomise(layer)
    if hasattr(layer, "place_offset"):
        with torch.no_grad():
            layer.place_offset.abs_().mul_(0.3)
    return layer


def used(layer: ttt.Ttt, seen: list[int], dtype: torch.dtype = DTYPE) -> ttt.State:
    """A state of rows that have read so many steps, each entry of it with a gradient."""
    rows = []
    with torch.no_grad():
        for count in seen:
            state = layer.initial_state(1)
            before = torch.randn(1, max(count, 1), layer.dim, device=DEVICE, dtype=dtype)
            rows.append(layer.unroll(before, state)[1] if count else state)
    return states.map(lambda t: t.clone().requires_grad_(t.is_floating_point()), states.join(rows))


def everything(layer: ttt.Ttt, x: Tensor, state: ttt.State) -> list[Tensor]:
    """Outputs, the state after them, and the gradients of a weighting of all that by x, parameters and the state."""
    x = x.detach().requires_grad_()
    y, final = layer(x, state)
    outputs = [y, *(t for t in states.leaves(final) if t.is_floating_point())]
    generator = torch.Generator().manual_seed(7)
    weights = (torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t) for t in outputs)
    total = torch.stack([(t * w).sum() for t, w in zip(outputs, weights, strict=True)]).sum()
    inputs = [x, *layer.parameters(), *(t for t in states.leaves(state) if t.requires_grad)]
    gradients = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    return [t.detach() for t in (*outputs, *gradients)]


def plain(layer: ttt.Ttt, x: Tensor, state: ttt.State, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "can_take", lambda tensor: False)
        return everything(layer, x, state)


def assert_same(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Relative to each tensor's largest entry, or for those that are nothing but rounding to the largest of all."""
    largest = max(float(b.abs().max()) for b in expected)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        scale = max(float(b.abs().max()), 1e-4 * largest)
        error = float((a - b).abs().max()) / scale
        assert error <= tolerance, f"tensor {i} of shape {tuple(b.shape)} is off by {error:.3g}"


def assert_passes_by(layer: ttt.Ttt) -> None:
    """Before a boundary what was gathered is only added to: so is its gradient, whatever the products are in."""
    state = used(layer, [1, 3], torch.float32)
    with torch.autocast(DEVICE, NARROW):
        _, after = layer(torch.randn(2, 4, layer.dim, device=DEVICE), state)
    gathered = state.gradient.weights[0]
    slope = torch.randn_like(gathered)
    (found,) = torch.autograd.grad(after.gradient.weights[0], gathered, slope)
    assert torch.equal(found, slope)
