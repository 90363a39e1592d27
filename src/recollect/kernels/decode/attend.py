"""The kernel of one step of self-attention: rotate q and k, append k and v to the cache, attend over the cache.

A program is one row, one head and one span of slots; with one row and twelve heads a program for each head alone would
leave most of the GPU idle. Spans beyond a row's clock end at once. The new key and value are taken from `qkv`, not from
their slot, which the first head of a group may not have written yet.

Where a row needs more than one span, each stores its weighted sum of values, its largest score and its sum of weights
and counts itself; the last to count combines all of them, always in the order of the spans, so the same inputs give the
same bits, and resets the count to 0. A second kernel could do that too, but short rows, which need
but one span, would wait for it as well.

OVERLAP as in linear.py: the clock, and the slots before it, are read before the wait.
"""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

GATHERED = tl.constexpr(16)  # spans combined at a time


@triton.jit
def attend(
    qkv_at, keys_at, values_at, clock_at, cos_at, sin_at, y_at, sums_at, largest_at, weight_at, counted_at,
    slots, spans, scale,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr,
    SPAN: tl.constexpr, BLOCK: tl.constexpr, ROTARY: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Heads have SIZE numbers in WIDTH places. `spans` spans of SPAN slots, gone through BLOCK at a time.

    ROTARY: how many numbers a row of the tables has, one for each pair or one for each number; 0 for no rotation.
    `scale` is that of the score, times log₂e. `sums`: B·H, spans, WIDTH; `largest` and `weight`: B·H, spans.
    """
    program, span = tl.program_id(0), tl.program_id(1)
    b, head = program // HEADS, program % HEADS
    group = head // (HEADS // GROUPS)
    clock = tl.minimum(tl.load(clock_at + b), slots).to(tl.int32)  # at `slots` there is no room to keep anything
    needed = tl.minimum(clock // SPAN + 1, spans)
    if span >= needed:
        return
    column, place = tl.arange(0, WIDTH), tl.arange(0, BLOCK)
    first = (b.to(tl.int64) * slots * GROUPS + group) * SIZE
    begin, end = span * SPAN, tl.minimum((span + 1) * SPAN, clock)  # the new key stands at `clock`
    if SPAN == BLOCK:
        k = load_slots(keys_at + first, begin + place, end, column, GROUPS, SIZE, WIDTH)
        v = load_slots(values_at + first, begin + place, end, column, GROUPS, SIZE, WIDTH)
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()
    inside = column < SIZE
    mine = qkv_at + b * (HEADS + 2 * GROUPS) * SIZE
    position = tl.minimum(clock, slots - 1)
    q = load_turned(mine + head * SIZE, cos_at, sin_at, position, column, SIZE, ROTARY) * scale
    new_k = load_turned(mine + (HEADS + group) * SIZE, cos_at, sin_at, position, column, SIZE, ROTARY)
    new_k = new_k.to(keys_at.dtype.element_ty)
    new_v = tl.load(mine + (HEADS + GROUPS + group) * SIZE + column, mask=inside, other=0)
    new_v = new_v.to(values_at.dtype.element_ty)
    keeps = (span == needed - 1) & (head % (HEADS // GROUPS) == 0) & (clock < slots)
    kept = first + clock.to(tl.int64) * GROUPS * SIZE + column
    tl.store(keys_at + kept, new_k, mask=inside & keeps)
    tl.store(values_at + kept, new_v, mask=inside & keeps)

    largest = tl.full([], float("-inf"), tl.float32)
    weight = tl.zeros([], tl.float32)
    total = tl.zeros([WIDTH], tl.float32)
    if SPAN == BLOCK:
        largest, weight, total = add_slots(q, k, v, new_k, new_v, begin + place, clock, slots, largest, weight, total)
    else:
        start = begin
        while start < tl.minimum(begin + SPAN, clock + 1):
            k = load_slots(keys_at + first, start + place, end, column, GROUPS, SIZE, WIDTH)
            v = load_slots(values_at + first, start + place, end, column, GROUPS, SIZE, WIDTH)
            largest, weight, total = add_slots(
                q, k, v, new_k, new_v, start + place, clock, slots, largest, weight, total
            )
            start += BLOCK

    y_to = y_at + program * SIZE + column
    if needed == 1:
        tl.store(y_to, (total / weight).to(y_at.dtype.element_ty), mask=inside)
    else:
        here = program * spans + span
        tl.store(sums_at + here * WIDTH + column, total)
        tl.store(largest_at + here, largest)
        tl.store(weight_at + here, weight)
        tl.debug_barrier()  # all threads have stored before one of them counts
        if tl.atomic_add(counted_at + program, 1, sem="acq_rel", scope="gpu") == needed - 1:
            y = gather(sums_at, largest_at, weight_at, program, spans, needed, column, WIDTH)
            tl.store(y_to, y.to(y_at.dtype.element_ty), mask=inside)
            tl.store(counted_at + program, 0)


@triton.jit
def gather(sums_at, largest_at, weight_at, program, spans, needed, column, WIDTH: tl.constexpr):
    """The output from the partial results of all spans, read past the first cache, which may be stale."""
    largest = tl.full([], float("-inf"), tl.float32)
    weight = tl.zeros([], tl.float32)
    total = tl.zeros([WIDTH], tl.float32)
    span = tl.arange(0, GATHERED)
    start = needed * 0
    while start < needed:
        here = program * spans + start + span
        there = start + span < needed
        found = tl.load(largest_at + here, mask=there, other=float("-inf"), cache_modifier=".cg")
        sums = tl.load(
            sums_at + here[:, None] * WIDTH + column[None, :], mask=there[:, None], other=0, cache_modifier=".cg"
        )
        weights = tl.load(weight_at + here, mask=there, other=0, cache_modifier=".cg")
        now = tl.maximum(largest, tl.max(found, 0))
        share, before = tl.exp2(found - now), tl.exp2(largest - now)
        weight = weight * before + tl.sum(weights * share, 0)
        total = total * before + tl.sum(sums * share[:, None], 0)
        largest = now
        start += GATHERED
    return total / weight


@triton.jit
def add_slots(q, k, v, new_k, new_v, slot, clock, slots, largest, weight, total):
    """The online softmax after the keys and values of some more slots."""
    new = (slot == clock)[:, None]
    k = tl.where(new, new_k[None, :], k).to(tl.float32)
    v = tl.where(new, new_v[None, :], v).to(tl.float32)
    score = tl.where((slot <= clock) & (slot < slots), tl.sum(q[None, :] * k, 1), float("-inf"))
    now = tl.maximum(largest, tl.max(score, 0))
    share, before = tl.exp2(score - now), tl.exp2(largest - now)
    return now, weight * before + tl.sum(share, 0), total * before + tl.sum(share[:, None] * v, 0)


@triton.jit
def load_slots(at, slot, end, column, GROUPS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    seen = (slot < end)[:, None]
    inside = seen & (column < SIZE)[None, :] if SIZE != WIDTH else seen
    return tl.load(at + slot[:, None].to(tl.int64) * (GROUPS * SIZE) + column[None, :], mask=inside, other=0)


@triton.jit
def load_turned(at, cos_at, sin_at, position, column, SIZE: tl.constexpr, ROTARY: tl.constexpr):
    """A head's query or key with rotary positions: each pair of neighbours rotated by the angle of its position."""
    inside = column < SIZE
    x = tl.load(at + column, mask=inside, other=0).to(tl.float32)
    if ROTARY:
        neighbour = tl.load(at + (column ^ 1), mask=inside, other=0).to(tl.float32)
        angle = position.to(tl.int64) * ROTARY + (column if ROTARY == SIZE else column // 2)
        cos = tl.load(cos_at + angle, mask=inside, other=0).to(tl.float32)
        sin = tl.load(sin_at + angle, mask=inside, other=0).to(tl.float32)
        x = x * cos + tl.where(column % 2 == 0, -neighbour, neighbour) * sin
    return x
