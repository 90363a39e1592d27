"""The most probable tokens of a decoding step, from logits, in two kernels: top candidates of each tile, then of all.

A candidate is one 64-bit integer, log p in the high bits and place in the low ones, packed so that the larger of two is
the more probable, and of equals the one that comes first. `find_in_tiles` reads the logits once: of each tile of a row
it stores the largest, Σ exp(logit − largest), and the best candidates in order. The normaliser of a row is known only
when all tiles are read; the order within a row does not depend on it. Of tokens whose log p rounds to the same number,
the one with the higher logit may come first.

The second kernel has a program for each sentence: `write_best` stores the most probable token, `advance_beam` is a
whole step of beam search. `find_in_tiles` counts the step, so that all programs of the second read the same.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

GROUP = tl.constexpr(32)  # tokens that are read again when the best of them is taken
ABSENT = tl.constexpr(-(2**63))  # less than any candidate
LAST = tl.constexpr(2**31 - 1)
NEVER = tl.constexpr(-float("inf"))
MANY = 1 << 16  # tokens: above, tiles are larger, so that they stay few


@triton.jit
def pack(value, place):
    """A candidate: `value` in bits that are ordered as numbers are, then `place` with all its bits inverted."""
    value = tl.where(value == value, value, NEVER)
    value = tl.where(value == 0, 0.0, value)  # -0 is no less
    bits = value.to(tl.int32, bitcast=True)
    return ((bits ^ ((bits >> 31) & LAST)).to(tl.int64) << 32) + (place ^ LAST)


@triton.jit
def unpack_value(candidate):
    bits = (candidate >> 32).to(tl.int32)
    return (bits ^ ((bits >> 31) & LAST)).to(tl.float32, bitcast=True)


@triton.jit
def unpack_place(candidate):
    return ((candidate & LAST) ^ LAST).to(tl.int32)


@triton.jit
def candidates_of(x, token, size, dead, forbidden_at, forbidden):
    """The candidates of allowed tokens, by logit; all alike where the prefix is `dead`."""
    x = tl.where(dead, NEVER, x)
    for nth in range(forbidden):
        x = tl.where(token == tl.load(forbidden_at + nth), NEVER, x)
    return tl.where(token < size, pack(x, token), ABSENT)


@triton.jit(do_not_specialize=["before_at", "forbidden_at", "forbidden"])
def find_in_tiles(
    logits_at, before_at, forbidden_at, step_at, tops_at, sums_at, candidates_at, size, row_size, forbidden,
    COUNT: tl.constexpr, GROUPS: tl.constexpr, BEFORE: tl.constexpr,
):  # fmt: skip
    """The COUNT best candidates of each tile, best first, and its Σ exp(logit − largest); the step is counted."""
    row, tile, tiles = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    if (row == 0) & (tile == 0):
        tl.store(step_at, tl.load(step_at) + 1)
    group, within = tl.arange(0, GROUPS), tl.arange(0, GROUP)
    token = tile * GROUPS * GROUP + group[:, None] * GROUP + within[None, :]
    logits_at += row * row_size
    x = tl.load(logits_at + token, mask=token < size, other=NEVER).to(tl.float32)
    top = tl.max(tl.max(x, 1), 0)
    total = tl.sum(tl.sum(tl.exp(x - tl.where(top == NEVER, 0, top)), 1), 0)
    here = row * tiles + tile
    tl.store(tops_at + here, top)
    tl.store(sums_at + here, total)
    dead = False
    if BEFORE:
        dead = tl.load(before_at + row) == NEVER
    heads = tl.max(
        candidates_of(x, token, size, dead, forbidden_at, forbidden), 1
    )  # the best of each group that is left
    for nth in range(COUNT):
        best = tl.max(heads, 0)
        tl.store(candidates_at + here * COUNT + nth, best)
        if COUNT > 1:
            near = unpack_place(best) // GROUP * GROUP + within
            again = tl.load(logits_at + near, mask=near < size, other=NEVER).to(tl.float32)
            candidates = candidates_of(again, near, size, dead, forbidden_at, forbidden)
            after = tl.max(tl.where(candidates < best, candidates, ABSENT), 0)
            heads = tl.where(heads == best, after, heads)


@triton.jit
def log_sums(tops, sums):
    """log Σ exp of each row's logits, from its tiles; NaN where a logit was NaN or +inf."""
    top = tl.max(tops, 1)
    base = tl.where(top == NEVER, 0, top)
    total = tl.sum(sums * tl.exp(tops - base[:, None]), 1)
    return top + tl.log(tl.where(total == 0, 1, total))  # nothing in it: top is -inf


