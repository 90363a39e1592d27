"""The backward kernels of TTT-linear. A name dX is the gradient of the loss with respect to X."""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false

import triton
import triton.language as tl

from .linear_forward import (
    attend,
    inner_slope,
    inward,
    load_norm,
    load_pair,
    locate_program,
    locate_steps,
    normalise,
    product,
)


@triton.jit
def read_backward(
    k_at, v_at, rate_at, offset_at, factors_at, gathered_at, gathered_bias_at, gamma_at, beta_at, kept_at, kept_bias_at,
    z_at, q_at, dy_at, dq_at, dk_read_at, dread_at, dh_at, dgathered_at, dgathered_bias_at, dfactors_at,
    dgamma_at, dbeta_at, steps, heads, count,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr, ROWS: tl.constexpr,
    NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """dq and dread (of the input of the norm in `read`) in full, and the contributions of `read` to the rest."""
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
    A = attend(q, k, place, BIASED, NARROW)
    moved = product(A, h, NARROW)
    if i == 0:
        moved += product(q, tl.load(gathered_at + matrix + square), NARROW)
        moved += tl.load(gathered_bias_at + vector + column)[None, :]
    dread = tl.load(dy_at + first * SIZE + cells, mask=there, other=0).to(wide)
    dq = tl.zeros([ROWS, SIZE], wide)
    if NORM:
        normal, deviation = normalise(product(q, weight, NARROW) + bias[None, :] - factors * moved, SIZE, WIDTH)
        here = (program * count + i) * SIZE + column
        tl.store(dgamma_at + here, tl.sum(dread * normal, 0))
        tl.store(dbeta_at + here, tl.sum(dread, 0))
        dq += dread
        dread = inward(dread * gamma, normal, SIZE, WIDTH) * deviation
    tl.store(dread_at + first * SIZE + cells, dread, mask=there)
    tl.store(dfactors_at + (program * count + i) * PLACES + place, -tl.sum(dread * moved, 1), mask=place < PLACES)
    dmoved = -factors * dread
    tl.store(dh_at + first * SIZE + cells, product(tl.trans(A), dmoved, NARROW), mask=there)
    dA = tl.where(place[:, None] >= place[None, :], product(dmoved, tl.trans(h), NARROW), 0)
    tl.store(dk_read_at + first * SIZE + cells, product(tl.trans(dA), q, NARROW), mask=there)
    dq += product(dread, tl.trans(weight), NARROW) + product(dA, k, NARROW)
    if i == 0:
        dq += product(dmoved, tl.trans(tl.load(gathered_at + matrix + square)), NARROW)
        tl.store(dgathered_at + matrix + square, product(tl.trans(q), dmoved, NARROW))
        tl.store(dgathered_bias_at + vector + column, tl.sum(dmoved, 0))
    tl.store(dq_at + first * SIZE + cells, dq, mask=there)


@triton.jit
def learn_backward(
    k_at, v_at, rate_at, offset_at, factors_at, gathered_at, gathered_bias_at, gamma_at, beta_at, kept_at, kept_bias_at,
    z_at, q_at, dread_at, dh_at, dkept_at, dkept_bias_at, dfirst_at, dweight_out, dbias_out, dgathered_out,
    dgathered_bias_out, dweight_at, dbias_at, steps, heads, count,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr, ROWS: tl.constexpr,
    NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """dh and the gradient of the model in full; `dkept` is that of what each mini-batch's total was added to."""
    wide = kept_bias_at.dtype.element_ty
    program, head, first, matrix, vector, square = locate_program(steps, heads, SIZE)
    place, column = tl.arange(0, ROWS), tl.arange(0, SIZE)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM, wide)
    last = tl.load(factors_at + PLACES - 1).to(wide)
    dweight, dbias = tl.load(dweight_out + matrix + square), tl.load(dbias_out + vector + column)
    offset = tl.load(offset_at + program // heads).to(tl.int32)
    end = offset + steps
    i = tl.cdiv(end, PLACES) - 1
    k, v, rate = load_pair(i, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide)
    q, z, dread, dh = load_read(
        i, q_at, z_at, dread_at, dh_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide
    )
    while i >= 0:
        k_next, v_next, rate_next = load_pair(
            i - 1, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide
        )
        q_next, z_next, dread_next, dh_next = load_read(
            i - 1, q_at, z_at, dread_at, dh_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide
        )
        full = (i + 1) * PLACES <= end
        # A full mini-batch's total went into W, that of one cut short into the gathered gradient.
        share = tl.where(full, -last, 1)
        dtotal, dtotal_bias = dweight, dbias
        if not full:
            dtotal = tl.load(dgathered_out + matrix + square)
            dtotal_bias = tl.load(dgathered_bias_out + vector + column)
        tl.store(dkept_at + matrix * count + i * SIZE * SIZE + square, dtotal)
        tl.store(dkept_bias_at + vector * count + i * SIZE + column, dtotal_bias)
        if i == 0:
            tl.store(dfirst_at + matrix + square, dtotal)
        dh += share * (product(k, dtotal, NARROW) + dtotal_bias[None, :] * BIASED)
        _, _, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
        tl.store(dh_at + first * SIZE + cells, dh, mask=there)
        g, normal, deviation, error = inner_slope(k, v, z, gamma, beta, SIZE, WIDTH, NORM)
        dz = inner_slope_backward(rate * dh, g, normal, deviation, error, gamma, SIZE, WIDTH, NORM)[0]
        dweight += product(tl.trans(q), dread, NARROW) + product(tl.trans(k), dz, NARROW)
        dbias += tl.sum(dread, 0) + tl.sum(dz, 0)
        k, v, rate = k_next, v_next, rate_next
        q, z, dread, dh = q_next, z_next, dread_next, dh_next
        i -= 1
    tl.store(dweight_at + matrix + square, dweight)
    tl.store(dbias_at + vector + column, dbias)


@triton.jit
def load_read(
    i, q_at, z_at, dread_at, dh_at, first, offset, steps, heads, place, column,
    SIZE: tl.constexpr, PLACES: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    """q, z, dread and dh of the i-th mini-batch, as `read_backward` left them; zeros where it has no step."""
    _, _, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
    here = first * SIZE + cells
    q = tl.load(q_at + here, mask=there, other=0).to(wide)
    z = tl.load(z_at + here, mask=there, other=0)
    return q, z, tl.load(dread_at + here, mask=there, other=0), tl.load(dh_at + here, mask=there, other=0)


@triton.jit
def see_backward(
    k_at, v_at, rate_at, offset_at, factors_at, gathered_at, gathered_bias_at, gamma_at, beta_at, kept_at, kept_bias_at,
    z_at, dh_at, dkept_at, dkept_bias_at, dfirst_at, dk_read_at, dk_at, dv_at, drate_at, dgathered_at,
    dgathered_bias_at, dfactors_at, dgamma_at, dbeta_at, steps, heads, count,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr, ROWS: tl.constexpr,
    NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """dv and drate in full; the contributions of `learn` are added to dk and the rest."""
    wide = kept_bias_at.dtype.element_ty
    program, head, first, matrix, vector, square = locate_program(steps, heads, SIZE)
    i, offset = tl.program_id(1), tl.load(offset_at + program // heads).to(tl.int32)
    if i * PLACES >= offset + steps:
        return
    place, column = tl.arange(0, ROWS), tl.arange(0, SIZE)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM, wide)
    weight = tl.load(kept_at + matrix * count + i * SIZE * SIZE + square)
    dtotal = tl.load(dkept_at + matrix * count + i * SIZE * SIZE + square)
    dtotal_bias = tl.load(dkept_bias_at + vector * count + i * SIZE + column)
    t, filled, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
    k, v, rate = load_pair(i, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide)
    z = tl.load(z_at + first * SIZE + cells, mask=there, other=0)
    dh = tl.load(dh_at + first * SIZE + cells, mask=there, other=0)
    g, normal, deviation, error = inner_slope(k, v, z, gamma, beta, SIZE, WIDTH, NORM)
    tl.store(drate_at + first + t * heads, tl.sum(dh * g, 1), mask=filled)
    dz, ds = inner_slope_backward(rate * dh, g, normal, deviation, error, gamma, SIZE, WIDTH, NORM)
    dk = tl.load(dk_read_at + first * SIZE + cells, mask=there, other=0) + product(dz, tl.trans(weight), NARROW)
    dv = -ds * gamma
    if NORM:
        dk -= dv
        here = (program * count + i) * SIZE + column
        tl.store(dgamma_at + here, tl.load(dgamma_at + here) + tl.sum(ds * (error + normal * gamma), 0))
        tl.store(dbeta_at + here, tl.load(dbeta_at + here) - tl.sum(dv, 0))
    tl.store(dv_at + first * SIZE + cells, dv, mask=there)
    full = (i + 1) * PLACES <= offset + steps
    share = tl.where(full, -tl.load(factors_at + PLACES - 1).to(wide), 1)
    h = rate * g
    along = product(h, tl.trans(dtotal), NARROW)
    tl.store(dk_at + first * SIZE + cells, dk + share * along, mask=there)
    if full:
        dlast = tl.sum(tl.sum(along * k, 1), 0) + tl.sum(tl.sum(h, 0) * dtotal_bias, 0) * BIASED
        if i == 0:
            dfirst, gathered = tl.load(dfirst_at + matrix + square), tl.load(gathered_at + matrix + square)
            dlast += tl.sum(tl.sum(dfirst * gathered, 1), 0)
            dlast += tl.sum(dtotal_bias * tl.load(gathered_bias_at + vector + column), 0)
        dfactor = dfactors_at + (program * count + i) * PLACES + PLACES - 1
        tl.store(dfactor, tl.load(dfactor) - dlast)
    if i == 0:
        dgathered, dgathered_bias = dgathered_at + matrix + square, dgathered_bias_at + vector + column
        tl.store(dgathered, tl.load(dgathered) + share * tl.load(dfirst_at + matrix + square))
        tl.store(dgathered_bias, tl.load(dgathered_bias) + share * dtotal_bias)


@triton.jit
def inner_slope_backward(
    dg, g, normal, deviation, error, gamma, SIZE: tl.constexpr, WIDTH: tl.constexpr, NORM: tl.constexpr
):
    """From the gradient of g to those of z and of s = γ·error; without a norm s is the error, and γ is 1."""
    if NORM:
        ds = inward(dg, normal, SIZE, WIDTH) * deviation
        across = tl.sum(dg * normal, 1)[:, None] * error * gamma
        along = tl.sum(error * gamma * normal, 1)[:, None] * dg
        dnormal = ds * gamma * gamma - (across + along) / WIDTH * deviation
        dz = inward(dnormal, normal, SIZE, WIDTH) - normal * (tl.sum(dg * g, 1)[:, None] / WIDTH)
        return dz * deviation, ds
    else:
        return dg, dg
