"""Kernels of convolutions over time with at most 64 channels, which read their taps without unfolding the input.

Unfolded, the k inputs that an output reads are k times as large as the input, and for few channels writing them costs
most of the time. Here a program has the steps of a tile and reads tap after tap from the input itself, which the cache
holds. Steps before the first and after the last count as zeros, so that the gradient, a sum of the same kind, needs no
padding.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

TALL = 64  # steps of a tile: with more, the registers of a wide one run out
PROGRAMS = 528  # that share the sum over all steps: four for each multiprocessor of an H200


@triton.jit(do_not_specialize=["shift", "dilation"])
def correlate_kernel(
    x_at, taps_at, y_at, x_steps, y_steps, size, width, x_row, x_step, shift, dilation,
    KERNEL: tl.constexpr, TALL: tl.constexpr, SIZE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y[t] = Σ_j x[t + j·dilation − shift] taps[j]; x_row and x_step are the strides of x."""
    tiles = tl.cdiv(y_steps, TALL)
    row = (tl.program_id(0) // tiles).to(tl.int64)
    step = tl.program_id(0) % tiles * TALL + tl.arange(0, TALL)
    channel, column = tl.arange(0, SIZE), tl.arange(0, WIDE)
    total = tl.zeros([TALL, WIDE], tl.float32)
    for tap in range(KERNEL):
        at = step + tap * dilation - shift
        x = tl.load(
            x_at + row * x_row + at[:, None] * x_step + channel[None, :],
            mask=((at >= 0) & (at < x_steps))[:, None] & (channel < size)[None, :],
            other=0,
        )
        taps = tl.load(
            taps_at + (tap * size + channel[:, None]) * width + column[None, :],
            mask=(channel < size)[:, None] & (column < width)[None, :],
            other=0,
        )
        total = tl.dot(x, taps, total, input_precision="tf32x3")
    inside = (step < y_steps)[:, None] & (column < width)[None, :]
    tl.store(y_at + (row * y_steps + step[:, None]) * width + column[None, :], total, mask=inside)


@triton.jit(do_not_specialize=["dilation", "batch"])
def correlate_inputs_kernel(
    x_at, grad_y_at, parts_at, batch, steps, size, width, x_row, x_step, dilation,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A partial sum of Σ_t x[t + j·dilation]ᵀ grad_y[t]; a program takes every `shares`-th tile."""
    share, shares, tap = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    tiles = tl.cdiv(steps, TALL)
    channel, column = tl.arange(0, SIZE), tl.arange(0, WIDE)
    total = tl.zeros([SIZE, WIDE], tl.float32)
    for tile in range(share, batch * tiles, shares):
        row = (tile // tiles).to(tl.int64)
        step = tile % tiles * TALL + tl.arange(0, TALL)
        there = (step < steps)[:, None]
        x = tl.load(
            x_at + row * x_row + (step + tap * dilation)[:, None] * x_step + channel[None, :],
            mask=there & (channel < size)[None, :],
            other=0,
        )
        grad_y = tl.load(
            grad_y_at + (row * steps + step[:, None]) * width + column[None, :],
            mask=there & (column < width)[None, :],
            other=0,
        )
        total = tl.dot(tl.trans(x), grad_y, total, input_precision="tf32x3")
    here = ((share * tl.num_programs(1) + tap) * size + channel[:, None]) * width + column[None, :]
    tl.store(parts_at + here, total, mask=(channel < size)[:, None] & (column < width)[None, :])


def correlate(x: Tensor, taps: Tensor, dilation: int, shift: int) -> Tensor:
    """The correlation of x (B S D), with `shift` zeros on each side, with taps (k D W): B T W."""
    x = x if x.stride(2) == 1 else x.contiguous()
    (batch, given, size), (kernel, _, width) = x.shape, taps.shape
    steps = given + 2 * shift - (kernel - 1) * dilation
    y = x.new_empty(batch, steps, width)
    with torch.cuda.device_of(x):
        correlate_kernel[(batch * -(-steps // TALL),)](
            *(x, taps.contiguous(), y, given, steps, size, width, x.stride(0), x.stride(1), shift, dilation),
            KERNEL=kernel,
            TALL=TALL,
            SIZE=tile_of(size),
            WIDE=tile_of(width),
            num_warps=8 if tile_of(max(size, width)) == 64 else 4,
        )
    return y


def correlate_inputs(x: Tensor, grad_y: Tensor, kernel: int, dilation: int) -> Tensor:
    """Σ over rows and steps of x[t + j·dilation]ᵀ grad_y[t]: k D W, the parts added in one order however they ran."""
    x, grad_y = x if x.stride(2) == 1 else x.contiguous(), grad_y.contiguous()
    (batch, steps, width), size = grad_y.shape, x.shape[2]
    shares = max(1, min(PROGRAMS // kernel, batch * -(-steps // TALL)))
    parts = x.new_empty(shares, kernel, size, width, dtype=torch.float32)
    with torch.cuda.device_of(x):
        correlate_inputs_kernel[(shares, kernel)](
            *(x, grad_y, parts, batch, steps, size, width, x.stride(0), x.stride(1), dilation),
            TALL=TALL,
            SIZE=tile_of(size),
            WIDE=tile_of(width),
            num_warps=8 if tile_of(max(size, width)) == 64 else 4,
        )
    return parts.sum(dim=0).to(grad_y.dtype)


def tile_of(channels: int) -> int:
    """The width of a tile for so many channels: a power of 2, at least 16, as tensor cores need."""
    return max(16, triton.next_power_of_2(channels))
