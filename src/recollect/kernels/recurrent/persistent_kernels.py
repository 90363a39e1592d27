"""Persistent kernels of recurrent cells: all steps in one launch, the weights held on the chip.

A product with U once a step is small: a launch for each costs more than its arithmetic. Here a program has a few units
of a layer and holds their rows of U on the chip for all steps. It reads h of the step before from memory, computes its
units of the next h, and signals the other programs of the same rows and direction through a counter in memory.

All programs must run concurrently, or waiting ones would deadlock: so the launch is cooperative.
"""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportPossiblyUnboundVariable=false, reportIndexIssue=false

import triton
import triton.language as tl

from ..activations import tanh


@triton.jit
def forward(
    from_x_at, U_at, d_at, h_at, c_at, cells_at, saved_at, arrived_at, steps, directions, batch, programs,
    KIND: tl.constexpr, WIDTH: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr, BIAS: tl.constexpr, SAVE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """UNITS of WIDTH units of one direction, ROWS rows: h_at (T+1 K B W) holds the initial h and gets the others."""
    GATES: tl.constexpr = 4 if KIND == "lstm" else 3 if KIND == "gru" else 1
    LANES: tl.constexpr = 1 if KIND == "rnn" else 4  # of a unit in the product: its gates, made a power of two
    TURNS: tl.constexpr = (WIDTH + BLOCK - 1) // BLOCK
    SHARE: tl.constexpr = BLOCK // PARTS
    narrow = U_at.dtype.element_ty
    first = tl.program_id(0) * UNITS
    direction = tl.program_id(2)
    lane = tl.arange(0, UNITS * LANES)
    gate, own = lane % LANES, first + lane // LANES
    column = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, :, None]
    across = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, None, :]
    weights = ()
    for turn in tl.static_range(TURNS):
        inside = ((gate < GATES) & (own < WIDTH))[None, None, :] & (column + turn * BLOCK < WIDTH)
        place = (
            (direction * GATES * WIDTH + gate * WIDTH + own).to(tl.int64)[None, None, :] * WIDTH + column + turn * BLOCK
        )
        weights += (tl.load(U_at + place, mask=inside, other=0),)
    unit = first + tl.arange(0, UNITS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    mine = (row < batch)[:, None] & (unit < WIDTH)[None, :]
    if BIAS:
        biases = ()
        for g in tl.static_range(GATES):
            bias = tl.load(d_at + (direction * GATES + g) * WIDTH + unit, mask=unit < WIDTH, other=0).to(tl.float32)
            biases += (bias[None, :],)
    arrived_at += (direction * tl.num_programs(1) + tl.program_id(1)) * steps
    cell = tl.zeros([ROWS, UNITS], tl.float32)
    if KIND == "lstm":
        cell = tl.load(c_at + (direction * batch + row)[:, None] * WIDTH + unit[None, :], mask=mine, other=0).to(
            tl.float32
        )
    if KIND == "gru":
        before = tl.load(h_at + (direction * batch + row)[:, None] * WIDTH + unit[None, :], mask=mine, other=0).to(
            tl.float32
        )
    for t in range(steps):
        line = (t * directions + direction).to(tl.int64) * batch + row  # where the rows of this step are
        after = line + directions * batch
        from_x = ()
        for g in tl.static_range(GATES):
            sums = from_x_at + line[:, None] * (GATES * WIDTH) + g * WIDTH + unit[None, :]
            from_x += (tl.load(sums, mask=mine, other=0).to(tl.float32),)
        if t > 0:
            wait_for_all(arrived_at + t - 1, programs)
        from_h = product(
            h_at, line, row < batch, across, weights, WIDTH, BLOCK, TURNS, PARTS, ROWS, UNITS * LANES, PRECISION
        )
        if KIND == "rnn":
            if BIAS:
                from_h += biases[0]
            new = tanh(from_x[0] + from_h)
        else:
            low, high = tl.split(tl.reshape(from_h, [ROWS, UNITS, 2, 2]))  # gates 0 and 2, 1 and 3
            one, three = tl.split(low)
            two, four = tl.split(high)
            if BIAS:
                one += biases[0]
                two += biases[1]
                three += biases[2]
            if KIND == "lstm":
                if BIAS:
                    four += biases[3]
                input_gate, forget_gate = tl.sigmoid(from_x[0] + one), tl.sigmoid(from_x[1] + two)
                candidate, output_gate = tanh(from_x[2] + three), tl.sigmoid(from_x[3] + four)
                cell = forget_gate * cell + input_gate * candidate
                new = output_gate * tanh(cell)
            else:
                reset, update = tl.sigmoid(from_x[0] + one), tl.sigmoid(from_x[1] + two)
                candidate = tanh(from_x[2] + reset * three)
                new = candidate + update * (before - candidate)
                before = new.to(narrow).to(tl.float32)
        tl.store(h_at + after[:, None] * WIDTH + unit[None, :], new.to(narrow), mask=mine)
        signal(arrived_at + t)
        if KIND == "lstm":
            tl.store(cells_at + line[:, None] * WIDTH + unit[None, :], cell.to(cells_at.dtype.element_ty), mask=mine)
        if SAVE:
            saved = saved_at + line[:, None] * (4 * WIDTH) + unit[None, :]
            if KIND == "lstm":
                tl.store(saved, input_gate.to(narrow), mask=mine)
                tl.store(saved + WIDTH, forget_gate.to(narrow), mask=mine)
                tl.store(saved + 2 * WIDTH, candidate.to(narrow), mask=mine)
                tl.store(saved + 3 * WIDTH, output_gate.to(narrow), mask=mine)
            else:
                tl.store(saved, reset.to(narrow), mask=mine)
                tl.store(saved + WIDTH, update.to(narrow), mask=mine)
                tl.store(saved + 2 * WIDTH, candidate.to(narrow), mask=mine)
                tl.store(saved + 3 * WIDTH, three.to(narrow), mask=mine)


@triton.jit
def backward(
    U_at, h_at, c_at, cells_at, saved_at, grad_hidden_at, grad_cells_at, grad_from_x_at, grad_from_h_at,
    grad_h_at, grad_c_at, arrived_at, steps, directions, batch, programs,
    KIND: tl.constexpr, WIDTH: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr, GRAD_H: tl.constexpr, GRAD_C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """From the gradients of all h (and c) to those of W x + b and U h + d at every step, and of the initial h and c.

    grad_from_h_at (T K B G) is what programs exchange; rnn and lstm have one gradient for both.
    """
    GATES: tl.constexpr = 4 if KIND == "lstm" else 3 if KIND == "gru" else 1
    SUMS: tl.constexpr = GATES * WIDTH
    TURNS: tl.constexpr = (SUMS + BLOCK - 1) // BLOCK
    SHARE: tl.constexpr = BLOCK // PARTS
    narrow = U_at.dtype.element_ty
    direction = tl.program_id(2)
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    mine = (row < batch)[:, None] & (unit < WIDTH)[None, :]
    column = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, :, None]
    across = tl.arange(0, PARTS)[:, None, None] * SHARE + tl.arange(0, SHARE)[None, None, :]
    weights = ()
    for turn in tl.static_range(TURNS):
        inside = (unit < WIDTH)[None, None, :] & (column + turn * BLOCK < SUMS)
        place = (direction * SUMS + column + turn * BLOCK).to(tl.int64) * WIDTH + unit[None, None, :]
        weights += (tl.load(U_at + place, mask=inside, other=0),)
    arrived_at += (direction * tl.num_programs(1) + tl.program_id(1)) * steps
    grad_h = tl.zeros([ROWS, UNITS], tl.float32)
    grad_c = tl.zeros([ROWS, UNITS], tl.float32)
    for back_t in range(steps):
        t = steps - 1 - back_t
        line = (t * directions + direction).to(tl.int64) * batch + row
        after = line + directions * batch
        cells = line[:, None] * WIDTH + unit[None, :]
        saved = saved_at + line[:, None] * (4 * WIDTH) + unit[None, :]
        if KIND == "rnn":
            shown = tl.load(h_at + after[:, None] * WIDTH + unit[None, :], mask=mine, other=0).to(tl.float32)
        else:
            one = tl.load(saved, mask=mine, other=0).to(tl.float32)
            two = tl.load(saved + WIDTH, mask=mine, other=0).to(tl.float32)
            candidate = tl.load(saved + 2 * WIDTH, mask=mine, other=0).to(tl.float32)
            four = tl.load(saved + 3 * WIDTH, mask=mine, other=0).to(tl.float32)
        if KIND == "lstm":
            shown = tanh(tl.load(cells_at + cells, mask=mine, other=0).to(tl.float32))
            if t > 0:
                older = tl.load(cells_at + cells - directions * batch * WIDTH, mask=mine, other=0).to(tl.float32)
            else:
                older = tl.load(c_at + cells, mask=mine, other=0).to(tl.float32)
            if GRAD_C:
                grad_c += tl.load(grad_cells_at + cells, mask=mine, other=0).to(tl.float32)
        if KIND == "gru":
            older = tl.load(h_at + cells, mask=mine, other=0).to(tl.float32)
        if GRAD_H:
            grad_h += tl.load(grad_hidden_at + cells, mask=mine, other=0).to(tl.float32)
        if back_t > 0:
            wait_for_all(arrived_at + t + 1, programs)
            grad_h += product(
                grad_from_h_at, after, row < batch, across, weights, SUMS, BLOCK, TURNS, PARTS, ROWS, UNITS, PRECISION
            )
        sums = line[:, None] * SUMS + unit[None, :]
        if KIND == "rnn":
            tl.store(grad_from_h_at + sums, (grad_h * (1 - shown * shown)).to(narrow), mask=mine)
            signal(arrived_at + t)
            grad_h = tl.zeros([ROWS, UNITS], tl.float32)
        elif KIND == "lstm":
            grad_c += grad_h * four * (1 - shown * shown)
            tl.store(grad_from_h_at + sums, (grad_c * candidate * one * (1 - one)).to(narrow), mask=mine)
            tl.store(grad_from_h_at + sums + WIDTH, (grad_c * older * two * (1 - two)).to(narrow), mask=mine)
            tl.store(
                grad_from_h_at + sums + 2 * WIDTH, (grad_c * one * (1 - candidate * candidate)).to(narrow), mask=mine
            )
            tl.store(grad_from_h_at + sums + 3 * WIDTH, (grad_h * shown * four * (1 - four)).to(narrow), mask=mine)
            signal(arrived_at + t)
            grad_c = grad_c * two
            grad_h = tl.zeros([ROWS, UNITS], tl.float32)
        else:
            grad_candidate = grad_h * (1 - two) * (1 - candidate * candidate)
            grad_reset = (grad_candidate * four * one * (1 - one)).to(narrow)
            grad_update = (grad_h * (older - candidate) * two * (1 - two)).to(narrow)
            tl.store(grad_from_h_at + sums, grad_reset, mask=mine)
            tl.store(grad_from_h_at + sums + WIDTH, grad_update, mask=mine)
            tl.store(grad_from_h_at + sums + 2 * WIDTH, (grad_candidate * one).to(narrow), mask=mine)
            signal(arrived_at + t)
            tl.store(grad_from_x_at + sums, grad_reset, mask=mine)
            tl.store(grad_from_x_at + sums + WIDTH, grad_update, mask=mine)
            tl.store(grad_from_x_at + sums + 2 * WIDTH, grad_candidate.to(narrow), mask=mine)
            grad_h = grad_h * two
    wait_for_all(arrived_at, programs)
    line = (direction * batch + row).to(tl.int64)
    grad_h += product(
        grad_from_h_at, line, row < batch, across, weights, SUMS, BLOCK, TURNS, PARTS, ROWS, UNITS, PRECISION
    )
    place = line[:, None] * WIDTH + unit[None, :]
    tl.store(grad_h_at + place, grad_h.to(grad_h_at.dtype.element_ty), mask=mine)
    if KIND == "lstm":
        tl.store(grad_c_at + place, grad_c.to(grad_c_at.dtype.element_ty), mask=mine)


@triton.jit
def product(
    at, line, there, across, weights, SIZE: tl.constexpr, BLOCK: tl.constexpr, TURNS: tl.constexpr,
    PARTS: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """ROWS by WIDE: the rows of SIZE numbers that all programs stored at a step, times this program's weights."""
    total = tl.zeros([PARTS, ROWS, WIDE], tl.float32)
    for turn in tl.static_range(TURNS):
        inside = there[None, :, None] & (across + turn * BLOCK < SIZE)
        place = line[None, :, None] * SIZE + across + turn * BLOCK
        stored = tl.load(at + place, mask=inside, other=0, cache_modifier=".cg")  # past a cache that may be stale
        total = tl.dot(stored, weights[turn], total, input_precision=PRECISION)
    return tl.sum(total, 0)


@triton.jit
def signal(at):
    """Count this program as having stored its part of a step."""
    tl.debug_barrier()
    tl.atomic_add(at, 1, sem="release", scope="gpu")


@triton.jit
def wait_for_all(at, programs):
    """Wait until all programs have stored their part of a step."""
    seen = tl.atomic_add(at, 0, sem="acquire", scope="gpu")
    while seen < programs:
        seen = tl.atomic_add(at, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()
