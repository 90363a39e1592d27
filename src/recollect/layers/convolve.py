"""Convolution over time as cuDNN does it, and as one product, which a GPU does many times faster for narrow layers.

cuDNN wants the channels before the steps; here they come last, as in every layer. Laid side by side, the k inputs that
an output reads make one row of a product, and so does its gradient: no axis is turned about. The rows are laid anew in
the backward pass rather than kept, since they are k times as large as the input.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d, linear, pad


def convolve(seen: Tensor, weight: Tensor, bias: Tensor | None, dilation: int, groups: int = 1) -> Tensor:
    """`seen` (B, (k−1)·dilation + T, D) under `weight` (W, D / groups, k) → B T W."""
    if groups > 1 or not seen.is_cuda:
        return conv1d(seen.mT, weight, bias, dilation=dilation, groups=groups).mT
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        seen, weight, bias = seen.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    y: Tensor = AsProduct.apply(seen, weight, dilation)
    return y if bias is None else y + bias


def side_by_side(seen: Tensor, kernel: int, dilation: int) -> Tensor:
    """B S D → B T (kernel·D): what each output reads, the oldest first."""
    steps = seen.shape[1] - (kernel - 1) * dilation
    return torch.cat([seen[:, tap * dilation : tap * dilation + steps] for tap in range(kernel)], dim=-1)


class AsProduct(torch.autograd.Function):
    """y[t] = Σ_j W[j]·seen[t + j·dilation], and its gradients, which are sums of the same kind."""

    generate_vmap_rule = True

    @staticmethod
    def forward(seen: Tensor, weight: Tensor, dilation: int) -> Tensor:
        return linear(side_by_side(seen, weight.shape[2], dilation), weight.permute(0, 2, 1).flatten(1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        seen, weight, ctx.dilation = inputs
        ctx.save_for_backward(seen, weight)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        (slope,), (seen, weight) = outer, ctx.saved_tensors
        kernel, to_seen, to_weight = weight.shape[2], None, None
        if ctx.needs_input_grad[0]:  # the input at s was read by the outputs at s − j·dilation: the taps reversed
            reach = (kernel - 1) * ctx.dilation
            around = side_by_side(pad(slope, (0, 0, reach, reach)), kernel, ctx.dilation)
            to_seen = linear(around, weight.flip(2).permute(1, 2, 0).flatten(1))
        if ctx.needs_input_grad[1]:
            rows = side_by_side(seen, kernel, ctx.dilation).flatten(0, 1)
            to_weight = (slope.flatten(0, 1).mT @ rows).unflatten(1, (kernel, -1)).permute(0, 2, 1)
        return to_seen, to_weight, None