@triton.jit
def is_none(log_sum):
    """Whether a row has no valid log p: its normaliser is NaN, or all its logits are -inf."""
    return (log_sum != log_sum) | (log_sum == NEVER)


@triton.jit(do_not_specialize=["tiles", "size", "room"])
def write_best(
    tops_at, sums_at, candidates_at, step_at, token_at, tokens_at, logprobs_at, tiles, size, room, TILES: tl.constexpr
):  # fmt: skip
    """The most probable token of a row, and its log p, stored at this step of the row."""
    row, step = tl.program_id(0).to(tl.int64), tl.load(step_at) - 1
    tile = tl.arange(0, TILES)[None, :]
    here, there = row * tiles + tile, tile < tiles
    tops = tl.load(tops_at + here, mask=there, other=NEVER)
    sums = tl.load(sums_at + here, mask=there, other=0)
    candidates = tl.load(candidates_at + here, mask=there, other=ABSENT)
    log_sum = log_sums(tops, sums)  # of one row
    candidates = tl.where(
        candidates == ABSENT, ABSENT, pack(unpack_value(candidates) - log_sum[:, None], unpack_place(candidates))
    )
    best = tl.max(candidates, 1)
    token = tl.minimum(unpack_place(best), size - 1).to(tl.int64)
    one = tl.arange(0, 1)
    tl.store(token_at + row + one, token)
    tl.store(tokens_at + row * room + step + one, token)
    tl.store(logprobs_at + row * room + step + one, tl.where(is_none(log_sum), float("nan"), unpack_value(best)))


@triton.jit
def carried(candidate, before, log_sum, slot, size):
    """A candidate of one prefix as a candidate of its sentence, at place slot · size + token."""
    value = before[:, None] + (unpack_value(candidate) - log_sum[:, None])
    return tl.where(candidate == ABSENT, ABSENT, pack(value, slot[:, None] * size + unpack_place(candidate)))


