"""Kernels of one step of attention by additive scores: score = vector · tanh(query + key).

A program is one row; it reads its source BLOCK places at a time, each key and value once. Sums over places are kept
separate for each place of a block and combined at the end, so that threads seldom synchronise; the next block is loaded
while this one is computed. No program adds to another's sums: the same inputs give the same bits.

KEY and VALUE are the widths of a key and of a value, WIDE_KEY and WIDE_VALUE the powers of two that hold them.
"""
# pyright: reportMissingImports=false, reportArgumentType=false, reportOperatorIssue=false

import triton
import triton.language as tl

from ..activations import tanh

SPAN = tl.constexpr(256)  # scores normalised at a time


@triton.jit(do_not_specialize=["alignment_at", "valid_at", "places"])
def attend(
    query_at, keys_at, values_at, valid_at, vector_at, context_at, alignment_at, places,
    KEY: tl.constexpr, VALUE: tl.constexpr, WIDE_KEY: tl.constexpr, WIDE_VALUE: tl.constexpr,
    BLOCK: tl.constexpr, SAVE: tl.constexpr,
):  # fmt: skip
    """The context (B VALUE) and, with SAVE, the attention weights (B S), by an online softmax.

    Weights and their sums are relative to the largest score so far; a larger one scales them down.
    """
    dtype = keys_at.dtype.element_ty
    b = tl.program_id(0).to(tl.int64)
    place, in_key, in_value = tl.arange(0, BLOCK), tl.arange(0, WIDE_KEY), tl.arange(0, WIDE_VALUE)
    query = tl.load(query_at + b * KEY + in_key, mask=in_key < KEY, other=0)
    vector = tl.load(vector_at + in_key, mask=in_key < KEY, other=0)
    largest, weights = tl.full([BLOCK], -float("inf"), dtype), tl.zeros([BLOCK], dtype)
    weighted = tl.zeros([BLOCK, WIDE_VALUE], dtype)
    key = load_rows(keys_at, place, places, in_key, KEY)
    value = load_rows(values_at, place, places, in_value, VALUE)
    begin = 0
    while begin < places:
        s = begin + place
        next_key = load_rows(keys_at, s + BLOCK, places, in_key, KEY)
        next_value = load_rows(values_at, s + BLOCK, places, in_value, VALUE)
        valid = tl.load(valid_at + b * places + s, mask=s < places, other=0) != 0
        score = tl.where(valid, tl.sum(vector[None, :] * tanh(query[None, :] + key), 1), -float("inf"))
        if SAVE:
            tl.store(alignment_at + b * places + s, score, mask=s < places)
        now = tl.maximum(largest, score)
        base = tl.where(now == -float("inf"), 0, now)  # no valid place so far: -inf − -inf would be NaN
        scale, weight = tl.exp(largest - base), tl.exp(score - base)
        weights = weights * scale + weight
        weighted = weighted * scale[:, None] + weight[:, None] * value
        largest = now
        key, value = next_key, next_value
        begin += BLOCK
    top = tl.max(largest, 0)
    scale = tl.exp(largest - top)
    total = tl.sum(weights * scale, 0)
    context = tl.sum(weighted * scale[:, None], 0) / total
    tl.store(context_at + b * VALUE + in_value, context, mask=in_value < VALUE)
    if SAVE:
        tl.debug_barrier()  # until all scores are written
        begin = 0
        while begin < places:
            s = begin + tl.arange(0, SPAN)
            score = tl.load(alignment_at + b * places + s, mask=s < places, other=0)
            tl.debug_barrier()  # until all are read, since several threads may hold the same place
            tl.store(alignment_at + b * places + s, tl.exp(score - top) / total, mask=s < places)
            begin += SPAN


@triton.jit(do_not_specialize=["alignment_at", "context_at", "context_row", "places"])
def attend_backward(
    grad_context_at, context_at, alignment_at, query_at, keys_at, values_at, grad_query_at, grad_keys_at,
    grad_vector_at, context_row, places,
    KEY: tl.constexpr, VALUE: tl.constexpr, WIDE_KEY: tl.constexpr, WIDE_VALUE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of the query (B KEY); those of keys (B S KEY) and vector (B KEY) are added to.

    Those of query and keys lack the factor `vector`. Rows of `context` lie `context_row` numbers apart.
    """
    dtype = keys_at.dtype.element_ty
    b = tl.program_id(0).to(tl.int64)
    place, in_key, in_value = tl.arange(0, BLOCK), tl.arange(0, WIDE_KEY), tl.arange(0, WIDE_VALUE)
    query = tl.load(query_at + b * KEY + in_key, mask=in_key < KEY, other=0)
    grad_context = tl.load(grad_context_at + b * VALUE + in_value, mask=in_value < VALUE, other=0)
    context = tl.load(context_at + b * context_row + in_value, mask=in_value < VALUE, other=0)
    grad_query, grad_vector = tl.zeros([BLOCK, WIDE_KEY], dtype), tl.zeros([BLOCK, WIDE_KEY], dtype)
    key = load_rows(keys_at, place, places, in_key, KEY)
    value = load_rows(values_at, place, places, in_value, VALUE)
    begin = 0
    while begin < places:
        s = begin + place
        next_key = load_rows(keys_at, s + BLOCK, places, in_key, KEY)
        next_value = load_rows(values_at, s + BLOCK, places, in_value, VALUE)
        grad_key = load_rows(grad_keys_at, s, places, in_key, KEY)
        alignment = tl.load(alignment_at + b * places + s, mask=s < places, other=0)
        grad_score = alignment * tl.sum((value - context[None, :]) * grad_context[None, :], 1)
        mixed = tanh(query[None, :] + key)
        grad_sum = grad_score[:, None] * (1 - mixed * mixed)
        grad_query += grad_sum
        grad_vector += grad_score[:, None] * mixed
        store_rows(grad_keys_at, grad_key + grad_sum, s, places, in_key, KEY)
        key, value = next_key, next_value
        begin += BLOCK
    own = b * KEY + in_key
    tl.store(grad_query_at + own, tl.sum(grad_query, 0), mask=in_key < KEY)
    before = tl.load(grad_vector_at + own, mask=in_key < KEY, other=0)
    tl.store(grad_vector_at + own, before + tl.sum(grad_vector, 0), mask=in_key < KEY)


@triton.jit
def load_rows(at, place, places, column, COLUMNS: tl.constexpr):
    """The given places of this program's row, each COLUMNS wide; 0 beyond the last."""
    cells, there = locate(place, places, column, COLUMNS)
    return tl.load(at + cells, mask=there, other=0)


@triton.jit
def store_rows(at, numbers, place, places, column, COLUMNS: tl.constexpr):
    cells, there = locate(place, places, column, COLUMNS)
    tl.store(at + cells, numbers, mask=there)


@triton.jit
def locate(place, places, column, COLUMNS: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * places * COLUMNS
    there = (place < places)[:, None] & (column < COLUMNS)[None, :]
    return first + place[:, None] * COLUMNS + column[None, :], there
