"""Convolution over time as a library does it, and with the channels where every layer here has them, which is last.

cuDNN wants the channels before the steps. Laid side by side, the k inputs that an output reads make one row of a
product, and so does its gradient: no axis is turned about. The rows are laid anew in the backward pass rather than
kept, since they are k times as large as the input; for narrow layers a kernel does without laying them at all.

On an H200 that takes .4 to .9 of cuDNN's time in bfloat16. In float32 cuDNN is faster: unless told otherwise
(torch.backends.cudnn.allow_tf32) it multiplies in TF32, which products here do not.
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor  # pyright: ignore[reportMissingImports]
from torch.nn.functional import conv1d, pad

from .. import can_launch, installed, interpreted, unwatched

NARROW = 64  # channels, up to which the kernels are for
HALVES = (torch.bfloat16, torch.float16)


def convolve(seen: list[Tensor], weight: Tensor, bias: Tensor | None, dilation: int, groups: int = 1) -> Tensor:
    """`seen`, joined (B, (k−1)·dilation + T, D), under `weight` (W, D / groups, k) → B T W."""
    dtype = precision(seen[0])
    if groups > 1 or not seen[0].is_cuda or dtype not in HALVES or not unwatched():
        turned = torch.cat([part.mT for part in seen], dim=2)  # as a library wants them: joined and turned in one copy
        return conv1d(turned, weight, bias, dilation=dilation, groups=groups).mT
    y: Tensor = Taps.apply(torch.cat(seen, dim=1).to(dtype), weight.to(dtype), dilation)
    return y if bias is None else y + bias.to(dtype)


def precision(x: Tensor) -> torch.dtype:
    """In what a product of x would be taken: autocast's dtype, but for float64, which it leaves alone."""
    if x.dtype != torch.float64 and torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    return x.dtype


class Taps(torch.autograd.Function):
    """y[t] = Σ_j W[j]·seen[t + j·dilation], and its gradients, which are sums of the same kind."""

    generate_vmap_rule = True

    @staticmethod
    def forward(seen: Tensor, weight: Tensor, dilation: int) -> Tensor:
        return correlated(seen, weight.permute(2, 1, 0), dilation)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        seen, weight, ctx.dilation = inputs
        ctx.save_for_backward(seen, weight)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        (slope,), (seen, weight) = outer, ctx.saved_tensors
        kernel, to_seen, to_weight = weight.shape[2], None, None
        if ctx.needs_input_grad[0]:  # the input at s was read by the outputs at s − j·dilation: the taps reversed
            to_seen = correlated(slope, weight.flip(2).permute(2, 0, 1), ctx.dilation, (kernel - 1) * ctx.dilation)
        if ctx.needs_input_grad[1]:
            to_weight = gathered(seen, slope, kernel, ctx.dilation).permute(2, 1, 0)
        return to_seen, to_weight, None


def correlated(x: Tensor, taps: Tensor, dilation: int, shift: int = 0) -> Tensor:
    """y[t] = Σ_j x[t + j·dilation − shift] taps[j], for taps (k D W); beyond its ends x (B S D) is zero."""
    if has_kernel(x, taps):
        from . import taps as narrow

        return narrow.correlated(x, taps, dilation, shift)
    x = pad(x, (0, 0, shift, shift)) if shift else x
    return side_by_side(x, len(taps), dilation) @ taps.reshape(-1, taps.shape[2])


def gathered(x: Tensor, slope: Tensor, kernel: int, dilation: int) -> Tensor:
    """Σ over rows and steps of x[t + j·dilation]ᵀ slope[t], for each tap j: k D W."""
    if has_kernel(x, slope):
        from . import taps as narrow

        return narrow.gathered(x, slope, kernel, dilation)
    rows, width = side_by_side(x, kernel, dilation), slope.shape[2]
    total = rows.reshape(-1, rows.shape[2]).mT @ slope.reshape(-1, width)
    return total.reshape(kernel, -1, width)


def side_by_side(x: Tensor, kernel: int, dilation: int) -> Tensor:
    """B S D → B T (kernel·D): what each output reads, the oldest first."""
    steps = x.shape[1] - (kernel - 1) * dilation
    return torch.cat([x[:, tap * dilation : tap * dilation + steps] for tap in range(kernel)], dim=-1)


def has_kernel(x: Tensor, other: Tensor) -> bool:
    """Few channels, and neither gradients of gradients nor many of them at once, of which a kernel knows nothing."""
    if torch.is_grad_enabled() or not unwatched() or max(x.shape[-1], other.shape[-1]) > NARROW:
        return False
    if is_legacy_batchedtensor(x) or is_legacy_batchedtensor(other):  # of autograd.grad's is_grads_batched
        return False
    known = x.dtype == other.dtype and x.dtype in (torch.float32, *HALVES)
    return known and (can_launch(x) or (interpreted() and installed()))
