"""Test-time training over many full mini-batches on a CPU: models at the boundaries first, then outputs all at once.

The definition and the form for every chunk stand in ttt.py; this one computes the same with a fixed number of
operations for all mini-batches together, but for the few in `kernels.ttt.boundaries` that must wait for each other.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from einops import rearrange, repeat
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from .. import kernels
from ..core import state as states
from ..kernels.ttt import boundaries

if TYPE_CHECKING:
    from .ttt import Model, Ttt

FEWEST = 2  # mini-batches for which the layout is worth while
HELD = 2**24  # numbers of inner models that are held at once where no gradient is asked for
TOGETHER = 2**20  # numbers of the widest inner layer that are held at once when outputs are read


def count_full(layer: "Ttt", offset: Tensor, steps: int) -> int:
    """How many mini-batches from the first on are full for every row and go through this form; 0 for none."""
    config = layer.config
    if config.mini_batch is None or not config.norm or len(config.widths()) > 3 or not is_plain(offset):
        return 0
    count = (int(offset.min()) + steps) // config.mini_batch
    return count if count >= FEWEST else 0


def is_plain(tensor: Tensor) -> bool:
    """Whether the tensor is on a CPU, in plain eager mode without autocast."""
    return tensor.device.type == "cpu" and kernels.is_plain_eager() and not torch.is_autocast_enabled("cpu")


def recompute(function: Callable[..., Any], model: "Model") -> Callable[..., Any]:
    """The function, computed again in its backward pass where an inner model has a wide hidden layer to save."""
    if torch.is_grad_enabled() and len(model.weights) > 1:
        return partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False)
    return function


def run(
    layer: "Ttt",
    count: int,
    model: "Model",
    gathered: "Model",
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rate: Tensor,
    factors: Tensor,
) -> tuple[Tensor, "Model", "Model"]:
    """The outputs (B H n·b d) of the first n = `count` mini-batches, the model after them, and no gradient gathered."""
    size, outputs = len(factors), []
    most = count  # mini-batches whose boundaries are held at once
    if not torch.is_grad_enabled():
        most = max(FEWEST, HELD // sum(part.numel() for part in states.leaves(model)))
    for first in range(0, count, most):
        here = slice(first * size, min(first + most, count) * size)
        parts = q[:, :, here], k[:, :, here], v[:, :, here], rate[:, :, here]
        y, model = run_together(layer, model, gathered, *parts, factors)
        gathered = states.map(torch.zeros_like, gathered)
        outputs.append(y)
    return torch.cat(outputs, dim=2), model, gathered


def run_together(
    layer: "Ttt", model: "Model", gathered: "Model", q: Tensor, k: Tensor, v: Tensor, rate: Tensor, factors: Tensor
) -> tuple[Tensor, "Model"]:
    """The outputs of full mini-batches and the model after them, from the gradient gathered before them."""
    batch, size = q.shape[0], len(factors)
    models = find_boundaries(layer, model, gathered, k, v, rate * factors[-1], factors[-1])
    q, k, v, rate = (rearrange(part, "b h (n t) d -> (n b) h t d", t=size) for part in (q, k, v, rate))
    before = states.map(lambda part: part[:-batch], models)
    none = len(q) - batch
    gathered = states.map(lambda part: torch.cat([part, part.new_zeros(none, *part.shape[1:])]), gathered)

    def read(here: slice) -> Tensor:
        old, so_far = (states.map(lambda part: part[here], both) for both in (before, gathered))
        inputs, slopes = layer.slopes(old, k[here], v[here], rate[here])
        return layer.read_dual(old, so_far, q[here], inputs, slopes, factors[:, None])

    rows = max(1, TOGETHER // (q[0].numel() // q.shape[-1] * max(layer.config.widths())))
    reading = recompute(read, model)
    y = torch.cat([reading(slice(i, i + rows)) for i in range(0, len(q), rows)])
    after = states.map(lambda part: part[-batch:].clone(), models)  # a view would hold every boundary
    return rearrange(y, "(n b) h t d -> b h (n t) d", b=batch), after


def find_boundaries(
    layer: "Ttt", model: "Model", gathered: "Model", k: Tensor, v: Tensor, rate: Tensor, last: Tensor
) -> "Model":
    """The models ((n+1) B, H, …) at the n+1 boundaries; `rate` holds ρ at a boundary, which is `last`."""
    batch, heads = k.shape[:2]
    k, target, rate = (
        rearrange(part, "b h (n t) d -> n (b h) t d", t=layer.config.mini_batch)
        for part in (k, (k + layer.norm_bias - v) * layer.norm_weight, rate)
    )
    scale = repeat(layer.norm_weight.square(), "h 1 d -> (b h) 1 d", b=batch)
    steps = boundaries.Steps(pad(k, (0, 1), value=1), pad(k, (0, 1), value=layer.biased) * rate, rate, target, scale)
    start = join_bias(model)
    first = join_bias(states.map(lambda part: -last * part, gathered))
    if len(start) == 1:
        (found,) = boundaries.linear(boundaries.Linear(*start), boundaries.Linear(*first), steps)
        parts = found[..., :-1, :], found[..., -1:, :]
        weights, biases = parts[:1], parts[1:]
    else:
        up, down, bias = boundaries.mlp(boundaries.Mlp(*start), boundaries.Mlp(*first), steps, bool(layer.biased))
        weights, biases = (up[..., :-1, :], down), (up[..., -1:, :], bias)
    return states.map(lambda part: rearrange(part, "n (b h) i o -> (n b) h i o", h=heads), type(model)(weights, biases))


def join_bias(model: "Model") -> list[Tensor]:
    """The tensors of an inner model (B·H, …) with the biases of its first layer as the last row of its matrix."""
    weights, biases = ([part.flatten(0, 1) for part in parts] for parts in model)
    return [torch.cat([weights[0], biases[0]], dim=1), *weights[1:], *biases[1:]]
