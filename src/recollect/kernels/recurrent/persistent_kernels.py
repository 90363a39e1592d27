"""Recurrent cells over a whole sequence in one kernel each way: the weights stay on the chip, programs meet each step.

A product with U once a step is small, so a launch for each costs more than the work. Here a program has a few units of
a layer, and keeps their rows of U on the chip for all steps. It takes h of the step before from memory, makes its own
units' part of the next, and tells the other programs of the same rows and way by a counter that all of them watch.

All programs must run at a time, or those that wait would wait for ever: so the launch is cooperative.
"""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportPossiblyUnboundVariable=false, reportIndexIssue=false

import triton
import triton.language as tl

from ..activations import tanh


@triton.jit
def forth(
    drive_at, U_at, d_at, h_at, c_at, cells_at, kept_at, met_at, steps, ways, batch, programs,
    KIND: tl.constexpr, WIDTH: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr, BIAS: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """UNITS of WIDTH units of one way, ROWS rows: h_at (T+1 K B W) holds the first h and gets the others."""
    GATES: tl.constexpr = 4 if KIND == "lstm" else 3 if KIND == "gru" else 1
    LANES: tl.constexpr = 1 if KIND == "rnn" else 4  # of a unit in the product: its gates, made a power of two
    TURNS: tl.constexpr = (WIDTH + BLOCK - 1) // BLOCK
    SHARE: tl.constexpr = BLOCK // PARTS
    narrow = U_at.dtype.element_ty
    first = tl.program_id(0) * UNITS
    way = tl.program_id(2)
    lane = tl.arange(0, UNITS * LANES)
    gate, own = lane % LANES, first + lane // LANES
    column = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, :, None]
    across = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, None, :]
    weights = ()
    for turn in tl.static_range(TURNS):
        inside = ((gate < GATES) & (own < WIDTH))[None, None, :] & (column + turn * BLOCK < WIDTH)
        place = (way * GATES * WIDTH + gate * WIDTH + own).to(tl.int64)[None, None, :] * WIDTH + column + turn * BLOCK
        weights += (tl.load(U_at + place, mask=inside, other=0),)
    unit = first + tl.arange(0, UNITS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    mine = (row < batch)[:, None] & (unit < WIDTH)[None, :]
    if BIAS:
        biases = ()
        for g in tl.static_range(GATES):
            bias = tl.load(d_at + (way * GATES + g) * WIDTH + unit, mask=unit < WIDTH, other=0).to(tl.float32)
            biases += (bias[None, :],)
    met_at += (way * tl.num_programs(1) + tl.program_id(1)) * steps
    cell = tl.zeros([ROWS, UNITS], tl.float32)
    if KIND == "lstm":
        cell = tl.load(c_at + (way * batch + row)[:, None] * WIDTH + unit[None, :], mask=mine, other=0).to(tl.float32)
    if KIND == "gru":
        before = tl.load(h_at + (way * batch + row)[:, None] * WIDTH + unit[None, :], mask=mine, other=0).to(tl.float32)
    for t in range(steps):
        line = (t * ways + way).to(tl.int64) * batch + row  # where the rows of this step are
        after = line + ways * batch
        drives = ()
        for g in tl.static_range(GATES):
            sums = drive_at + line[:, None] * (GATES * WIDTH) + g * WIDTH + unit[None, :]
            drives += (tl.load(sums, mask=mine, other=0).to(tl.float32),)
        if t > 0:
            meet(met_at + t - 1, programs)
        asked = product(
            h_at, line, row < batch, across, weights, WIDTH, BLOCK, TURNS, PARTS, ROWS, UNITS * LANES, PRECISION
        )
        if KIND == "rnn":
            if BIAS:
                asked += biases[0]
            new = tanh(drives[0] + asked)
        else:
            low, high = tl.split(tl.reshape(asked, [ROWS, UNITS, 2, 2]))  # gates 0 and 2, 1 and 3
            one, three = tl.split(low)
            two, four = tl.split(high)
            if BIAS:
                one += biases[0]
                two += biases[1]
                three += biases[2]
            if KIND == "lstm":
                if BIAS:
                    four += biases[3]
                enter, forget = tl.sigmoid(drives[0] + one), tl.sigmoid(drives[1] + two)
                candidate, leave = tanh(drives[2] + three), tl.sigmoid(drives[3] + four)
                cell = forget * cell + enter * candidate
                new = leave * tanh(cell)
            else:
                reset, keep = tl.sigmoid(drives[0] + one), tl.sigmoid(drives[1] + two)
                candidate = tanh(drives[2] + reset * three)
                new = candidate + keep * (before - candidate)
                before = new.to(narrow).to(tl.float32)
        tl.store(h_at + after[:, None] * WIDTH + unit[None, :], new.to(narrow), mask=mine)
        tell(met_at + t)
        if KIND == "lstm":
            tl.store(cells_at + line[:, None] * WIDTH + unit[None, :], cell.to(cells_at.dtype.element_ty), mask=mine)
        if KEEP:
            kept = kept_at + line[:, None] * (4 * WIDTH) + unit[None, :]
            if KIND == "lstm":
                tl.store(kept, enter.to(narrow), mask=mine)
                tl.store(kept + WIDTH, forget.to(narrow), mask=mine)
                tl.store(kept + 2 * WIDTH, candidate.to(narrow), mask=mine)
                tl.store(kept + 3 * WIDTH, leave.to(narrow), mask=mine)
            else:
                tl.store(kept, reset.to(narrow), mask=mine)
                tl.store(kept + WIDTH, keep.to(narrow), mask=mine)
                tl.store(kept + 2 * WIDTH, candidate.to(narrow), mask=mine)
                tl.store(kept + 3 * WIDTH, three.to(narrow), mask=mine)


@triton.jit
def back(
    U_at, h_at, c_at, cells_at, kept_at, of_h_at, of_c_at, by_drive_at, by_asked_at, by_h_at, by_c_at, met_at,
    steps, ways, batch, programs,
    KIND: tl.constexpr, WIDTH: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr, OF_H: tl.constexpr, OF_C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """From the gradients of all h (and c) to those of both sums of every step, and of the first h and c.

    by_asked_at (T K B G) is what programs hand each other; rnn and lstm have nothing else, so it is by_drive_at too.
    """
    GATES: tl.constexpr = 4 if KIND == "lstm" else 3 if KIND == "gru" else 1
    SUMS: tl.constexpr = GATES * WIDTH
    TURNS: tl.constexpr = (SUMS + BLOCK - 1) // BLOCK
    SHARE: tl.constexpr = BLOCK // PARTS
    narrow = U_at.dtype.element_ty
    way = tl.program_id(2)
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    mine = (row < batch)[:, None] & (unit < WIDTH)[None, :]
    column = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, :, None]
    across = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, None, :]
    weights = ()
    for turn in tl.static_range(TURNS):
        inside = (unit < WIDTH)[None, None, :] & (column + turn * BLOCK < SUMS)
        place = (way * SUMS + column + turn * BLOCK).to(tl.int64) * WIDTH + unit[None, None, :]
        weights += (tl.load(U_at + place, mask=inside, other=0),)
    met_at += (way * tl.num_programs(1) + tl.program_id(1)) * steps
    by_h = tl.zeros([ROWS, UNITS], tl.float32)
    by_c = tl.zeros([ROWS, UNITS], tl.float32)
    for back_t in range(steps):
        t = steps - 1 - back_t
        line = (t * ways + way).to(tl.int64) * batch + row
        after = line + ways * batch
        cells = line[:, None] * WIDTH + unit[None, :]
        kept = kept_at + line[:, None] * (4 * WIDTH) + unit[None, :]
        if KIND == "rnn":
            shown = tl.load(h_at + after[:, None] * WIDTH + unit[None, :], mask=mine, other=0).to(tl.float32)
        else:
            one = tl.load(kept, mask=mine, other=0).to(tl.float32)
            two = tl.load(kept + WIDTH, mask=mine, other=0).to(tl.float32)
            candidate = tl.load(kept + 2 * WIDTH, mask=mine, other=0).to(tl.float32)
            four = tl.load(kept + 3 * WIDTH, mask=mine, other=0).to(tl.float32)
        if KIND == "lstm":
            shown = tanh(tl.load(cells_at + cells, mask=mine, other=0).to(tl.float32))
            if t > 0:
                older = tl.load(cells_at + cells - ways * batch * WIDTH, mask=mine, other=0).to(tl.float32)
            else:
                older = tl.load(c_at + cells, mask=mine, other=0).to(tl.float32)
            if OF_C:
                by_c += tl.load(of_c_at + cells, mask=mine, other=0).to(tl.float32)
        if KIND == "gru":
            older = tl.load(h_at + cells, mask=mine, other=0).to(tl.float32)
        if OF_H:
            by_h += tl.load(of_h_at + cells, mask=mine, other=0).to(tl.float32)
        if back_t > 0:
            meet(met_at + t + 1, programs)
            by_h += product(by_asked_at, after, row < batch, across, weights, SUMS, BLOCK, TURNS, PARTS, ROWS, UNITS,
                            PRECISION)  # fmt: skip
        sums = line[:, None] * SUMS + unit[None, :]
        if KIND == "rnn":
            tl.store(by_asked_at + sums, (by_h * (1 - shown * shown)).to(narrow), mask=mine)
            tell(met_at + t)
            by_h = tl.zeros([ROWS, UNITS], tl.float32)
        elif KIND == "lstm":
            by_c += by_h * four * (1 - shown * shown)
            tl.store(by_asked_at + sums, (by_c * candidate * one * (1 - one)).to(narrow), mask=mine)
            tl.store(by_asked_at + sums + WIDTH, (by_c * older * two * (1 - two)).to(narrow), mask=mine)
            tl.store(by_asked_at + sums + 2 * WIDTH, (by_c * one * (1 - candidate * candidate)).to(narrow), mask=mine)
            tl.store(by_asked_at + sums + 3 * WIDTH, (by_h * shown * four * (1 - four)).to(narrow), mask=mine)
            tell(met_at + t)
            by_c = by_c * two
            by_h = tl.zeros([ROWS, UNITS], tl.float32)
        else:
            of_candidate = by_h * (1 - two) * (1 - candidate * candidate)
            of_reset = (of_candidate * four * one * (1 - one)).to(narrow)
            of_keep = (by_h * (older - candidate) * two * (1 - two)).to(narrow)
            tl.store(by_asked_at + sums, of_reset, mask=mine)
            tl.store(by_asked_at + sums + WIDTH, of_keep, mask=mine)
            tl.store(by_asked_at + sums + 2 * WIDTH, (of_candidate * one).to(narrow), mask=mine)
            tell(met_at + t)
            tl.store(by_drive_at + sums, of_reset, mask=mine)
            tl.store(by_drive_at + sums + WIDTH, of_keep, mask=mine)
            tl.store(by_drive_at + sums + 2 * WIDTH, of_candidate.to(narrow), mask=mine)
            by_h = by_h * two
    meet(met_at, programs)
    line = (way * batch + row).to(tl.int64)
    by_h += product(by_asked_at, line, row < batch, across, weights, SUMS, BLOCK, TURNS, PARTS, ROWS, UNITS, PRECISION)
    place = line[:, None] * WIDTH + unit[None, :]
    tl.store(by_h_at + place, by_h.to(by_h_at.dtype.element_ty), mask=mine)
    if KIND == "lstm":
        tl.store(by_c_at + place, by_c.to(by_c_at.dtype.element_ty), mask=mine)


@triton.jit
def product(
    at, line, there, across, weights, SIZE: tl.constexpr, BLOCK: tl.constexpr, TURNS: tl.constexpr,
    PARTS: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """ROWS WIDE: the lines of SIZE numbers that programs stored at a step, times the weights that this one has."""
    total = tl.zeros([PARTS, ROWS, WIDE], tl.float32)
    for turn in tl.static_range(TURNS):
        inside = there[None, :, None] & (across + turn * BLOCK < SIZE)
        place = line[None, :, None] * SIZE + across + turn * BLOCK
        stored = tl.load(at + place, mask=inside, other=0, cache_modifier=".cg")  # past a cache that may be stale
        total = tl.dot(stored, weights[turn], total, input_precision=PRECISION)
    return tl.sum(total, 0)


@triton.jit
def tell(at):
    """This program has stored its part of a step."""
    tl.debug_barrier()
    tl.atomic_add(at, 1, sem="release", scope="gpu")


@triton.jit
def meet(at, programs):
    """Wait until all programs have stored their part."""
    seen = tl.atomic_add(at, 0, sem="acquire", scope="gpu")
    while seen < programs:
        seen = tl.atomic_add(at, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()
