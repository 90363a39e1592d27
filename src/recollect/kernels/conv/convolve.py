"""Convolution over time: conv1d, or on a GPU in half precision a matrix product of unfolded inputs, channels last.

cuDNN takes the channels before the steps. Here the k inputs that an output reads are unfolded to one row of a product,
and likewise in the gradient, so that nothing is transposed. The backward pass unfolds again rather than saves the rows,
which are k times as large as the input; for narrow layers a kernel needs no unfolding at all.

On an H200 that takes .4 to .9 of cuDNN's time in bfloat16. In float32 cuDNN is faster: by default
(torch.backends.cudnn.allow_tf32) it multiplies in TF32, which products here do not.
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor  # pyright: ignore[reportMissingImports]
from torch.nn.functional import conv1d, pad

from .. import autocast_dtype, can_launch, installed, interpreted, is_plain_eager

NARROW = 64  # the most channels that the kernels take
HALVES = (torch.bfloat16, torch.float16)


def convolve(seen: list[Tensor], weight: Tensor, bias: Tensor | None, dilation: int, groups: int = 1) -> Tensor:
    """The convolution of `seen`, joined (B, (k−1)·dilation + T, D), with `weight` (W, D / groups, k): B T W."""
    dtype = autocast_dtype(seen[0])
    if groups > 1 or not seen[0].is_cuda or dtype not in HALVES or not is_plain_eager():
        channels_first = torch.cat([part.mT for part in seen], dim=2)  # joined and transposed in one copy
        return conv1d(channels_first, weight, bias, dilation=dilation, groups=groups).mT
    y: Tensor = Taps.apply(torch.cat(seen, dim=1).to(dtype), weight.to(dtype), dilation)
    return y if bias is None else y + bias.to(dtype)


class Taps(torch.autograd.Function):
    """y[t] = Σ_j W[j]·seen[t + j·dilation], with gradients that are sums of the same kind."""

    generate_vmap_rule = True

    @staticmethod
    def forward(seen: Tensor, weight: Tensor, dilation: int) -> Tensor:
        return correlate(seen, weight.permute(2, 1, 0), dilation)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        seen, weight, ctx.dilation = inputs
        ctx.save_for_backward(seen, weight)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        (grad_y,), (seen, weight) = outer, ctx.saved_tensors
        kernel, grad_seen, grad_weight = weight.shape[2], None, None
        if ctx.needs_input_grad[0]:  # the input at s was read by the outputs at s − j·dilation: the taps reversed
            grad_seen = correlate(grad_y, weight.flip(2).permute(2, 0, 1), ctx.dilation, (kernel - 1) * ctx.dilation)
        if ctx.needs_input_grad[1]:
            grad_weight = correlate_inputs(seen, grad_y, kernel, ctx.dilation).permute(2, 1, 0)
        return grad_seen, grad_weight, None


def correlate(x: Tensor, taps: Tensor, dilation: int, shift: int = 0) -> Tensor:
    """y[t] = Σ_j x[t + j·dilation − shift] taps[j], for taps (k D W); beyond its ends x (B S D) is zero."""
    if has_kernel(x, taps):
        from . import taps as narrow

        return narrow.correlate(x, taps, dilation, shift)
    x = pad(x, (0, 0, shift, shift)) if shift else x
    return unfold(x, len(taps), dilation) @ taps.reshape(-1, taps.shape[2])


def correlate_inputs(x: Tensor, grad_y: Tensor, kernel: int, dilation: int) -> Tensor:
    """Σ over rows and steps of x[t + j·dilation]ᵀ grad_y[t], for each tap j: k D W."""
    if has_kernel(x, grad_y):
        from . import taps as narrow

        return narrow.correlate_inputs(x, grad_y, kernel, dilation)
    rows, width = unfold(x, kernel, dilation), grad_y.shape[2]
    total = rows.reshape(-1, rows.shape[2]).mT @ grad_y.reshape(-1, width)
    return total.reshape(kernel, -1, width)


def unfold(x: Tensor, kernel: int, dilation: int) -> Tensor:
    """B S D → B T (kernel·D): the inputs that each output reads, the oldest first."""
    steps = x.shape[1] - (kernel - 1) * dilation
    return torch.cat([x[:, tap * dilation : tap * dilation + steps] for tap in range(kernel)], dim=-1)


def has_kernel(x: Tensor, other: Tensor) -> bool:
    """Whether the kernels apply: few channels, no second derivative, no batched gradients."""
    if torch.is_grad_enabled() or not is_plain_eager() or max(x.shape[-1], other.shape[-1]) > NARROW:
        return False
    if is_legacy_batchedtensor(x) or is_legacy_batchedtensor(other):  # autograd.grad's is_grads_batched
        return False
    known = x.dtype == other.dtype and x.dtype in (torch.float32, *HALVES)
    return known and (can_launch(x) or (interpreted() and installed()))
