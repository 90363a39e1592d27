"""float32 products of some rows on tensor cores: three of TF32 make one that is as exact.

A library multiplies float32 on plain cores, in tiles so large that the products of a decoding step, of some hundred
rows, keep a tenth of the GPU busy. Under `OnTensorCores` such products are made here, wherever they are called. It is
meant for what is captured as a CUDA graph, since looking at each call takes time of its own, and knows no gradients.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.overrides import TorchFunctionMode

FEWEST, MOST = 16, 4096  # rows that are worth it
BUSY = 132  # programs
TILES = ((64, 64), (32, 64), (32, 32), (16, 32))  # rows of x by rows of W: the largest that keep the GPU busy


@triton.jit(do_not_specialize=["rows"])
def multiply(
    x_at, weight_at, add_at, y_at, rows, count, size, x_row, weight_row, add_row, y_row,
    TALL: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """y = x Wᵀ + add: x has `rows` rows of `size` numbers, W `count`; a row begins so many numbers after the last."""
    row = tl.program_id(1) * TALL + tl.arange(0, TALL)
    column = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    place = tl.arange(0, BLOCK)
    total = tl.zeros([TALL, WIDE], tl.float32)
    for first in range(0, size, BLOCK):
        at = first + place
        x = tl.load(
            x_at + row[:, None].to(tl.int64) * x_row + at[None, :],
            mask=(row < rows)[:, None] & (at < size)[None, :],
            other=0,
        )
        weight = tl.load(
            weight_at + column[None, :].to(tl.int64) * weight_row + at[:, None],
            mask=(column < count)[None, :] & (at < size)[:, None],
            other=0,
        )
        total = tl.dot(x, weight, total, input_precision="tf32x3")
    inside = (row < rows)[:, None] & (column < count)[None, :]
    if ADD:
        total += tl.load(add_at + row[:, None].to(tl.int64) * add_row + column[None, :], mask=inside, other=0)
    tl.store(y_at + row[:, None].to(tl.int64) * y_row + column[None, :], total, mask=inside)


def product(x: Tensor, weight: Tensor, add: Tensor | None, y: Tensor) -> Tensor:
    """y (B N) = x (B K) Wᵀ (N K) + add (N, or B N), which may be y itself."""
    rows, size = x.shape
    count = len(weight)
    tall, wide = next((tile for tile in TILES if tiles(rows, count, tile) >= BUSY), TILES[-1])
    # In the place of a tensor that is not there any will do: it is never read.
    other = y if add is None else add
    with torch.cuda.device_of(x):
        multiply[(-(-count // wide), -(-rows // tall))](
            *(x, weight, other, y, rows, count, size),
            *(x.stride(0), weight.stride(0), 0 if other.dim() == 1 else other.stride(0), y.stride(0)),
            TALL=tall,
            WIDE=wide,
            BLOCK=32,
            ADD=add is not None,
            num_warps=4,
            num_stages=4,
        )
    return y


def tiles(rows: int, count: int, tile: tuple[int, int]) -> int:
    return -(-rows // tile[0]) * -(-count // tile[1])


def takes(x: Tensor, weight: Tensor, *others: Tensor | None) -> bool:
    """Whether a product of such rows is made here: all in float32, numbers of a row side by side."""
    parts = [x, weight, *(other for other in others if other is not None)]
    whole = all(part.dtype == torch.float32 and part.stride(-1) == 1 for part in parts)
    rows = x.numel() // max(1, x.shape[-1])
    return whole and weight.dim() == 2 and FEWEST <= rows <= MOST and min(weight.shape) >= FEWEST


class OnTensorCores(TorchFunctionMode):
    """Takes `linear`, `mm` and `addmm` of float32 over."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        found = None
        if torch.is_grad_enabled():
            pass
        elif func is torch.nn.functional.linear and not given:
            found = linear(*args)
        elif func is torch.mm and len(args) == 2 and not given.keys() - {"out"}:
            found = mm(*args, **given)
        elif func is torch.addmm and len(args) == 3 and not given.keys() - {"out"}:
            found = addmm(*args, **given)
        return func(*args, **given) if found is None else found


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if x.dim() < 2 or not takes(x, weight, bias):
        return None
    flat = x.reshape(-1, x.shape[-1])
    return product(flat, weight, bias, x.new_empty(len(flat), len(weight))).view(*x.shape[:-1], len(weight))


def mm(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor | None:
    if not takes(a, b.mT, out):
        return None
    return product(a, b.mT, None, a.new_empty(len(a), b.shape[1]) if out is None else out)


def addmm(add: Tensor, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor | None:
    if not takes(a, b.mT, add, out) or add.shape not in ((len(a), b.shape[1]), (b.shape[1],)):
        return None
    return product(a, b.mT, add, a.new_empty(len(a), b.shape[1]) if out is None else out)
