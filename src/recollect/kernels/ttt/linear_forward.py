"""The forward kernels of TTT-linear, and functions shared with the backward ones.

Symbols as in layers/ttt.py: g = ∂ℓ/∂z, h = η·g, A = q·kᵀ (+ 1 for the bias) up to the diagonal. `…_at` points to a
tensor, `…_out` to a part of the state after the chunk. Steps are laid out as B T H d, all else as B H …; a program is
one row and head, `first` the offset of its first step, `matrix` and `vector` those of its d·d and d elements. Of d =
SIZE columns those from WIDTH on are zeros that pad a tile; only a norm depends on that. Where mini-batches run in
sequence, the inputs of the next are loaded while one is computed.
"""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false

import triton
import triton.language as tl


@triton.jit
def learn(
    k_at, v_at, rate_at, offset_at, factors_at, gathered_at, gathered_bias_at, gamma_at, beta_at, kept_at, kept_bias_at,
    z_at, weight_at, bias_at, weight_out, bias_out, gathered_out, gathered_bias_out, steps, heads, count,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr, ROWS: tl.constexpr,
    NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    wide = kept_bias_at.dtype.element_ty
    program, head, first, matrix, vector, square = locate_program(steps, heads, SIZE)
    place, column = tl.arange(0, ROWS), tl.arange(0, SIZE)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM, wide)
    last = tl.load(factors_at + PLACES - 1).to(wide)
    weight, bias = tl.load(weight_at + matrix + square), tl.load(bias_at + vector + column)
    offset = tl.load(offset_at + program // heads).to(tl.int32)
    end = offset + steps
    k, v, rate = load_pair(0, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide)
    for i in range(tl.cdiv(end, PLACES)):
        k_next, v_next, rate_next = load_pair(
            i + 1, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide
        )
        _, _, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
        tl.store(kept_at + matrix * count + i * SIZE * SIZE + square, weight)
        tl.store(kept_bias_at + vector * count + i * SIZE + column, bias)
        z = product(k, weight, NARROW) + bias[None, :]
        tl.store(z_at + first * SIZE + cells, z, mask=there)
        h = rate * inner_slope(k, v, z, gamma, beta, SIZE, WIDTH, NORM)[0]
        total, total_bias = product(tl.trans(k), h, NARROW), tl.sum(h, 0) * BIASED
        if i == 0:
            total += tl.load(gathered_at + matrix + square)
            total_bias += tl.load(gathered_bias_at + vector + column)
        if (i + 1) * PLACES <= end:
            weight, bias = weight - last * total, bias - last * total_bias
        else:
            tl.store(gathered_out + matrix + square, total)
            tl.store(gathered_bias_out + vector + column, total_bias)
        k, v, rate = k_next, v_next, rate_next
    tl.store(weight_out + matrix + square, weight)
    tl.store(bias_out + vector + column, bias)


@triton.jit
def read(
    k_at, v_at, rate_at, offset_at, factors_at, gathered_at, gathered_bias_at, gamma_at, beta_at, kept_at, kept_bias_at,
    z_at, q_at, y_at, steps, heads, count,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr, ROWS: tl.constexpr,
    NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    wide = kept_bias_at.dtype.element_ty
    program, head, first, matrix, vector, square = locate_program(steps, heads, SIZE)
    i, offset = tl.program_id(1), tl.load(offset_at + program // heads).to(tl.int32)
    if i * PLACES >= offset + steps:
        return
    place, column = tl.arange(0, ROWS), tl.arange(0, SIZE)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM, wide)
    factors = tl.load(factors_at + place, mask=place < PLACES, other=0).to(wide)[:, None]
    weight = tl.load(kept_at + matrix * count + i * SIZE * SIZE + square)
    bias = tl.load(kept_bias_at + vector * count + i * SIZE + column)
    _, _, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
    q = tl.load(q_at + first * SIZE + cells, mask=there, other=0).to(wide)
    z = tl.load(z_at + first * SIZE + cells, mask=there, other=0)
    k, v, rate = load_pair(i, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide)
    h = rate * inner_slope(k, v, z, gamma, beta, SIZE, WIDTH, NORM)[0]
    moved = product(attend(q, k, place, BIASED, NARROW), h, NARROW)
    if i == 0:
        moved += product(q, tl.load(gathered_at + matrix + square), NARROW)
        moved += tl.load(gathered_bias_at + vector + column)[None, :]
    y = product(q, weight, NARROW) + bias[None, :] - factors * moved
    if NORM:
        y = q + normalise(y, SIZE, WIDTH)[0] * gamma + beta
    tl.store(y_at + first * SIZE + cells, y, mask=there)


@triton.jit
def locate_program(steps, heads, SIZE: tl.constexpr):
    """This program's number and head, the offsets of its first step, matrix and vector, and of a matrix's elements."""
    program = tl.program_id(0).to(tl.int64)  # tensors of many matrices are long
    row, head = program // heads, program % heads
    square = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    return program, head, row * steps * heads + head, program * SIZE * SIZE, program * SIZE, square


@triton.jit
def locate_steps(i, offset, steps, heads, place, column, SIZE: tl.constexpr, PLACES: tl.constexpr):
    """The steps of the i-th mini-batch and a mask of its places that have one, then both by element."""
    t = i * PLACES + place - offset
    filled = (place < PLACES) & (t >= 0) & (t < steps)
    return t, filled, t[:, None] * (heads * SIZE) + column[None, :], filled[:, None]


@triton.jit
def load_pair(
    i, k_at, v_at, rate_at, first, offset, steps, heads, place, column,
    SIZE: tl.constexpr, PLACES: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    """k, v and the rate of the i-th mini-batch; zeros where it has no step."""
    t, filled, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
    k = tl.load(k_at + first * SIZE + cells, mask=there, other=0).to(wide)
    v = tl.load(v_at + first * SIZE + cells, mask=there, other=0).to(wide)
    return k, v, tl.load(rate_at + first + t * heads, mask=filled, other=0).to(wide)[:, None]


@triton.jit
def load_norm(gamma_at, beta_at, head, column, SIZE: tl.constexpr, NORM: tl.constexpr, wide: tl.constexpr):
    gamma, beta = tl.full([1, SIZE], 1, wide), tl.zeros([1, SIZE], wide)
    if NORM:
        gamma = tl.load(gamma_at + head * SIZE + column).to(wide)[None, :]
        beta = tl.load(beta_at + head * SIZE + column).to(wide)[None, :]
    return gamma, beta


@triton.jit
def product(a, b, NARROW: tl.constexpr):
    """a·b on tensor cores; in float32 as three TF32 products, which together are as exact as one of float32."""
    return tl.dot(a.to(NARROW), b.to(NARROW), input_precision="tf32x3")


@triton.jit
def attend(q, k, place, BIASED: tl.constexpr, NARROW: tl.constexpr):
    """A = q·kᵀ (+ 1 for the bias), masked to each step and those before it."""
    return tl.where(place[:, None] >= place[None, :], product(q, tl.trans(k), NARROW) + BIASED, 0)


@triton.jit
def within(x, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """x with zeros in the columns that pad a tile."""
    return x if WIDTH == SIZE else tl.where(tl.arange(0, SIZE)[None, :] < WIDTH, x, 0)


@triton.jit
def normalise(z, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """The rows of z normalised to mean 0 and variance 1, and one over their deviation."""
    centred = within(z - tl.sum(z, 1)[:, None] / WIDTH, SIZE, WIDTH)
    deviation = tl.rsqrt(tl.sum(centred * centred, 1)[:, None] / WIDTH + 1e-5)
    return centred * deviation, deviation


@triton.jit
def inward(slope, normal, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """`slope` projected onto what a normalised row can follow: without its mean and its part along the row."""
    along = normal * (tl.sum(slope * normal, 1)[:, None] / WIDTH)
    return within(slope - tl.sum(slope, 1)[:, None] / WIDTH - along, SIZE, WIDTH)


@triton.jit
def inner_slope(k, v, z, gamma, beta, SIZE: tl.constexpr, WIDTH: tl.constexpr, NORM: tl.constexpr):
    """g, and for its backward pass the normalised z, one over its deviation and the error f(k) − v."""
    if NORM:
        normal, deviation = normalise(z, SIZE, WIDTH)
        error = k + normal * gamma + beta - v
        return inward(error * gamma, normal, SIZE, WIDTH) * deviation, normal, deviation, error
    else:
        return z - v, z, z, z