@triton.jit(do_not_specialize=["tiles", "size", "end"])
def advance_beam(
    tops_at, sums_at, candidates_at, step_at, token_at, logprob_at, parents_at, tokens_at, logprobs_at,
    node_at, ended_at, score_at, norms_at, limit_at, outlook_at, over_at, broken_at, rows_at, tiles, size, end,
    BEAM: tl.constexpr, NBEST: tl.constexpr, COUNT: tl.constexpr,
    WIDE_BEAM: tl.constexpr, WIDE_NBEST: tl.constexpr, WIDE_COUNT: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """One step of beam search for a sentence: of its COUNT best candidates, BEAM that do not end continue, and those
    among the first BEAM that end are finished texts.

    The candidates of a tile are sorted: `heads` holds the first of each tile of each prefix that is not taken.
    WIDE_… are the powers of two that hold BEAM, NBEST and COUNT, and TILES that holds `tiles`.
    """
    sentence, step = tl.program_id(0).to(tl.int64), tl.load(step_at) - 1
    slot, tile = tl.arange(0, WIDE_BEAM), tl.arange(0, TILES)
    real = slot < BEAM
    here, there = (sentence * BEAM + slot)[:, None] * tiles + tile[None, :], real[:, None] & (tile < tiles)[None, :]
    tops = tl.load(tops_at + here, mask=there, other=NEVER)
    sums = tl.load(sums_at + here, mask=there, other=0)
    log_sum = log_sums(tops, sums)
    before = tl.load(logprob_at + sentence * BEAM + slot, mask=real, other=NEVER)
    heads = carried(tl.load(candidates_at + here * COUNT, mask=there, other=ABSENT), before, log_sum, slot, size)
    taken = tl.zeros([WIDE_BEAM, TILES], tl.int32)
    nth = tl.arange(0, WIDE_COUNT)
    chosen = tl.full([WIDE_COUNT], ABSENT, tl.int64)
    for turn in range(COUNT):
        best = tl.max(tl.max(heads, 1), 0)
        chosen = tl.where(nth == turn, best, chosen)
        hit = heads == best
        taken += hit.to(tl.int32)
        after = tl.load(candidates_at + here * COUNT + taken, mask=hit & there & (taken < COUNT), other=ABSENT)
        heads = tl.where(hit, carried(after, before, log_sum, slot, size), heads)

    logprob, place = unpack_value(chosen), tl.minimum(unpack_place(chosen), BEAM * size - 1)
    parent = place // size
    token = place - parent * size
    over, limit = tl.load(over_at + sentence) != 0, tl.load(limit_at + sentence)

    # texts: of equals the older stay first, then what comes first
    ends = (token == end) & (nth < BEAM) & (step < limit)  # beyond the limit they are too long to count
    score = tl.where(ends, tl.div_rn(logprob, tl.load(norms_at + step) + tl.zeros_like(logprob)), NEVER)
    text = tl.arange(0, WIDE_NBEST)
    old, held = sentence * NBEST + text, text < NBEST
    old_score = tl.load(score_at + old, mask=held, other=NEVER)
    old_node, old_logprob = tl.load(node_at + old, mask=held, other=0), tl.load(ended_at + old, mask=held, other=0)
    better = score[None, :] > old_score[:, None]
    old_rank = text + tl.sum(better.to(tl.int32), 1)
    sooner = (score[:, None] > score[None, :]) | ((score[:, None] == score[None, :]) & (nth[:, None] < nth[None, :]))
    rank = tl.sum((held[:, None] & (better == 0)).to(tl.int32), 0) + tl.sum(sooner.to(tl.int32), 0)
    tl.debug_barrier()  # until all old ones are read, since new ones are stored there
    new, enters = sentence * NBEST + rank, rank < NBEST
    tl.store(node_at + new, step * BEAM + parent, mask=enters)
    tl.store(ended_at + new, logprob, mask=enters)
    tl.store(score_at + new, score, mask=enters)
    old, stays = sentence * NBEST + old_rank, held & (old_rank < NBEST)
    tl.store(node_at + old, old_node, mask=stays)
    tl.store(ended_at + old, old_logprob, mask=stays)
    tl.store(score_at + old, old_score, mask=stays)
    worst = tl.maximum(
        tl.max(tl.where(old_rank == NBEST - 1, old_score, NEVER), 0),
        tl.max(tl.where(rank == NBEST - 1, score, NEVER), 0),
    )

    # prefixes: each has but one end, so that BEAM of 2 · BEAM candidates do not end
    goes = (token != end) & (nth < COUNT)
    position = tl.cumsum(goes.to(tl.int32), 0) - 1
    goes = goes & (position < BEAM)
    place = sentence * BEAM + position
    kept = (step * tl.num_programs(0) + sentence) * BEAM + position
    tl.store(token_at + place, token.to(tl.int64), mask=goes)
    tl.store(logprob_at + place, logprob, mask=goes)
    tl.store(rows_at + place, sentence * BEAM + parent, mask=goes)
    tl.store(parents_at + kept, parent.to(tl.int64), mask=goes)
    tl.store(tokens_at + kept, token.to(tl.int64), mask=goes)
    tl.store(logprobs_at + kept, logprob, mask=goes)

    broken = tl.max((real & is_none(log_sum)).to(tl.int32), 0) != 0
    if broken & (over == 0):
        tl.store(broken_at, True)
    hope = tl.max(tl.where(goes, logprob, NEVER), 0)
    settled = worst >= tl.div_rn(hope, tl.load(outlook_at + sentence))
    tl.store(over_at + sentence, over | settled | (limit <= step + 1))


class TileResults(NamedTuple):
    """Results of `find_in_tiles` for the tiles of each row."""

    tops: Tensor  # rows tiles, the largest logit
    sums: Tensor  # rows tiles, Σ exp(logit − largest)
    candidates: Tensor  # rows tiles count, best first


def find_candidates(
    logits: Tensor, forbidden: Tensor, at: Tensor, count: int, before: Tensor | None = None
) -> TileResults:
    """The `count` best candidates in each tile of the logits (rows V), for prefixes of log p `before` (rows)."""
    rows, size = logits.shape
    groups, warps = (32, 1) if size <= MANY else (128, 4)
    tiles = triton.cdiv(size, groups * GROUP.value)
    tops, sums = (logits.new_empty(rows, tiles, dtype=torch.float32) for _ in range(2))
    candidates = logits.new_empty(rows, tiles, count, dtype=torch.int64)
    # An absent tensor is replaced by any other: it is never read.
    with torch.cuda.device_of(logits):
        find_in_tiles[(rows, tiles)](
            *(logits, tops if before is None else before, forbidden, at, tops, sums, candidates),
            *(size, logits.stride(0), len(forbidden)),
            COUNT=count,
            GROUPS=groups,
            BEFORE=before is not None,
            num_warps=warps,
        )
    return TileResults(tops, sums, candidates)


def write_likeliest(
    logits: Tensor, forbidden: Tensor, *, token: Tensor, tokens: Tensor, logprobs: Tensor, at: Tensor
) -> None:
    """Store the most probable token of each row (B V) in `token` (B), and with its log p at step `at` of the rest."""
    found = find_candidates(logits, forbidden, at, 1)
    tiles = found.tops.shape[1]
    with torch.cuda.device_of(logits):
        write_best[(len(logits),)](
            *(*found, at, token, tokens, logprobs, tiles, logits.shape[1], tokens.shape[1]),
            TILES=triton.next_power_of_2(tiles),
            num_warps=1,
        )


def search_on(
    logits: Tensor, forbidden: Tensor, end: int, *, prefixes: tuple[Tensor, Tensor], kept: tuple[Tensor, ...],
    finished: tuple[Tensor, ...], norms: Tensor, limit: Tensor, outlook: Tensor, over: Tensor, broken: Tensor,
    at: Tensor,
) -> Tensor:  # fmt: skip
    """One step of beam search from logits (N·K V), in place; returns the row that each prefix continues (N·K).

    `prefixes` are tokens and log p (N K), `kept` parents, tokens and log p of all steps (T N K), `finished` nodes,
    log p and scores (N nbest).
    """
    (count, beam), nbest = prefixes[1].shape, finished[0].shape[1]
    found = find_candidates(logits, forbidden, at, 2 * beam, prefixes[1])
    tiles = found.tops.shape[1]
    wide = {
        "WIDE_BEAM": triton.next_power_of_2(beam),
        "WIDE_NBEST": triton.next_power_of_2(nbest),
        "WIDE_COUNT": triton.next_power_of_2(2 * beam),
        "TILES": triton.next_power_of_2(tiles),
    }
    rows = torch.empty(count * beam, dtype=torch.int64, device=logits.device)
    with torch.cuda.device_of(logits):
        advance_beam[(count,)](
            *(*found, at, *prefixes, *kept, *finished, norms, limit, outlook, over, broken, rows),
            *(tiles, logits.shape[1], end),
            BEAM=beam,
            NBEST=nbest,
            COUNT=2 * beam,
            **wide,
            num_warps=min(8, max(1, wide["WIDE_BEAM"] * wide["TILES"] // 256)),
        )
    return rows
