"""The kernels of one step of test-time training: the gradient of the inner model at (k, v), then its output at q.

A program is one row and one head, and holds the inner model and its gathered gradient. Outputs may overwrite inputs:
all of its threads have read before one of them writes. OVERLAP as in kernels/decode/linear.py: the inner model is read
before the wait, clock and projections after it.
"""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ..activations import tanh
from ..decode.attend import load_turned


@triton.jit
def train_linear(
    seen_at, clock_at, factors_at, gamma_at, beta_at, cos_at, sin_at, y_at,
    weight_at, bias_at, gathered_at, gathered_bias_at, weight_to, bias_to, gathered_to, gathered_bias_to, rate, row,
    HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr, STEPS: tl.constexpr,
    NORM: tl.constexpr, BIASED: tl.constexpr, LEARNED_RATE: tl.constexpr, ROTARY: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """inner(x) = x W + b: SIZE by SIZE elements in a tile of WIDTH by WIDTH; `row` is the stride of `seen`."""
    program = tl.program_id(0)
    b, head = program // HEADS, program % HEADS
    column = tl.arange(0, WIDTH)
    vector, matrix, there = locate(program, column, column, SIZE, SIZE)
    inside = column < SIZE
    weight = tl.load(weight_at + matrix, mask=there, other=0)
    gathered = tl.load(gathered_at + matrix, mask=there, other=0)
    bias = tl.load(bias_at + vector, mask=inside, other=0)
    gathered_bias = tl.load(gathered_bias_at + vector, mask=inside, other=0)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM)
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()
    place, factor, ends = read_clock(clock_at + b, factors_at, PLACES, STEPS)
    q, k, v, eta = load_projections(
        seen_at + b * row, cos_at, sin_at, head, place, column, rate, HEADS, SIZE, LEARNED_RATE, ROTARY
    )
    z = tl.sum(k[:, None] * weight, 0) + bias
    slope = loss_slope(k, v, z, gamma, beta, inside, SIZE, NORM) * eta
    gathered += k[:, None] * slope[None, :]
    gathered_bias += slope * BIASED
    z = tl.sum(q[:, None] * (weight - factor * gathered), 0) + bias - factor * gathered_bias
    y = add_residual(q, z, gamma, beta, inside, SIZE, NORM)
    tl.store(y_at + program * SIZE + column, y.to(y_at.dtype.element_ty), mask=inside)
    store_after(weight_to, gathered_to, matrix, there, weight, gathered, factor, ends)
    store_after(bias_to, gathered_bias_to, vector, inside, bias, gathered_bias, factor, ends)


@triton.jit
def train_mlp(
    seen_at, clock_at, factors_at, gamma_at, beta_at, cos_at, sin_at, y_at,
    up_at, up_bias_at, up_gathered_at, up_gathered_bias_at, up_to, up_bias_to, up_gathered_to, up_gathered_bias_to,
    down_at, down_bias_at, down_gathered_at, down_gathered_bias_at,
    down_to, down_bias_to, down_gathered_to, down_gathered_bias_to, rate, row,
    HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, HIDDEN: tl.constexpr, WIDE: tl.constexpr,
    PLACES: tl.constexpr, STEPS: tl.constexpr,
    NORM: tl.constexpr, BIASED: tl.constexpr, LEARNED_RATE: tl.constexpr, ROTARY: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """inner(x) = gelu(x W + b) W' + b': a hidden layer of HIDDEN units in a tile of WIDE."""
    program = tl.program_id(0)
    b, head = program // HEADS, program % HEADS
    column, hidden = tl.arange(0, WIDTH), tl.arange(0, WIDE)
    wide, rising, in_rising = locate(program, column, hidden, SIZE, HIDDEN)
    vector, falling, in_falling = locate(program, hidden, column, HIDDEN, SIZE)
    inside, between = column < SIZE, hidden < HIDDEN
    up = tl.load(up_at + rising, mask=in_rising, other=0)
    down = tl.load(down_at + falling, mask=in_falling, other=0)
    up_bias = tl.load(up_bias_at + wide, mask=between, other=0)
    down_bias = tl.load(down_bias_at + vector, mask=inside, other=0)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM)
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()
    place, factor, ends = read_clock(clock_at + b, factors_at, PLACES, STEPS)
    q, k, v, eta = load_projections(
        seen_at + b * row, cos_at, sin_at, head, place, column, rate, HEADS, SIZE, LEARNED_RATE, ROTARY
    )
    met, rises = gelu(tl.sum(k[:, None] * up, 0) + up_bias)
    slope = loss_slope(k, v, tl.sum(met[:, None] * down, 0) + down_bias, gamma, beta, inside, SIZE, NORM) * eta
    inward = tl.sum(down * slope[None, :], 1) * rises
    # One matrix after the other, and `down` loaded again, since four of them would not fit.
    gathered = tl.load(up_gathered_at + rising, mask=in_rising, other=0) + k[:, None] * inward[None, :]
    gathered_bias = tl.load(up_gathered_bias_at + wide, mask=between, other=0) + inward * BIASED
    asked, _ = gelu(tl.sum(q[:, None] * (up - factor * gathered), 0) + up_bias - factor * gathered_bias)
    store_after(up_to, up_gathered_to, rising, in_rising, up, gathered, factor, ends)
    store_after(up_bias_to, up_gathered_bias_to, wide, between, up_bias, gathered_bias, factor, ends)
    down = tl.load(down_at + falling, mask=in_falling, other=0)
    gathered = tl.load(down_gathered_at + falling, mask=in_falling, other=0) + met[:, None] * slope[None, :]
    gathered_bias = tl.load(down_gathered_bias_at + vector, mask=inside, other=0) + slope * BIASED
    z = tl.sum(asked[:, None] * (down - factor * gathered), 0) + down_bias - factor * gathered_bias
    y = add_residual(q, z, gamma, beta, inside, SIZE, NORM)
    tl.store(y_at + program * SIZE + column, y.to(y_at.dtype.element_ty), mask=inside)
    store_after(down_to, down_gathered_to, falling, in_falling, down, gathered, factor, ends)
    store_after(down_bias_to, down_gathered_bias_to, vector, inside, down_bias, gathered_bias, factor, ends)


