"""The backward kernels of TTT-mlp. A name dX is the gradient of the loss with respect to X."""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false

import triton
import triton.language as tl

from .linear_backward import inner_slope_backward
from .linear_forward import attend, inner_slope, inward, load_norm, load_pair, locate_steps, normalise, product
from .mlp_forward import add_product, gelu, load_tiles, locate_program, store_tiles


@triton.jit
def read_backward(
    k_at, v_at, rate_at, offset_at, factors_at, gathered_up, gathered_down, gathered_up_bias, gathered_down_bias,
    gamma_at, beta_at, up_kept, down_kept, up_bias_kept, down_bias_kept, q_at, dy_at,
    dgathered_up_out, dgathered_down_out, dgathered_up_bias_out, dgathered_down_bias_out,
    hidden_at, dlow_at, dlow_sum_at, dread_at, dlift_at, dh_at, dmet_at, dk_read_at, dq_at,
    dgathered_up, dgathered_down, dgathered_up_bias, dgathered_down_bias, dfactors_at, dgamma_at, dbeta_at,
    steps, heads, count,
    SIZE: tl.constexpr, HIDDEN: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr,
    ROWS: tl.constexpr, NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """dq, and the gradients of the pre-activations that q produced, dlow of the layer up and dread of the layer down.

    Of the rest the contributions of `read`, and those of an incomplete mini-batch to the gathered gradient after it.
    """
    wide = up_bias_kept.dtype.element_ty
    TILES: tl.constexpr = HIDDEN // TILE
    program, head, first, matrix, rise, fall, hidden = locate_program(steps, heads, SIZE, HIDDEN, TILE)
    i, offset = tl.program_id(1), tl.load(offset_at + program // heads).to(tl.int32)
    if i * PLACES >= offset + steps:
        return
    cut = (i + 1) * PLACES > offset + steps
    place, column = tl.arange(0, ROWS), tl.arange(0, SIZE)
    earlier = place[:, None] >= place[None, :]
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM, wide)
    factors = tl.load(factors_at + place, mask=place < PLACES, other=0).to(wide)[:, None]
    here, vector = program * count + i, program * HIDDEN + hidden
    up_here, bias_here = up_kept + here * SIZE * HIDDEN + rise, up_bias_kept + here * HIDDEN + hidden
    down_here = down_kept + here * SIZE * HIDDEN + fall
    down_bias = tl.load(down_bias_kept + here * SIZE + column)
    _, _, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
    far = place.to(tl.int64)  # a long chunk has more hidden numbers than 32 bits count
    _, _, inner, _ = locate_steps(i, offset, steps, heads, far, hidden, HIDDEN, PLACES)
    cells, inner = first * SIZE + cells, first * HIDDEN + inner
    q = tl.load(q_at + cells, mask=there, other=0).to(wide)
    k, v, rate = load_pair(i, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide)
    # Forward once more: what k and v made of the model, then what q read from it
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
    low = tl.zeros([ROWS, SIZE], wide) + down_bias[None, :]
    lift, moved_up, seen, climb = (), (), (), ()
    for j in tl.static_range(TILES):
        down = tl.load(down_here + j * TILE * SIZE)
        lift_j = rate * product(g, tl.trans(down), NARROW) * steep[j]
        moved_j = product(A_up, lift_j, NARROW)
        if i == 0:
            moved_j += product(q, tl.load(gathered_up + matrix + rise + j * TILE), NARROW)
            moved_j += tl.load(gathered_up_bias + vector + j * TILE)[None, :]
        low_up = product(q, tl.load(up_here + j * TILE), NARROW) + tl.load(bias_here + j * TILE)[None, :]
        seen_j, climb_j, _ = gelu(low_up - factors * moved_j)
        tl.store(hidden_at + inner + j * TILE, seen_j, mask=there)
        A = add_product(A, seen_j, tl.trans(met[j]), NARROW)
        low = add_product(low, seen_j, down, NARROW)
        if i == 0:
            moved = add_product(moved, seen_j, tl.load(gathered_down + matrix + fall + j * TILE * SIZE), NARROW)
        lift += (lift_j.to(NARROW),)
        moved_up += (moved_j,)
        seen += (seen_j.to(NARROW),)
        climb += (climb_j,)
    A = tl.where(earlier, A + BIASED, 0)
    moved += product(A, h, NARROW)
    if i == 0:
        moved += tl.load(gathered_down_bias + program * SIZE + column)[None, :]
    # Backward through the layer down
    dread = tl.load(dy_at + cells, mask=there, other=0).to(wide)
    dq = tl.zeros([ROWS, SIZE], wide)
    if NORM:
        normal, deviation = normalise(low - factors * moved, SIZE, WIDTH)
        tl.store(dgamma_at + here * SIZE + column, tl.sum(dread * normal, 0))
        tl.store(dbeta_at + here * SIZE + column, tl.sum(dread, 0))
        dq += dread
        dread = inward(dread * gamma, normal, SIZE, WIDTH) * deviation
    tl.store(dread_at + cells, dread, mask=there)
    dfactors = -tl.sum(dread * moved, 1)
    dmoved = -factors * dread
    dA = tl.where(earlier, product(dmoved, tl.trans(h), NARROW), 0)
    dh, dk = product(tl.trans(A), dmoved, NARROW), tl.zeros([ROWS, SIZE], wide)
    dinto_low = tl.sum(dmoved, 0)
    if cut:
        dtotal_bias = tl.load(dgathered_down_bias_out + program * SIZE + column)
        dh += dtotal_bias[None, :] * BIASED
        dinto_low += dtotal_bias
    if i == 0:
        tl.store(dgathered_down_bias + program * SIZE + column, dinto_low)
    # and through the layer up
    dA_up = tl.zeros([ROWS, ROWS], wide)
    for j in tl.static_range(TILES):
        dseen = product(dread, tl.trans(tl.load(down_here + j * TILE * SIZE)), NARROW) + product(dA, met[j], NARROW)
        if i == 0:
            gathered = tl.load(gathered_down + matrix + fall + j * TILE * SIZE)
            dseen = add_product(dseen, dmoved, tl.trans(gathered), NARROW)
        dlow = dseen * climb[j]
        tl.store(dlow_at + inner + j * TILE, dlow, mask=there)
        tl.store(dlow_sum_at + here * HIDDEN + hidden + j * TILE, tl.sum(dlow, 0))
        dfactors -= tl.sum(dlow * moved_up[j], 1)
        dmoved_up = -factors * dlow
        dA_up = add_product(dA_up, dmoved_up, tl.trans(lift[j]), NARROW)
        dq = add_product(dq, dlow, tl.trans(tl.load(up_here + j * TILE)), NARROW)
        dlift, dmet = product(tl.trans(A_up), dmoved_up, NARROW), product(tl.trans(dA), seen[j], NARROW)
        if i == 0:
            dq = add_product(dq, dmoved_up, tl.trans(tl.load(gathered_up + matrix + rise + j * TILE)), NARROW)
            dinto, dinto_bias = product(tl.trans(q), dmoved_up, NARROW), tl.sum(dmoved_up, 0)
            dinto_down = product(tl.trans(seen[j]), dmoved, NARROW)
            if cut:
                dinto += tl.load(dgathered_up_out + matrix + rise + j * TILE)
                dinto_down += tl.load(dgathered_down_out + matrix + fall + j * TILE * SIZE)
                dinto_bias += tl.load(dgathered_up_bias_out + vector + j * TILE)
            tl.store(dgathered_up + matrix + rise + j * TILE, dinto)
            tl.store(dgathered_down + matrix + fall + j * TILE * SIZE, dinto_down)
            tl.store(dgathered_up_bias + vector + j * TILE, dinto_bias)
        if cut:
            dtotal = tl.load(dgathered_up_out + matrix + rise + j * TILE)
            dlift = add_product(dlift, k, dtotal, NARROW)
            dlift += tl.load(dgathered_up_bias_out + vector + j * TILE)[None, :] * BIASED
            dk = add_product(dk, lift[j], tl.trans(dtotal), NARROW)
            dtotal_down = tl.load(dgathered_down_out + matrix + fall + j * TILE * SIZE)
            dh = add_product(dh, met[j], dtotal_down, NARROW)
            dmet = add_product(dmet, h, tl.trans(dtotal_down), NARROW)
        tl.store(dlift_at + inner + j * TILE, dlift, mask=there)
        tl.store(dmet_at + inner + j * TILE, dmet, mask=there)
    dA_up = tl.where(earlier, dA_up, 0)
    tl.store(dq_at + cells, add_product(dq, dA_up, k, NARROW), mask=there)
    tl.store(dk_read_at + cells, add_product(dk, tl.trans(dA_up), q, NARROW), mask=there)
    tl.store(dh_at + cells, dh, mask=there)
    tl.store(dfactors_at + here * PLACES + place, dfactors, mask=place < PLACES)


@triton.jit
def learn_backward(
    k_at, v_at, rate_at, offset_at, factors_at, gamma_at, beta_at, up_kept, down_kept, up_bias_kept, down_bias_kept,
    q_at, hidden_at, dlow_at, dlow_sum_at, dread_at, dlift_at, dh_at, dmet_at, dk_read_at,
    dup_out, ddown_out, dup_bias_out, ddown_bias_out, dk_at, dv_at, drate_at,
    dup_at, ddown_at, dup_bias_at, ddown_bias_at, dlast_at, dgamma_at, dbeta_at, steps, heads, count,
    SIZE: tl.constexpr, HIDDEN: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr, PLACES: tl.constexpr,
    ROWS: tl.constexpr, NORM: tl.constexpr, BIASED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """dk, dv, drate and the gradient of the model, after the first mini-batch and before it."""
    wide = dlast_at.dtype.element_ty
    TILES: tl.constexpr = HIDDEN // TILE
    program, head, first, matrix, rise, fall, hidden = locate_program(steps, heads, SIZE, HIDDEN, TILE)
    place, column = tl.arange(0, ROWS), tl.arange(0, SIZE)
    far = place.to(tl.int64)
    gamma, beta = load_norm(gamma_at, beta_at, head, column, SIZE, NORM, wide)
    last = tl.load(factors_at + PLACES - 1).to(wide)
    offset = tl.load(offset_at + program // heads).to(tl.int32)
    # dup is held as ddown is: then all products that are added to it lie alike.
    turned = tl.trans(rise)
    dup = load_tiles(dup_out + matrix + turned, TILE, TILES)
    ddown = load_tiles(ddown_out + matrix + fall, TILE * SIZE, TILES)
    dup_bias = load_tiles(dup_bias_out + program * HIDDEN + hidden, TILE, TILES)
    ddown_bias = tl.load(ddown_bias_out + program * SIZE + column)
    dgamma, dbeta, dlast = tl.zeros([SIZE], wide), tl.zeros([SIZE], wide), tl.zeros([ROWS], wide)
    end = tl.cdiv(offset + steps, PLACES)
    until = 1
    while until >= 0:
        for i in range(end - 1, until - 1, -1):
            # What a mini-batch cut short had in the state after it is in what `read_backward` left.
            full = ((i + 1) * PLACES <= offset + steps).to(wide)
            share = -last * full
            t, filled, cells, there = locate_steps(i, offset, steps, heads, place, column, SIZE, PLACES)
            _, _, inner, _ = locate_steps(i, offset, steps, heads, far, hidden, HIDDEN, PLACES)
            cells, inner, here = first * SIZE + cells, first * HIDDEN + inner, program * count + i
            up = load_tiles(up_kept + here * SIZE * HIDDEN + rise, TILE, TILES)
            down = load_tiles(down_kept + here * SIZE * HIDDEN + fall, TILE * SIZE, TILES)
            bias_here = up_bias_kept + here * HIDDEN + hidden
            k, v, rate = load_pair(
                i, k_at, v_at, rate_at, first, offset, steps, heads, place, column, SIZE, PLACES, wide
            )
            z = tl.zeros([ROWS, SIZE], wide) + tl.load(down_bias_kept + here * SIZE + column)[None, :]
            met, steep, bend = (), (), ()
            for j in tl.static_range(TILES):
                rising = product(k, up[j], NARROW) + tl.load(bias_here + j * TILE)[None, :]
                met_j, steep_j, bend_j = gelu(rising)
                z = add_product(z, met_j, down[j], NARROW)
                met += (met_j.to(NARROW),)
                steep += (steep_j,)
                bend += (bend_j,)
            g, normal, deviation, error = inner_slope(k, v, z, gamma, beta, SIZE, WIDTH, NORM)
            dk = tl.load(dk_read_at + cells, mask=there, other=0)
            dg, drate = tl.zeros([ROWS, SIZE], wide), tl.zeros([ROWS], wide)
            toward_h = tl.zeros([ROWS, SIZE], wide) + ddown_bias[None, :] * BIASED
            dcarried, turn = (), ()
            for j in tl.static_range(TILES):
                carried = product(g, tl.trans(down[j]), NARROW)
                slope = carried * steep[j]
                # The total went into the model, with its share.
                dup_narrow = dup[j].to(NARROW)
                dk = add_product(dk, share * rate * slope, dup_narrow, NARROW)
                toward = product(k, tl.trans(dup_narrow), NARROW) + dup_bias[j][None, :] * BIASED
                toward_h = add_product(toward_h, met[j], ddown[j], NARROW)
                dlast -= full * tl.sum(rate * slope * toward, 1)
                dlift = tl.load(dlift_at + inner + j * TILE, mask=there, other=0) + share * toward
                drate += tl.sum(dlift * slope, 1)
                dlift *= rate
                dcarried_j = dlift * steep[j]
                dg = add_product(dg, dcarried_j, down[j], NARROW)
                dcarried += (dcarried_j.to(NARROW),)
                turn += (dlift * carried * bend[j],)
            dlast -= full * tl.sum(rate * g * toward_h, 1)
            dh = tl.load(dh_at + cells, mask=there, other=0) + share * toward_h
            tl.store(drate_at + first + t * heads, drate + tl.sum(dh * g, 1), mask=filled)
            dz, ds = inner_slope_backward(rate * dh + dg, g, normal, deviation, error, gamma, SIZE, WIDTH, NORM)
            dv = -ds * gamma
            if NORM:
                dk -= dv
                dgamma += tl.sum(ds * (error + normal * gamma), 0)
                dbeta -= tl.sum(dv, 0)
            tl.store(dv_at + cells, dv, mask=there)
            q = tl.load(q_at + cells, mask=there, other=0).to(wide)
            dread = tl.load(dread_at + cells, mask=there, other=0)
            ddown_bias += tl.sum(dz, 0) + tl.sum(dread, 0)
            before_up, before_down, before_bias = (), (), ()
            for j in tl.static_range(TILES):
                dmet = tl.load(dmet_at + inner + j * TILE, mask=there, other=0)
                dmet = add_product(dmet, share * rate * g, tl.trans(ddown[j].to(NARROW)), NARROW)
                dmet = add_product(dmet, dz, tl.trans(down[j]), NARROW)
                drising = dmet * steep[j] + turn[j]
                dk = add_product(dk, drising, tl.trans(up[j]), NARROW)
                dlow = tl.load(dlow_at + inner + j * TILE, mask=there, other=0)
                dup_j = add_product(add_product(dup[j], tl.trans(drising), k, NARROW), tl.trans(dlow), q, NARROW)
                seen = tl.load(hidden_at + inner + j * TILE, mask=there, other=0)
                ddown_j = add_product(ddown[j], tl.trans(met[j]), dz, NARROW)
                ddown_j = add_product(ddown_j, tl.trans(dcarried[j]), g, NARROW)
                before_up += (dup_j,)
                before_down += (add_product(ddown_j, tl.trans(seen), dread, NARROW),)
                low_sum = tl.load(dlow_sum_at + here * HIDDEN + hidden + j * TILE)
                before_bias += (dup_bias[j] + tl.sum(drising, 0) + low_sum,)
            dup, ddown, dup_bias = before_up, before_down, before_bias
            tl.store(dk_at + cells, dk, mask=there)
        at = until * tl.num_programs(0) + program
        store_tiles(dup_at + at * SIZE * HIDDEN + turned, dup, TILE, TILES)
        store_tiles(ddown_at + at * SIZE * HIDDEN + fall, ddown, TILE * SIZE, TILES)
        store_tiles(dup_bias_at + at * HIDDEN + hidden, dup_bias, TILE, TILES)
        tl.store(ddown_bias_at + at * SIZE + column, ddown_bias)
        end, until = until, until - 1
    tl.store(dlast_at + program * ROWS + place, dlast)
    if NORM:
        tl.store(dgamma_at + program * SIZE + column, dgamma)
        tl.store(dbeta_at + program * SIZE + column, dbeta)
