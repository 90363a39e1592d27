"""float32 products of few rows on tensor cores: three TF32 products, which together are as exact as one of float32.

cuBLAS multiplies float32 on plain cores, in tiles so large that the products of a decoding step, of some hundred rows,
use a tenth of the GPU. Under `OnTensorCores` such products are computed here, wherever they are called. It is meant for
capture as a CUDA graph, since checking each call takes time of its own, and has no gradients.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.overrides import TorchFunctionMode

from . import can_launch, interpreted

FEWEST, MOST = 16, 4096  # rows that are worth it


class Tile(NamedTuple):
    """The tile of a program, rows of x by rows of W; used where there are at least `programs` of them."""

    tall: int
    wide: int
    block: int  # columns multiplied at a time
    warps: int
    stages: int
    programs: int


# On an H200 the fastest of some thirty, for 128 and 640 rows and the products of a decoding step.
TILES = (
    Tile(128, 64, 32, 8, 4, 264),
    Tile(64, 64, 64, 4, 3, 132),
    Tile(16, 64, 64, 4, 3, 250),
    Tile(16, 32, 64, 4, 3, 0),
)


@triton.jit(do_not_specialize=["rows"])
def multiply(
    x_at, weight_at, add_at, y_at, rows, count, size, x_row, weight_row, add_row, y_row,
    TALL: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """y = x Wᵀ + add: x has `rows` rows of `size` elements, W `count`; `…_row` is the stride of a row."""
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
    tile = next(tile for tile in TILES if programs(rows, count, tile) >= tile.programs)
    # An absent tensor is replaced by any other: it is never read.
    other = y if add is None else add
    with torch.cuda.device_of(x):
        multiply[(-(-count // tile.wide), -(-rows // tile.tall))](
            *(x, weight, other, y, rows, count, size),
            *(x.stride(0), weight.stride(0), 0 if other.dim() == 1 else other.stride(0), y.stride(0)),
            TALL=tile.tall,
            WIDE=tile.wide,
            BLOCK=tile.block,
            ADD=add is not None,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
    return y


def programs(rows: int, count: int, tile: Tile) -> int:
    return -(-rows // tile.tall) * -(-count // tile.wide)


def takes(x: Tensor, weight: Tensor, *others: Tensor | None) -> bool:
    """Whether x (… K) times Wᵀ (N K) is computed here: all float32, on one device, rows contiguous."""
    if x.dim() < 2 or weight.dim() != 2 or x.shape[-1] != weight.shape[1] or min(weight.shape) < FEWEST:
        return False
    if torch.is_autocast_enabled(x.device.type) or not (can_launch(x) or interpreted()):
        return False
    parts = [x, weight, *(other for other in others if other is not None)]
    alike = all(part.dtype == torch.float32 and part.device == x.device and part.stride(-1) == 1 for part in parts)
    return alike and FEWEST <= x.numel() // x.shape[-1] <= MOST


class OnTensorCores(TorchFunctionMode):
    """Replaces `linear`, `mm` and `addmm` of float32 by the product here, where it applies."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        found = None
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            pass
        elif func is torch.nn.functional.linear and not given:
            found = linear(*args)
        elif func is torch.mm and len(args) == 2 and not given.keys() - {"out"}:
            found = mm(*args, **given)
        elif func is torch.addmm and len(args) == 3 and not given.keys() - {"out"}:
            found = addmm(*args, **given)
        return func(*args, **given) if found is None else found


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if (bias is not None and bias.shape != weight.shape[:1]) or not takes(x, weight, bias):
        return None
    flat = x.reshape(-1, x.shape[-1])
    return product(flat, weight, bias, x.new_empty(len(flat), len(weight))).view(*x.shape[:-1], len(weight))


def mm(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor | None:
    return addmm(None, a, b, out)


def addmm(add: Tensor | None, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor | None:
    if a.dim() != 2 or b.dim() != 2:
        return None
    shape = len(a), b.shape[1]
    fits = (add is None or add.shape in (shape, shape[1:])) and (out is None or out.shape == shape)
    if not fits or not takes(a, b.mT, add, out):
        return None
    return product(a, b.mT, add, a.new_empty(shape) if out is None else out)
