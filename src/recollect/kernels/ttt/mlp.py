"""TTT-mlp over a whole chunk in a few kernels, which compute what `Ttt.mini_batch` defines.

    learn            the inner model at each boundary; one mini-batch after the other
    read             y of every mini-batch from its model, and the gradient gathered by an incomplete one; all at once
    read_backward    from the gradient of y to those of q and of what was read from; all at once
    learn_backward   the gradient of the model at each boundary, and so those of k, v and the rate; one mini-batch after
                     the other, from the last

It is linear.py with one more layer. Saved for the backward pass are the inputs and the model at each boundary; all else
is recomputed. docs/decisions/017-ttt-mlp-kernel.md derives the backward pass.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.nn.functional import pad

from .linear import NARROW, by_step
from .mlp_backward import learn_backward, read_backward
from .mlp_forward import learn, read

# Columns of the hidden layer in a tile, in kernels where mini-batches run in sequence and in those where they run in
# parallel: wider tiles need fewer barriers, narrower ones fewer registers.
WAITING, APART = 128, 64


class Inner(NamedTuple):
    """The inner model, or a gradient of it."""

    up: Tensor  # B H d hidden
    down: Tensor  # B H hidden d
    up_bias: Tensor  # B H 1 hidden
    down_bias: Tensor  # B H 1 d


class Settings(NamedTuple):
    width: int  # of a head, without padding
    places: int  # b
    norm: bool
    biased: bool
    narrow: torch.dtype  # of the products

    def constants(self, size: int, hidden: int, tile: int, ahead: bool = False) -> dict[str, Any]:
        """The compile-time constants of a kernel; tiles have at least 16 rows, as tensor cores need.

        `ahead`: a mini-batch is loaded while the last is computed, where shared memory has room for both.
        """
        rows = room(self.places)
        return {
            "SIZE": size,
            "HIDDEN": hidden,
            "TILE": min(hidden, tile),
            "WIDTH": self.width,
            "PLACES": self.places,
            "ROWS": rows,
            "NORM": self.norm,
            "BIASED": self.biased,
            "NARROW": NARROW[self.narrow],
            "num_warps": 8 if size * hidden > 4096 or rows * hidden >= 4096 else 4,
            "num_stages": 2 if ahead and rows == 16 and self.narrow.itemsize == 2 else 1,
        }


def run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rate: Tensor,
    offset: Tensor,
    factors: Tensor,
    model: Inner,
    gathered: Inner,
    norm: tuple[Tensor, Tensor] | None,
    biased: bool,
) -> tuple[Tensor, Inner, Inner]:
    """q, k, v: B H T d, rate: B H T 1, offset: B, each row's place in its mini-batch; factors: b; norm: H 1 d each.

    Returns f(q) of every step (B H T d), and the inner model and the gathered gradient after the last. Under autocast
    the products are taken in its dtype and summed in that of the inner model, else they are as exact as that. q, k and
    v may be narrower than the inner model.
    """
    kind = q.device.type
    narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else model.up.dtype
    width, hidden = model.up.shape[-2:]
    settings = Settings(width, factors.numel(), norm is not None, biased, narrow)
    scale = [fill(part, 1, width) for part in norm] if norm is not None else (factors, factors)  # these are never read
    shapes = (width, hidden), (hidden, width), (1, hidden), (1, width)
    inner = (fill(part, *shape) for part, shape in zip((*model, *gathered), shapes * 2, strict=True))
    steps = (fill(part, 1, width) for part in (q, k, v))
    y, *after = Sequence.apply(*steps, rate, offset, factors, *inner, *scale, settings)
    if room(width) > width or room(hidden) > hidden:  # drop the padding
        y, kept = y[..., :width], (part[..., :i, :o] for part, (i, o) in zip(after, shapes * 2, strict=True))
        after = [part.clone(memory_format=torch.contiguous_format) for part in kept]
    return y, Inner(*after[:4]), Inner(*after[4:])


def room(width: int) -> int:
    """The width of the tile that holds so many columns."""
    return max(16, triton.next_power_of_2(width))


def fill(x: Tensor, rows: int, columns: int) -> Tensor:
    """x padded with zeros to whole tiles: its columns and, where it has more than one, its rows."""
    missing = room(columns) - columns, room(rows) - rows if rows > 1 else 0
    return pad(x, (0, missing[0], 0, missing[1])) if any(missing) else x


class Sequence(torch.autograd.Function):
    """The kernels of a chunk, forward and backward."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        *tensors, settings = arguments
        q, k, v, rate = (by_step(t) for t in tensors[:4])
        offset, factors, *inner = (t.contiguous() for t in tensors[4:])
        model, gathered, norm = inner[:4], inner[4:8], inner[8:]
        batch, steps, heads, size = q.shape
        count = -(-(steps + settings.places - 1) // settings.places)
        # The weights at each boundary are only ever multiplied.
        dtypes = settings.narrow, settings.narrow, None, None
        kept = [
            t.new_empty(batch, heads, count, *t.shape[2:], dtype=d or t.dtype)
            for t, d in zip(model, dtypes, strict=True)
        ]
        y = torch.empty_like(q, dtype=model[0].dtype)
        after, gathered_after = [torch.empty_like(t) for t in model], [torch.zeros_like(t) for t in gathered]
        seen = k, v, rate, offset, factors, *gathered, *norm, *kept
        sizes, widths = (steps, heads, count), (size, model[0].shape[-1])
        with torch.cuda.device_of(q):
            learn[(batch * heads,)](*seen, *model, *after, *sizes, **settings.constants(*widths, WAITING))
            read[(batch * heads, count)](*seen, q, y, *gathered_after, *sizes, **settings.constants(*widths, APART))
        ctx.save_for_backward(*seen, q)
        ctx.settings, ctx.dtypes = settings, [t.dtype for t in tensors]
        return y.transpose(1, 2), *after, *gathered_after

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError(
                "ttt-mlp: expected a first derivative, found create_graph=True; for a second one take layer.unroll"
            )
        *seen, q = ctx.saved_tensors
        k, v, rate, offset, factors = seen[:5]
        gathered, norm, kept = seen[5:9], seen[9:11], seen[11:]
        batch, heads, count, size, hidden = kept[0].shape
        every, rows = (batch * heads, count), (batch * heads,)
        sizes, constants = (q.shape[1], heads, count), ctx.settings.constants(size, hidden, APART)
        wide, narrow = gathered[0].dtype, ctx.settings.narrow
        dy, *dafter = by_step(gradients[0]), *(t.contiguous() for t in gradients[1:])
        dq, dk, dv, drate = (torch.empty_like(t) for t in (q, k, v, rate))
        dread, dh, dk_read = (torch.empty_like(q, dtype=wide) for _ in range(3))
        dlift, dmet = (q.new_empty(*q.shape[:3], hidden, dtype=wide) for _ in range(2))
        hidden_of_q, dlow = (q.new_empty(*q.shape[:3], hidden, dtype=narrow) for _ in range(2))  # only ever multiplied
        dlow_sum = torch.empty_like(kept[2])
        left = hidden_of_q, dlow, dlow_sum, dread, dlift, dh, dmet, dk_read
        dgathered = [torch.empty_like(t) for t in gathered]
        dmodel = [t.new_empty(2, *t.shape) for t in gathered]  # before the first mini-batch, and after it
        # Parts of sums over mini-batches and rows: added up in one order, however the programs run.
        parts = [dlow_sum.new_zeros(batch, heads, count, n) for n in (factors.numel(), size, size)]
        own = [dlow_sum.new_zeros(batch, heads, n) for n in (constants["ROWS"], size, size)]
        with torch.cuda.device_of(q):
            read_backward[every](*seen, q, dy, *dafter[4:], *left, dq, *dgathered, *parts, *sizes, **constants)
            learn_backward[rows](
                *(k, v, rate, offset, factors, *norm, *kept, q, *left, *dafter[:4]),
                *(dk, dv, drate, *dmodel, *own, *sizes),
                **ctx.settings.constants(size, hidden, WAITING, ahead=True),
            )
        dfactors, dlast = parts[0].sum(dim=(0, 1, 2)), own[0].sum()
        # Where the first mini-batch ended at a boundary, the gradient gathered before it went into the model.
        full = (offset + q.shape[1] >= factors.numel())[:, None, None, None]
        for into, (_, after), g in zip(dgathered, dmodel, gathered, strict=True):
            into -= factors[-1] * full * after
            dlast = dlast - (full * after * g).sum()
        dfactors[-1] += dlast
        found = [
            *(t.transpose(1, 2) for t in (dq, dk, dv, drate)),
            None,
            dfactors,
            *(before.clone() for before, _ in dmodel),  # not a view that keeps the other
            *dgathered,
            *(
                (part.sum(dim=(0, 2)) + rest.sum(dim=0))[:, None] if ctx.settings.norm else None
                for part, rest in zip(parts[1:], own[1:], strict=True)
            ),
        ]
        return *(None if t is None else t.to(dtype) for t, dtype in zip(found, ctx.dtypes, strict=True)), None
