"""Kernels for the products of one step: y = act(norm(x) Wᵀ + b) + residual for a few rows of x.

Such a product is bound by reading W once, so what counts is how early its loads begin and how many are in flight.

    by_sum   a few rows of x: each warp has a row of W, or with wide blocks a share of it, multiplies and sums
    by_dot   more rows of x: the warps share the columns, each gives a product of its own to tensor cores, and those
             are summed; one warp that went through all columns would wait for each product before the next

Every program norms the rows of x itself, which costs less than passing them on. Everything in a program is loaded
at once, so W lies in registers, unlooped.

With OVERLAP a program starts while the kernel before it still runs, loads its part of W, and only then waits for
that kernel to have ended. It lets the next kernel start after its own wait, not before: so what a kernel reads before
its wait may come from any kernel but the one just before it, and W must not be the work of that one.
"""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportPossiblyUnboundVariable=false

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ..activations import tanh


@triton.jit
def by_sum(
    x_at, gain_at, shift_at, weight_at, bias_at, residual_at, y_at, eps, count,
    BATCH: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    NORM: tl.constexpr, GAIN: tl.constexpr, SHIFT: tl.constexpr, BIAS: tl.constexpr, ADD: tl.constexpr,
    ACTIVATION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """`count` rows of W, ROWS a program, for all BATCH rows of x; each has SIZE columns, BLOCK loaded in one go.

    x, gain and shift are loaded as wide as W, each row the same, so that no number moves between warps.
    """
    TURNS: tl.constexpr = (SIZE + BLOCK - 1) // BLOCK
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = row < count
    column = tl.zeros([ROWS, 1], tl.int32) + tl.arange(0, BLOCK)[None, :]
    begin = row.to(tl.int64)[:, None] * SIZE
    weights = ()
    for turn in tl.static_range(TURNS):
        inside = there[:, None] & (column + turn * BLOCK < SIZE) if SIZE % BLOCK else there[:, None]
        weights += (tl.load(weight_at + begin + column + turn * BLOCK, mask=inside, other=0),)
    gains, shifts = (), ()
    for turn in tl.static_range(TURNS):
        if GAIN:
            gains += (load_row(gain_at, column + turn * BLOCK, SIZE, BLOCK),)
        if SHIFT:
            shifts += (load_row(shift_at, column + turn * BLOCK, SIZE, BLOCK),)
    if BIAS:
        bias = tl.load(bias_at + row, mask=there, other=0)
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()
    parts, residuals = (), ()
    for b in tl.static_range(BATCH):
        for turn in tl.static_range(TURNS):
            parts += (load_row(x_at + b * SIZE, column + turn * BLOCK, SIZE, BLOCK),)
        if ADD:
            residuals += (tl.load(residual_at + b * count + row, mask=there, other=0),)
    for b in tl.static_range(BATCH):
        mean = tl.zeros([ROWS], tl.float32)
        rate = tl.full([ROWS], 1, tl.float32)
        if NORM == "layer":
            total = tl.zeros([ROWS, BLOCK], tl.float32)
            for turn in tl.static_range(TURNS):
                total += parts[b * TURNS + turn].to(tl.float32)
            mean = tl.sum(total, 1) / SIZE
        if NORM != "none":
            square = tl.zeros([ROWS, BLOCK], tl.float32)
            for turn in tl.static_range(TURNS):
                centred = centre(parts[b * TURNS + turn], mean, column + turn * BLOCK, SIZE, BLOCK)
                square += centred * centred
            rate = tl.rsqrt(tl.sum(square, 1) / SIZE + eps)
        total = tl.zeros([ROWS, BLOCK], tl.float32)
        for turn in tl.static_range(TURNS):
            value = centre(parts[b * TURNS + turn], mean, column + turn * BLOCK, SIZE, BLOCK) * rate[:, None]
            if GAIN:
                value = value * gains[turn].to(tl.float32)
            if SHIFT:
                value += shifts[turn].to(tl.float32)
            total += value * weights[turn].to(tl.float32)
        y = tl.sum(total, 1)
        if BIAS:
            y += bias.to(tl.float32)
        y = activate(y, ACTIVATION)
        if ADD:
            y += residuals[b].to(tl.float32)
        tl.store(y_at + b * count + row, y.to(y_at.dtype.element_ty), mask=there)


@triton.jit
def by_dot(
    x_at, gain_at, shift_at, weight_at, bias_at, residual_at, y_at, eps, count, batch,
    SIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, TALL: tl.constexpr, PARTS: tl.constexpr,
    NORM: tl.constexpr, GAIN: tl.constexpr, SHIFT: tl.constexpr, BIAS: tl.constexpr, ADD: tl.constexpr,
    ACTIVATION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """ROWS rows of W and TALL rows of x a program; BLOCK columns in one go, a share of them for each of PARTS warps."""
    SHARE: tl.constexpr = BLOCK // PARTS
    TURNS: tl.constexpr = (SIZE + BLOCK - 1) // BLOCK
    narrow = weight_at.dtype.element_ty
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    b = tl.program_id(1) * TALL + tl.arange(0, TALL)
    there, mine = row < count, b < batch
    column = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, None, :]
    begin = row.to(tl.int64)[None, :, None] * SIZE
    weights = ()
    for turn in tl.static_range(TURNS):
        inside = there[None, :, None]
        inside = inside & (column + turn * BLOCK < SIZE) if SIZE % BLOCK else inside
        weights += (tl.load(weight_at + begin + column + turn * BLOCK, mask=inside, other=0),)
    gains, shifts = (), ()
    for turn in tl.static_range(TURNS):
        if GAIN:
            gains += (load_row(gain_at, column + turn * BLOCK, SIZE, BLOCK),)
        if SHIFT:
            shifts += (load_row(shift_at, column + turn * BLOCK, SIZE, BLOCK),)
    if BIAS:
        bias = tl.load(bias_at + row, mask=there, other=0)
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()
    parts = ()
    if NORM != "none":
        for turn in tl.static_range(TURNS):
            parts += (load_rows(x_at, b, column + turn * BLOCK, mine, SIZE, BLOCK),)
    mean = tl.zeros([TALL], tl.float32)
    rate = tl.full([TALL], 1, tl.float32)
    if NORM == "layer":
        total = tl.zeros([PARTS, TALL, SHARE], tl.float32)
        for turn in tl.static_range(TURNS):
            total += parts[turn].to(tl.float32)
        mean = tl.sum(tl.sum(total, 2), 0) / SIZE
    if NORM != "none":
        square = tl.zeros([PARTS, TALL, SHARE], tl.float32)
        for turn in tl.static_range(TURNS):
            centred = centre_rows(parts[turn], mean, column + turn * BLOCK, SIZE, BLOCK)
            square += centred * centred
        rate = tl.rsqrt(tl.sum(tl.sum(square, 2), 0) / SIZE + eps)
    products = tl.zeros([PARTS, TALL, ROWS], tl.float32)
    for turn in tl.static_range(TURNS):
        if NORM == "none":
            x = load_rows(x_at, b, column + turn * BLOCK, mine, SIZE, BLOCK)
        else:
            x = centre_rows(parts[turn], mean, column + turn * BLOCK, SIZE, BLOCK) * rate[None, :, None]
        if GAIN:
            x = x * gains[turn].to(tl.float32)
        if SHIFT:
            x = x + shifts[turn].to(tl.float32)
        weight = tl.permute(weights[turn], (0, 2, 1))
        products = tl.dot(x.to(narrow), weight, products, input_precision="tf32x3")
    y = tl.sum(products, 0)
    if BIAS:
        y += bias.to(tl.float32)[None, :]
    y = activate(y, ACTIVATION)
    cells = b[:, None] * count + row[None, :]
    inside = mine[:, None] & there[None, :]
    if ADD:
        y += tl.load(residual_at + cells, mask=inside, other=0).to(tl.float32)
    tl.store(y_at + cells, y.to(y_at.dtype.element_ty), mask=inside)


@triton.jit
def load_row(at, column, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    if SIZE % BLOCK:
        return tl.load(at + column, mask=column < SIZE, other=0)
    else:
        return tl.load(at + column)


@triton.jit
def load_rows(at, row, column, mine, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    inside = mine[None, :, None]
    inside = inside & (column < SIZE) if SIZE % BLOCK else inside
    return tl.load(at + row[None, :, None] * SIZE + column, mask=inside, other=0)


@triton.jit
def centre(x, mean, column, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """x − mean, and 0 beyond the last column."""
    centred = x.to(tl.float32) - mean[:, None]
    return tl.where(column < SIZE, centred, 0) if SIZE % BLOCK else centred


@triton.jit
def centre_rows(x, mean, column, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    centred = x.to(tl.float32) - mean[None, :, None]
    return tl.where(column < SIZE, centred, 0) if SIZE % BLOCK else centred


@triton.jit
def activate(y, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu":
        return 0.5 * y * (1 + tl.erf(y * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":
        return 0.5 * y * (1 + tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)))
    elif ACTIVATION == "relu":
        return tl.maximum(y, 0)
    else:
        return y
