"""TTT-linear over a whole chunk in a few kernels, which compute what `Ttt.mini_batch` defines.

    learn            W at each boundary, and z = k W + bias; one mini-batch after the other
    read             y of every mini-batch from its W and z; all at once
    read_backward    from the gradient of y to those of q and of what was read from; all at once
    learn_backward   the gradient of W at each boundary; one mini-batch after the other, from the last
    see_backward     from there to the gradients of k, v and the rate; all at once

Kernels that run in sequence have one program for each row and head, which holds W, or its gradient, on the chip; those
that run in parallel one for each mini-batch. A row starts at its own place in a mini-batch. Since all mini-batches but
the last are full, a gathered gradient enters only before the first and leaves only after the last.

docs/decisions/011-ttt-kernel.md derives the backward pass.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from .linear_backward import learn_backward, read_backward, see_backward
from .linear_forward import learn, read

WARPS = {16: 4, 32: 4, 64: 8, 128: 8}  # by the width of a tile
NARROW = {
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
    torch.float32: tl.float32,
    torch.float64: tl.float64,
}


class Inner(NamedTuple):
    """The inner model and the gradient gathered since the last boundary."""

    weight: Tensor  # B H d d
    bias: Tensor  # B H 1 d
    gathered: Tensor  # B H d d
    gathered_bias: Tensor  # B H 1 d


class Settings(NamedTuple):
    width: int  # of a head, without padding
    places: int  # b
    norm: bool
    biased: bool
    narrow: torch.dtype  # of the products

    def constants(self, size: int, *, waiting: bool = False) -> dict[str, Any]:
        """The compile-time constants of a kernel; `waiting`: one whose mini-batches run in sequence."""
        rows = max(16, triton.next_power_of_2(self.places))  # of a tile, at least what tensor cores need
        return {
            "SIZE": size,
            "WIDTH": self.width,
            "PLACES": self.places,
            "ROWS": rows,
            "NORM": self.norm,
            "BIASED": self.biased,
            "NARROW": NARROW[self.narrow],
            "num_warps": self.warps(size, rows, waiting),
            "num_stages": 2 if size < 128 else 1,  # two would not fit
            "enable_fp_fusion": True,
        }

    def warps(self, size: int, rows: int, waiting: bool) -> int:
        """Those of WARPS, but for heads of 64 and b ≤ 16 fewer, since sums over warps synchronise (measured)."""
        if (size, rows) != (64, 16):
            return WARPS[size]
        return 4 if waiting or self.narrow.itemsize > 2 else 2


def run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rate: Tensor,
    offset: Tensor,
    factors: Tensor,
    inner: Inner,
    norm: tuple[Tensor, Tensor] | None,
    biased: bool,
) -> tuple[Tensor, Inner]:
    """q, k, v: B H T d, rate: B H T 1, offset: B, each row's place in its mini-batch; factors: b; norm: H 1 d each.

    Returns f(q) of every step (B H T d) and the inner model after the last. Under autocast the products are taken in
    its dtype and summed in that of the inner model, else they are as exact as that. q, k and v may be narrower than
    the inner model.
    """
    kind = q.device.type
    narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else inner.weight.dtype
    width = q.shape[-1]
    missing = next(size for size in WARPS if size >= width) - width
    settings = Settings(width, factors.numel(), norm is not None, biased, narrow)
    model = [fill(part, missing, square) for part, square in zip(inner, (True, False) * 2, strict=True)]
    scale = [fill(part, missing) for part in norm] if norm is not None else (factors, factors)  # these are never read
    steps = (fill(part, missing) for part in (q, k, v))
    y, *after = Sequence.apply(*steps, rate, offset, factors, *model, *scale, settings)
    if missing:  # drop the padding
        y, sizes = y[..., :width], (width, 1) * 2
        kept = (part[..., :rows, :width] for part, rows in zip(after, sizes, strict=True))
        after = [part.clone(memory_format=torch.contiguous_format) for part in kept]
    return y, Inner(*after)


def fill(x: Tensor, missing: int, square: bool = False) -> Tensor:
    """x padded with zeros to whole tiles: its columns and, where it is square, its rows."""
    return pad(x, (0, missing, 0, missing if square else 0)) if missing else x


class Sequence(torch.autograd.Function):
    """The kernels of a chunk, forward and backward."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        *tensors, settings = arguments
        q, k, v, rate = (by_step(t) for t in tensors[:4])
        offset, factors, weight, bias, gathered, gathered_bias, gamma, beta = (t.contiguous() for t in tensors[4:])
        batch, steps, heads, size = q.shape
        count = -(-(steps + settings.places - 1) // settings.places)
        kept = weight.new_empty(batch, heads, count, size, size, dtype=settings.narrow)  # only ever multiplied
        kept_bias = bias.new_empty(batch, heads, count, *bias.shape[2:])
        z, y = (torch.empty_like(q, dtype=weight.dtype) for _ in range(2))
        after = torch.empty_like(weight), torch.empty_like(bias), torch.zeros_like(weight), torch.zeros_like(bias)
        seen = k, v, rate, offset, factors, gathered, gathered_bias, gamma, beta, kept, kept_bias, z
        sizes, constants = (steps, heads, count), settings.constants(size)
        waiting = settings.constants(size, waiting=True)
        with torch.cuda.device_of(q):
            learn[(batch * heads,)](*seen, weight, bias, *after, *sizes, **waiting)
            read[(batch * heads, count)](*seen, q, y, *sizes, **constants)
        ctx.save_for_backward(*seen, q)
        ctx.settings, ctx.dtypes = settings, [t.dtype for t in tensors]
        return y.transpose(1, 2), *after

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError(
                "ttt-linear: expected a first derivative, found create_graph=True; for a second one take layer.unroll"
            )
        *seen, q = ctx.saved_tensors
        k, v, rate, _, factors, gathered, gathered_bias, _, _, kept, kept_bias, z = seen
        batch, heads, count, size, _ = kept.shape
        every, rows = (batch * heads, count), (batch * heads,)
        sizes, constants = (q.shape[1], heads, count), ctx.settings.constants(size)
        waiting = ctx.settings.constants(size, waiting=True)
        dq, dk, dv, drate = (torch.empty_like(t) for t in (q, k, v, rate))
        dk_read, dread, dh, dkept, dkept_bias = (torch.empty_like(t) for t in (z, z, z, kept, kept_bias))
        dfirst = torch.empty_like(gathered)  # the first of dkept, which is not only multiplied
        dmodel, dgathered = ([torch.empty_like(t) for t in (gathered, gathered_bias)] for _ in range(2))
        # Parts of sums over mini-batches and rows: added up in one order, however the programs run.
        parts = [kept_bias.new_zeros(batch, heads, count, n) for n in (factors.numel(), size, size)]
        dy, dafter = by_step(gradients[0]), [t.contiguous() for t in gradients[1:]]
        with torch.cuda.device_of(q):
            read_backward[every](*seen, q, dy, dq, dk_read, dread, dh, *dgathered, *parts, *sizes, **constants)
            learn_backward[rows](*seen, q, dread, dh, dkept, dkept_bias, dfirst, *dafter, *dmodel, *sizes, **waiting)
            see_backward[every](
                *(*seen, dh, dkept, dkept_bias, dfirst, dk_read, dk, dv, drate, *dgathered, *parts, *sizes), **constants
            )
        dfactors, *dnorm = parts
        found = [
            *(t.transpose(1, 2) for t in (dq, dk, dv, drate)),
            None,
            dfactors.sum(dim=(0, 1, 2)),
            *dmodel,
            *dgathered,
            *(t.sum(dim=(0, 2))[:, None] if ctx.settings.norm else None for t in dnorm),
        ]
        return *(None if t is None else t.to(dtype) for t, dtype in zip(found, ctx.dtypes, strict=True)), None


def by_step(x: Tensor) -> Tensor:
    """B H T d → B T H d, the layout of projections, so that nothing is copied."""
    return x.transpose(1, 2).contiguous()
