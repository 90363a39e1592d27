"""Test-time training through GPU kernels: which chunks and steps they take, and the layer's state as their tensors.

The definition and the form for every device stand in ttt.py. Kernels are imported where they are used: they need
Triton.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .. import kernels
from .position import angles

if TYPE_CHECKING:
    from .ttt import State, Ttt


def takes_chunk(layer: "Ttt", state: "State") -> bool:
    """Whether the kernels for a whole chunk run here and were written for an inner model of this size."""
    places, (size, *hidden, _) = layer.config.mini_batch, layer.config.widths()
    if places is None or not kernels.can_take(state.model.weights[0]):
        return False
    if not hidden:
        return size <= 128 and places <= 64
    fits = size <= 64 and places <= (64 if size <= 16 else 32)
    return fits and len(hidden) == 1 and hidden[0] <= 4 * size


def run_chunk(layer: "Ttt", x: Tensor, state: "State") -> tuple[Tensor, "State"]:
    """A whole chunk (x: B T D) in a few kernels."""
    from ..kernels.ttt import linear, mlp

    clock = state.clock[:, None] + torch.arange(x.shape[1], device=x.device)
    place = clock % (layer.config.mini_batch or 1)
    q = layer.query(x, state, place, widen=False)  # the kernels widen what they read
    steps = q, *layer.project_pair(x, state, place, widen=False), place[:, 0], layer.factors(x.device)
    norm = (layer.norm_weight, layer.norm_bias) if layer.config.norm else None
    if len(state.model.weights) == 1:
        inner = linear.Inner(*(part for model in state[:2] for (part,) in model))
        y, inner = linear.run(*steps, inner, norm, layer.config.bias)
        after, gathered = inner[:2], inner[2:]
    else:
        inner, gathered = (mlp.Inner(*weights, *biases) for weights, biases in state[:2])
        y, after, gathered = mlp.run(*steps, inner, gathered, norm, layer.config.bias)
    return layer.merge(y, x), state_of(state, after, gathered, x.shape[1])


def takes_step(layer: "Ttt", x: Tensor, state: "State") -> bool:
    """Whether one kernel computes what lies between the projections of a step.

    It has no backward pass and computes in float32 alone.
    """
    lowered = torch.is_autocast_enabled(x.device.type) or x.dtype != layer.q.weight.dtype
    if torch.is_grad_enabled() or lowered or not kernels.can_launch(state.clock):
        return False
    return state.model.weights[0].dtype == torch.float32 and fits_step(layer)


def fits_step(layer: "Ttt") -> bool:
    """Whether the kernel of a step can hold the inner model, and keeps it in the layer's precision."""
    from ..kernels.ttt import step

    return layer.out.weight.dtype != torch.float64 and step.fits(layer.config.widths())


def run_step(layer: "Ttt", x: Tensor, state: "State") -> tuple[Tensor, "State"]:
    """One step (x: B 1 D) with one kernel between its projections."""
    parts = [layer.q(x), layer.k(x), layer.v(x)] + ([layer.rate(x)] if layer.config.learn_rate else [])
    y, after = Step(layer)(torch.cat(parts, dim=-1)[:, 0], state)
    return layer.project(y[:, None]), after


class Step:
    """The kernel of one step, set up for one layer."""

    def __init__(self, layer: "Ttt") -> None:
        from ..kernels.ttt import step

        config, device = layer.config, layer.out.weight.device
        places = config.mini_batch or 1
        angle = angles(torch.arange(places, device=device), config.size) if config.rotary else None
        self.kernel = step.Step(
            step.Settings(
                widths=config.widths(),
                heads=config.heads,
                places=places,
                steps=config.mini_batch is not None,
                rate=config.rate / config.size,
                learned_rate=config.learn_rate,
                biased=config.bias,
            ),
            factors=layer.factors(device).detach().float(),
            norm=(layer.norm_weight.detach(), layer.norm_bias.detach()) if config.norm else None,
            rotation=None if angle is None else (angle.cos().float(), angle.sin().float()),
        )

    def __call__(self, projected: Tensor, state: "State", *, in_place: bool = False) -> tuple[Tensor, "State"]:
        """y (B H·d) in the dtype of `projected`, and the next state; `in_place` overwrites all but the clock.

        `projected` (B 3·H·d, and H more where rates are learned) holds q, k, v and the logits of the rates.
        """
        model, gathered = ([*own.weights, *own.biases] for own in state[:2])
        y, after, left = self.kernel(projected, model, gathered, state.clock, in_place=in_place)
        return y, state_of(state, after, left, 1)


def state_of(before: "State", model: Sequence[Tensor], gathered: Sequence[Tensor], steps: int) -> "State":
    """The state `steps` steps after `before`, from the kernels' tensors: matrices first, then biases."""
    inner = [
        own._replace(weights=tuple(parts[: len(own.weights)]), biases=tuple(parts[len(own.weights) :]))
        for own, parts in zip(before[:2], (model, gathered), strict=True)
    ]
    return before._replace(model=inner[0], gradient=inner[1], clock=before.clock + steps)
