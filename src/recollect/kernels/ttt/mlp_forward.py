"""The forward kernels of TTT-mlp, and functions shared with the backward ones.

Symbols as in layers/ttt.py and linear_forward.py. The inner model is `up` to its hidden layer and `down` from it:
rising = k·up + bias, met = gelu(rising), z = met·down + bias. g = ∂ℓ/∂z and h = η·g belong to the layer down, `lift` is
η·∂ℓ/∂rising. Steps are laid out as B T H d or B T H hidden, all else as B H …; `matrix` is the offset of a program's
d·hidden elements. The hidden layer is computed in tiles of TILE columns; a tuple has one entry for each. Padding is
zeros, which gelu maps to zeros.
"""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false

import triton
import triton.language as tl

from ..activations import tanh
from .linear_forward import attend, inner_slope, load_norm, load_pair, locate_steps, normalise, product


@triton.jit
def learn(
    k_at, v_at, rate_at, offset_at, factors_at, gathered_up, gathered_down, gathered_up_bias, gathered_down_bias,
    gamma_at, beta_at, up_kept, down_kept, up_bias_kept, down_bias_kept,
    up_at, down_at, up_bias_at, down_bias_at, up_out, down_out, up_bias_out, down_bias_out, steps, heads, count,
    SIZE: tl.constexpr, HIDDEN: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr,
    ROWS: tl.constexpr, NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """The inner model at each boundary; an incomplete mini-batch is left to `read`, since it changes no weights."""
    wide = up_bias_kept.dtype.element_ty
    TILES: tl.constexpr = HIDDEN // TILE
    program, head, first, matrix, rise, fall, hidden = locate_program(steps, heads, SIZE, HIDDEN, TILE)
    place, column = tl.arange(0, ROWS), tl.arange(0, SIZE)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM, wide)
    last = tl.load(factors_at + PLACES - 1).to(wide)
    up, down = load_tiles(up_at + matrix + rise, TILE, TILES), load_tiles(down_at + matrix + fall, TILE * SIZE, TILES)
    up_bias = load_tiles(up_bias_at + program * HIDDEN + hidden, TILE, TILES)
    down_bias = tl.load(down_bias_at + program * SIZE + column)
    offset = tl.load(offset_at + program // heads).to(tl.int32)
    full = (offset + steps) // PLACES
    k, v, rate = load_pair(0, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide)
    for i in range(full):
        k_next, v_next, rate_next = load_pair(
            i + 1, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide
        )
        here = program * count + i
        store_tiles(up_kept + here * SIZE * HIDDEN + rise, up, TILE, TILES)
        store_tiles(down_kept + here * SIZE * HIDDEN + fall, down, TILE * SIZE, TILES)
        store_tiles(up_bias_kept + here * HIDDEN + hidden, up_bias, TILE, TILES)
        tl.store(down_bias_kept + here * SIZE + column, down_bias)
        met, steep, z = (), (), tl.zeros([ROWS, SIZE], wide) + down_bias[None, :]
        for j in tl.static_range(TILES):
            met_j, steep_j, _ = gelu(product(k, up[j], NARROW) + up_bias[j][None, :])
            z = add_product(z, met_j, down[j], NARROW)
            met += (met_j.to(NARROW),)
            steep += (steep_j,)
        g = inner_slope(k, v, z, gamma, beta, SIZE, WIDTH, NORM)[0]
        h = -last * rate * g
        if i == 0:
            down_bias -= last * tl.load(gathered_down_bias + program * SIZE + column)
        down_bias += tl.sum(h, 0) * BIASED
        next_up, next_down, next_bias = (), (), ()
        for j in tl.static_range(TILES):
            lift = -last * rate * product(g, tl.trans(down[j].to(NARROW)), NARROW) * steep[j]
            up_j, down_j, bias_j = up[j], down[j], up_bias[j]
            if i == 0:
                up_j -= last * tl.load(gathered_up + matrix + rise + j * TILE)
                down_j -= last * tl.load(gathered_down + matrix + fall + j * TILE * SIZE)
                bias_j -= last * tl.load(gathered_up_bias + program * HIDDEN + hidden + j * TILE)
            next_up += (add_product(up_j, tl.trans(k), lift, NARROW),)
            next_down += (add_product(down_j, tl.trans(met[j]), h, NARROW),)
            next_bias += (bias_j + tl.sum(lift, 0) * BIASED,)
        up, down, up_bias = next_up, next_down, next_bias
        k, v, rate = k_next, v_next, rate_next
    store_tiles(up_out + matrix + rise, up, TILE, TILES)
    store_tiles(down_out + matrix + fall, down, TILE * SIZE, TILES)
    store_tiles(up_bias_out + program * HIDDEN + hidden, up_bias, TILE, TILES)
    tl.store(down_bias_out + program * SIZE + column, down_bias)
    if PLACES > 1 and full * PLACES < offset + steps:  # of one place none is ever cut short
        here = program * count + full
        store_tiles(up_kept + here * SIZE * HIDDEN + rise, up, TILE, TILES)
        store_tiles(down_kept + here * SIZE * HIDDEN + fall, down, TILE * SIZE, TILES)
        store_tiles(up_bias_kept + here * HIDDEN + hidden, up_bias, TILE, TILES)
        tl.store(down_bias_kept + here * SIZE + column, down_bias)


@triton.jit
def read(
    k_at, v_at, rate_at, offset_at, factors_at, gathered_up, gathered_down, gathered_up_bias, gathered_down_bias,
    gamma_at, beta_at, up_kept, down_kept, up_bias_kept, down_bias_kept,
    q_at, y_at, gathered_up_out, gathered_down_out, gathered_up_bias_out, gathered_down_bias_out, steps, heads, count,
    SIZE: tl.constexpr, HIDDEN: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr,
    ROWS: tl.constexpr, NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """y, and the gradient gathered by an incomplete mini-batch."""
    wide = up_bias_kept.dtype.element_ty
    TILES: tl.constexpr = HIDDEN // TILE
    program, head, first, matrix, rise, fall, hidden = locate_program(steps, heads, SIZE, HIDDEN, TILE)
    i, offset = tl.program_id(1), tl.load(offset_at + program // heads).to(tl.int32)
    if i * PLACES >= offset + steps:
        return
    cut = (i + 1) * PLACES > offset + steps
    place, column = tl.arange(0, ROWS), tl.arange(0, SIZE)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM, wide)
    factors = tl.load(factors_at + place, mask=place < PLACES, other=0).to(wide)[:, None]
    here = program * count + i
    up_here, bias_here = up_kept + here * SIZE * HIDDEN + rise, up_bias_kept + here * HIDDEN + hidden
    down_here = down_kept + here * SIZE * HIDDEN + fall
    down_bias = tl.load(down_bias_kept + here * SIZE + column)
    _, _, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
    q = tl.load(q_at + first * SIZE + cells, mask=there, other=0).to(wide)
    k, v, rate = load_pair(i, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide)
    met, steep, z = (), (), tl.zeros([ROWS, SIZE], wide) + down_bias[None, :]
    for j in tl.static_range(TILES):
        rising = product(k, tl.load(up_here + j * TILE), NARROW) + tl.load(bias_here + j * TILE)[None, :]
        met_j, steep_j, _ = gelu(rising)
        z = add_product(z, met_j, tl.load(down_here + j * TILE * SIZE), NARROW)
        met += (met_j.to(NARROW),)
        steep += (steep_j,)
    g = inner_slope(k, v, z, gamma, beta, SIZE, WIDTH, NORM)[0]
    h = rate * g
    A_up = attend(q, k, place, BIASED, NARROW)
    A, moved = tl.zeros([ROWS, ROWS], wide), tl.zeros([ROWS, SIZE], wide)
    y = tl.zeros([ROWS, SIZE], wide) + down_bias[None, :]
    for j in tl.static_range(TILES):
        up, down = tl.load(up_here + j * TILE), tl.load(down_here + j * TILE * SIZE)
        lift = rate * product(g, tl.trans(down), NARROW) * steep[j]
        moved_up = product(A_up, lift, NARROW)
        if i == 0:
            moved_up += product(q, tl.load(gathered_up + matrix + rise + j * TILE), NARROW)
            moved_up += tl.load(gathered_up_bias + program * HIDDEN + hidden + j * TILE)[None, :]
        seen = gelu(product(q, up, NARROW) + tl.load(bias_here + j * TILE)[None, :] - factors * moved_up)[0]
        A = add_product(A, seen, tl.trans(met[j]), NARROW)
        y = add_product(y, seen, down, NARROW)
        if i == 0:
            moved = add_product(moved, seen, tl.load(gathered_down + matrix + fall + j * TILE * SIZE), NARROW)
        if cut:
            total, total_down = product(tl.trans(k), lift, NARROW), product(tl.trans(met[j]), h, NARROW)
            total_bias = tl.sum(lift, 0) * BIASED
            if i == 0:
                total += tl.load(gathered_up + matrix + rise + j * TILE)
                total_down += tl.load(gathered_down + matrix + fall + j * TILE * SIZE)
                total_bias += tl.load(gathered_up_bias + program * HIDDEN + hidden + j * TILE)
            tl.store(gathered_up_out + matrix + rise + j * TILE, total)
            tl.store(gathered_down_out + matrix + fall + j * TILE * SIZE, total_down)
            tl.store(gathered_up_bias_out + program * HIDDEN + hidden + j * TILE, total_bias)
    moved += product(tl.where(place[:, None] >= place[None, :], A + BIASED, 0), h, NARROW)
    total_down_bias = tl.sum(h, 0) * BIASED
    if i == 0:
        gathered = tl.load(gathered_down_bias + program * SIZE + column)
        moved += gathered[None, :]
        total_down_bias += gathered
    if cut:
        tl.store(gathered_down_bias_out + program * SIZE + column, total_down_bias)
    y -= factors * moved
    if NORM:
        y = q + normalise(y, SIZE, WIDTH)[0] * gamma + beta
    tl.store(y_at + first * SIZE + cells, y, mask=there)


@triton.jit
def locate_program(steps, heads, SIZE: tl.constexpr, HIDDEN: tl.constexpr, TILE: tl.constexpr):
    """This program's number and head, the offsets of its first step and matrix, and of the elements of first tiles."""
    program = tl.program_id(0).to(tl.int64)  # tensors of many matrices are long
    row, head = program // heads, program % heads
    column, hidden = tl.arange(0, SIZE), tl.arange(0, TILE)
    rise, fall = column[:, None] * HIDDEN + hidden[None, :], hidden[:, None] * SIZE + column[None, :]
    return program, head, row * steps * heads + head, program * SIZE * HIDDEN, rise, fall, hidden


@triton.jit
def load_tiles(at, STEP: tl.constexpr, TILES: tl.constexpr):
    """The tiles at `at`, STEP elements apart."""
    parts = ()
    for j in tl.static_range(TILES):
        parts += (tl.load(at + j * STEP),)
    return parts


@triton.jit
def store_tiles(at, parts, STEP: tl.constexpr, TILES: tl.constexpr):
    for j in tl.static_range(TILES):
        tl.store(at + j * STEP, parts[j])


@triton.jit
def add_product(total, a, b, NARROW: tl.constexpr):
    return tl.dot(a.to(NARROW), b.to(NARROW), total, input_precision="tf32x3", out_dtype=total.dtype)


@triton.jit
def gelu(x):
    """GELU in its tanh form, its slope and the slope of that."""
    bent = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
    rest = 1 - bent * bent
    inner = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    slope = 0.5 * (1 + bent) + 0.5 * x * rest * inner
    turn = inner + x * (0.7978845608028654 * 3 * 0.044715 * x - bent * inner * inner)
    return 0.5 * x * (1 + bent), slope, rest * turn
