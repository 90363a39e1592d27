"""One step of a residual block of test-time training: one product, the layer's own dual form, one product.

The dual form is one kernel where the inner model is small enough (`kernels.ttt.step`).
"""

from typing import Any

import torch
from torch import Tensor

from ... import kernels
from ...layers import norm, ttt, ttt_fused
from .blocks import PLAIN, Clock, NormLinear, Operations, select_operations


class TttBlock:
    """x + ttt(norm(x))."""

    @staticmethod
    def supports(layer: ttt.Ttt) -> bool:
        return True

    def __init__(self, own: norm.Norm, layer: ttt.Ttt) -> None:
        config = layer.config
        read, bias = [layer.q.weight, layer.k.weight, layer.v.weight], None
        if config.learn_rate:
            read.append(layer.rate.weight)
            bias = torch.cat([layer.rate.bias.new_zeros(3 * layer.dim), layer.rate.bias]).detach()
        self.inward = NormLinear.of(own, torch.cat(read).detach(), bias)
        out: Any = layer.out_norm if config.out_norm else None
        matrix = layer.out.weight.detach().contiguous()
        self.outward = NormLinear(
            *((out.weight, out.bias, out.eps, "layer") if config.out_norm else (None, None, 0.0, "none")), matrix, None
        )
        self.layer, self.heads, self.size = layer, config.heads, config.size
        self.places, self.rate = config.mini_batch or 1, config.rate / config.size
        self.factors = layer.factors(layer.out.weight.device).detach()
        self.kernel = find_kernel(layer)

    def start(self, own: ttt.State, clock: Clock) -> None:
        self.own = own

    def __call__(self, x: Tensor, clock: Clock, ops: Operations) -> Tensor:
        seen = self.inward(ops, x)
        if self.kernel is None or ops is PLAIN:
            y = self.dual(seen).to(x.dtype)
        else:
            y, self.own = self.kernel(seen, self.own, in_place=True)
        return self.outward(ops, y).add_(x)

    def dual(self, seen: Tensor) -> Tensor:
        """The layer's output B H·d; the state is updated."""
        layer, own = self.layer, self.own
        dtype = own.model.weights[0].dtype
        width, place = self.heads * self.size, own.clock % self.places
        q, k, v = seen[:, : 3 * width].unflatten(1, (3, self.heads, 1, self.size)).to(dtype).unbind(1)  # B H 1 d
        asked = seen[:, 3 * width :, None, None].to(dtype)  # B H 1 1, or nothing
        rate = self.rate * (asked.sigmoid() if layer.config.learn_rate else torch.ones_like(k[..., :1]))
        q, k = (layer.turn(part, place[:, None]) for part in (q, k))
        factor = self.factors[place][:, None, None, None]
        y, total = layer.dual(own.model, own.gradient, q, k, v, rate, factor)
        self.own = layer.after(own.model, total, own.clock + 1)
        return y.flatten(1)

    def finish(self, own: Any, clock: Clock) -> ttt.State:
        return self.own


def find_kernel(layer: ttt.Ttt) -> Any:
    """The kernel of the layer's step; None where there is none for it."""
    weight = layer.out.weight
    if select_operations(weight) is PLAIN or not kernels.can_launch(weight):
        return None
    return ttt_fused.Step(layer) if ttt_fused.fits_step(layer) else None