@triton.jit
def locate(program, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The offsets of a program's bias and matrix, and the mask of the matrix."""
    first = program.to(tl.int64) * COLUMNS
    cells = first * ROWS + row[:, None] * COLUMNS + column[None, :]
    return first + column, cells, (row < ROWS)[:, None] & (column < COLUMNS)[None, :]


@triton.jit
def read_clock(clock_at, factors_at, PLACES: tl.constexpr, STEPS: tl.constexpr):
    """A row's place in its mini-batch, ρ of that place, and whether the mini-batch ends there."""
    place = tl.load(clock_at) % PLACES
    factor = tl.load(factors_at + place)
    return place, factor, STEPS & (place == PLACES - 1)


@triton.jit
def store_after(model_to, gathered_to, cells, there, model, gathered, factor, ends):
    """Store a part of the model and of its gathered gradient as they are after this step."""
    tl.debug_barrier()
    tl.store(model_to + cells, tl.where(ends, model - factor * gathered, model), mask=there)
    tl.store(gathered_to + cells, tl.where(ends, 0, gathered), mask=there)


@triton.jit
def load_norm(gamma_at, beta_at, head, column, SIZE: tl.constexpr, NORM: tl.constexpr):
    gamma, beta = tl.full([column.shape[0]], 1, tl.float32), tl.zeros([column.shape[0]], tl.float32)
    if NORM:
        gamma = tl.load(gamma_at + head * SIZE + column, mask=column < SIZE, other=0).to(tl.float32)
        beta = tl.load(beta_at + head * SIZE + column, mask=column < SIZE, other=0).to(tl.float32)
    return gamma, beta


@triton.jit
def load_projections(
    at, cos_at, sin_at, head, place, column, rate,
    HEADS: tl.constexpr, SIZE: tl.constexpr, LEARNED_RATE: tl.constexpr, ROTARY: tl.constexpr,
):  # fmt: skip
    """q, k, v and the rate of a head; a row holds q, k and v of all heads, then the logits of their rates."""
    q = load_turned(at + head * SIZE, cos_at, sin_at, place, column, SIZE, ROTARY)
    k = load_turned(at + (HEADS + head) * SIZE, cos_at, sin_at, place, column, SIZE, ROTARY)
    v = tl.load(at + (2 * HEADS + head) * SIZE + column, mask=column < SIZE, other=0).to(tl.float32)
    eta = rate
    if LEARNED_RATE:
        eta = rate * tl.sigmoid(tl.load(at + 3 * HEADS * SIZE + head).to(tl.float32))
    return q, k, v, eta


@triton.jit
def normal(z, inside, SIZE: tl.constexpr):
    """z normalised to mean 0 and deviation 1, and one over its deviation."""
    centred = tl.where(inside, z - tl.sum(z, 0) / SIZE, 0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / SIZE + 1e-5)
    return centred * scale, scale


@triton.jit
def loss_slope(k, v, z, gamma, beta, inside, SIZE: tl.constexpr, NORM: tl.constexpr):
    """∂ℓ/∂z for ℓ = ½‖f − v‖², where f = k + LN(z) or z."""
    if NORM:
        level, scale = normal(z, inside, SIZE)
        slope = (k + level * gamma + beta - v) * gamma
        inward = tl.sum(slope, 0) / SIZE + level * (tl.sum(slope * level, 0) / SIZE)
        return tl.where(inside, (slope - inward) * scale, 0)
    else:
        return z - v


@triton.jit
def add_residual(q, z, gamma, beta, inside, SIZE: tl.constexpr, NORM: tl.constexpr):
    if NORM:
        level, _ = normal(z, inside, SIZE)
        return q + level * gamma + beta
    else:
        return z


@triton.jit
def gelu(x):
    """GELU in its tanh form, and its slope."""
    bent = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
    slope = 0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    return 0.5 * x * (1 + bent), slope
