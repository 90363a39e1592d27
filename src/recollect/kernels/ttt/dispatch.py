"""Which of TTT's kernels takes a chunk or a step of a layer, and what is handed to it.

The layer's own forms, in layers/ttt.py, are the definition. Kernels are imported where they are used: they need Triton.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import kernels

if TYPE_CHECKING:
    from ...layers.ttt import State, Ttt


def takes_chunk(layer: "Ttt", state: "State") -> bool:
    places, (size, *hidden, _) = layer.config.mini_batch, layer.config.widths()
    if places is None or not kernels.can_take(state.model.weights[0]):
        return False
    if not hidden:
        return size <= 128 and places <= 64
    fits = size <= 64 and places <= (64 if size <= 16 else 32)
    return fits and len(hidden) == 1 and hidden[0] <= 4 * size


def chunk(layer: "Ttt", x: Tensor, state: "State") -> tuple[Tensor, "State"]:
    """A whole chunk in a few kernels."""
    from ...layers.ttt import Model, State
    from . import linear, mlp

    clock = state.clock[:, None] + torch.arange(x.shape[1], device=x.device)
    place = clock % (layer.config.mini_batch or 1)
    q = layer.query(x, state, place, widen=False)  # the kernels widen what they read
    steps = q, *layer.see(x, state, place, widen=False), place[:, 0], layer.factors(x.device)
    norm = (layer.norm_weight, layer.norm_bias) if layer.config.norm else None
    if len(state.model.weights) == 1:
        inner = linear.Inner(*(part for model in state[:2] for (part,) in model))
        y, inner = linear.run(*steps, inner, norm, layer.config.bias)
        model = Model((inner.weight,), (inner.bias,)), Model((inner.gathered,), (inner.gathered_bias,))
    else:
        inner, gathered = (mlp.Inner(*weights, *biases) for weights, biases in state[:2])
        y, inner, gathered = mlp.run(*steps, inner, gathered, norm, layer.config.bias)
        model = Model(inner[:2], inner[2:]), Model(gathered[:2], gathered[2:])
    return layer.merge(y, x), State(*model, state.clock + x.shape[1])


def takes_step(layer: "Ttt", x: Tensor, state: "State") -> bool:
    """Whether one kernel makes what is between the products of a step: it has no way back, and lowers nothing."""
    lowered = torch.is_autocast_enabled(x.device.type) or x.dtype != layer.q.weight.dtype
    if torch.is_grad_enabled() or lowered or not kernels.can_launch(state.clock):
        return False
    from . import step as step_ttt

    return state.model.weights[0].dtype == torch.float32 and step_ttt.takes(layer)


def step(layer: "Ttt", x: Tensor, state: "State") -> tuple[Tensor, "State"]:
    """One step (x: B 1 D) by one kernel."""
    from . import step as step_ttt

    parts = [layer.q(x), layer.k(x), layer.v(x)] + ([layer.rate(x)] if layer.config.learn_rate else [])
    y, after = step_ttt.Step(layer)(torch.cat(parts, dim=-1)[:, 0], state)
    return layer.project(y[:, None]), after
