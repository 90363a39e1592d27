"""Soft alignment over a whole chunk, its gradient written out, so that a step does no more than it must.

What depends on x alone is one product for all steps, and so are the gradients of all weights; only what needs the last
h goes step by step, forth and back. On a GPU the gates of a cell are torch's one kernel, and a look at the source is
one of look_up.py where it has one; what stands here is the definition of both.

Letters: B rows, T steps, D width of x, M of the context, W of h, G = gates · W, S places of the source, a of a key.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from ... import kernels
from ..recurrent.gates import Gates

Look = Callable[[int, Tensor], Tensor]  # from the number of a step and its h (B W) to the context (B M)
WIDEST = 4096  # key or value that a kernel takes


class Source(NamedTuple):
    keys: Tensor  # B S a
    values: Tensor  # B S M
    valid: Tensor  # B S, bool


class Weights(NamedTuple):
    W: Tensor  # G D, or G D+M where the context is fed to the cell
    U: Tensor  # G W
    b: Tensor | None  # G, of x
    d: Tensor | None  # G, of h
    query: Tensor  # a W
    vector: Tensor | None  # a, of additive scores; None: a score is the product of query and key


class Kept(NamedTuple):
    """What a backward pass needs of the steps."""

    asked: Tensor | None  # of additive scores: T B S a, tanh(query + key), or T B a, the query, where a kernel looks
    shares: list[Tensor]  # T times B S
    gates: list[tuple[Tensor, ...]]  # T times what the cell keeps


class Found(NamedTuple):
    hidden: Tensor  # B T W
    contexts: Tensor  # B T M
    h: Tensor  # B W, the last
    context: Tensor  # B M, the last
    c: Tensor | None  # B W, the last of a cell that has one


def loop(
    x: Tensor, h: Tensor, c: Tensor | None, context: Tensor, source: Source, weights: Weights, gates: Gates, first: bool
) -> Found:
    """All steps of x (B T D) from h, c and context; `first`: the context is looked up before the cell moves on."""
    form = form_of(source, weights)
    if torch.is_grad_enabled():
        return Found(*Loop.apply(form, gates, first, x, h, c, context, *source, *weights))
    return forth(form, x, h, c, context, source, weights, gates, first, keep=False)[0]


class Form(NamedTuple):
    """How the source is looked up."""

    looks: Callable[..., tuple[Look, Kept]]  # of source, weights, steps, keep; a look adds what it keeps
    back: "type[Back]"


def form_of(source: Source, weights: Weights) -> Form:
    keys, values, _ = source
    exact = keys.dtype in (torch.float32, torch.float64)
    fits = max(keys.shape[2], values.shape[2]) <= WIDEST
    if weights.vector is None or not (exact and fits and kernels.can_take(keys)):
        return Form(plain_looks, Back)
    from . import additive as look_up

    return Form(look_up.looks, look_up.BackByKernel)


def plain_looks(source: Source, weights: Weights, steps: int, *, keep: bool) -> tuple[Look, Kept]:
    (keys, values, valid), vector = source, weights.vector
    scores = torch.log(valid.expand(steps, -1, -1), out=values.new_empty(steps, *valid.shape))  # 0, or -inf for ever
    mixed = None if vector is None else keys.new_empty(steps if keep else 1, *keys.shape)
    kept = Kept(mixed, [], [])

    def look_up(t: int, h: Tensor) -> Tensor:
        query = linear(h, weights.query)[:, None]  # B 1 a
        if mixed is None or vector is None:
            score = scores[t][:, None]
            torch.baddbmm(score, query, keys.mT, out=score)
        else:
            sums, score = mixed[t if keep else 0], scores[t].view(-1, 1)
            torch.add(query, keys, out=sums).tanh_()
            torch.addmm(score, sums.flatten(0, 1), vector[:, None], out=score)
        share = scores[t].softmax(dim=-1)
        if keep:
            kept.shares.append(share)
        return torch.bmm(share[:, None], values)[:, 0]

    return look_up, kept


def forth(
    form: Form,
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    context: Tensor,
    source: Source,
    weights: Weights,
    gates: Gates,
    first: bool,
    *,
    keep: bool,
) -> tuple[Found, Kept]:
    _, steps, dim = x.shape
    fed = weights.W[:, dim:]  # G M, or nothing
    apart = steps > 1 or not fed.shape[1]  # one step is one product of x and context
    drive = linear(x.transpose(0, 1).contiguous(), weights.W[:, :dim], weights.b) if apart else None  # T B G
    look_up, kept = form.looks(source, weights, steps, keep=keep)
    hidden, contexts = [], []
    for t in range(steps):
        if first:
            context = look_up(t, h)
        if drive is None:
            now = linear(torch.cat([x[:, t], context], dim=-1), weights.W, weights.b)
        else:
            now = drive[t]
            if fed.shape[1]:
                torch.addmm(now, context, fed.mT, out=now)
        h, c, needed = gates.forth(now, linear(h, weights.U, weights.d), h, c)
        if not first:
            context = look_up(t, h)
        hidden.append(h)
        contexts.append(context)
        if keep:
            kept.gates.append(needed)
    if steps == 1 and not keep:
        return Found(h[:, None], context[:, None], h, context, c), kept
    return Found(torch.stack(hidden, dim=1), torch.stack(contexts, dim=1), h, context, c), kept


class Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: Any, gates: Any, first: Any, x: Any, h: Any, c: Any, context: Any, *rest: Any):
        source, weights = Source(*rest[:3]), Weights(*rest[3:])
        found, kept = forth(form, x, h, c, context, source, weights, gates, first, keep=True)
        ctx.set_materialize_grads(False)
        ctx.form, ctx.gates, ctx.first, ctx.steps = form, gates, first, x.shape[1]
        flat = [tensor for step in kept.gates for tensor in step]
        ctx.save_for_backward(x, h, context, *rest, found.hidden, found.contexts, kept.asked, *kept.shares, *flat)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *outer: Any):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "soft-align: expected a first derivative, found create_graph=True; for a second one take layer.unroll"
            )
        x, h, context, *rest = ctx.saved_tensors
        source, weights, (hidden, contexts, asked), rest = Source(*rest[:3]), Weights(*rest[3:9]), rest[9:12], rest[12:]
        shares, flat = rest[: ctx.steps], rest[ctx.steps :]
        size = len(flat) // ctx.steps
        kept = Kept(asked, shares, [tuple(flat[i : i + size]) for i in range(0, len(flat), size)])
        with torch.autocast(x.device.type, enabled=False):
            back = ctx.form.back(source, weights, kept, x, h, context, hidden, contexts, outer, ctx.gates, ctx.first)
            return None, None, None, *back.all_gradients()


class Back:
    """The way back through the steps; the gradients of weights are left until all steps are known."""

    def __init__(
        self,
        source: Source,
        weights: Weights,
        kept: Kept,
        x: Tensor,
        h: Tensor,
        context: Tensor,
        hidden: Tensor,
        contexts: Tensor,
        outer: tuple[Tensor | None, ...],
        gates: Gates,
        first: bool,
    ) -> None:
        self.source, self.weights, self.kept, self.gates, self.first = source, weights, kept, gates, first
        self.x, self.hidden, self.contexts, self.steps = x, hidden, contexts, len(kept.shares)
        self.h, self.context = h, context  # before the first step
        of_hidden, of_contexts, of_h, of_context, self.by_c = outer
        self.by_h = gathered(h, self.steps, of_hidden, of_h)  # T+1 B W: of h before each step, and after the last
        self.by_context = gathered(context, self.steps, of_contexts, of_context)  # T+1 B M
        vector = weights.vector
        self.query = weights.query if vector is None else vector[:, None] * weights.query
        self.by_keys = None if vector is None else torch.zeros_like(source.keys)  # but for the vector
        self.by_scores: list[Tensor] = []  # from the last step to the first
        self.by_query: list[Tensor] = []  # so too, and but for the vector

    def look_up(self, t: int, at: int) -> None:
        """Back through the look at step t, which h number `at` made."""
        of_query = self.of_query(t)
        add_product(self.by_h[at], of_query, self.query)
        self.by_query.append(of_query)

    def of_query(self, t: int) -> Tensor:
        """The gradient of the query at step t; what else the look has a part in is gathered."""
        keys, values, _ = self.source
        of_share = torch.bmm(self.by_context[t + 1][:, None], values.mT)[:, 0]
        share = self.kept.shares[t]
        of_score = torch.ops.aten._softmax_backward_data(of_share, share, -1, share.dtype)
        self.by_scores.append(of_score)
        if self.kept.asked is None or self.by_keys is None:
            return torch.bmm(of_score[:, None], keys)[:, 0]
        of_sum = torch.ops.aten.tanh_backward(of_score[..., None].expand_as(keys), self.kept.asked[t])
        self.by_keys.add_(of_sum)
        return of_sum.sum(dim=1)

    def all_gradients(self) -> tuple[Tensor | None, ...]:
        """Of x, h, c, context, keys, values, valid, and the weights in their order."""
        weights, first, dim = self.weights, self.first, self.x.shape[2]
        fed, of_gates, of_hidden_gates = weights.W[:, dim:], [], []
        for t in reversed(range(self.steps)):
            if not first:
                self.look_up(t, t + 1)
            of_gate, of_hidden_gate, direct, self.by_c = self.gates.back(
                self.kept.gates[t], self.by_h[t + 1], self.by_c
            )
            if fed.shape[1]:
                add_product(self.by_context[t + 1 if first else t], of_gate, fed)
            if direct is not None:
                self.by_h[t].add_(direct)
            add_product(self.by_h[t], of_hidden_gate, weights.U)
            if first:
                self.look_up(t, t)
            of_gates.append(of_gate)
            of_hidden_gates.append(of_hidden_gate)
        by_drive = torch.stack(of_gates[::-1], dim=1)  # B T G
        by_from_h = by_drive if of_gates[0] is of_hidden_gates[0] else torch.stack(of_hidden_gates[::-1], dim=1)
        before = after_first(self.h, self.hidden)
        by_W = weight_of(by_drive, self.x)
        if fed.shape[1]:
            seen = self.contexts if first else after_first(self.context, self.contexts)
            by_W = torch.cat([by_W, weight_of(by_drive, seen)], dim=1)
        by_keys, by_query, by_vector = self.of_scores(before if first else self.hidden)
        by_values = torch.bmm(torch.stack(self.kept.shares, dim=2), self.by_context[1:].transpose(0, 1))
        return (
            linear(by_drive, weights.W[:, :dim].mT),
            self.by_h[0],
            self.by_c,
            self.by_context[0],
            by_keys,
            by_values,
            None,
            by_W,
            weight_of(by_from_h, before),
            None if weights.b is None else by_drive.sum(dim=(0, 1)),
            None if weights.d is None else by_from_h.sum(dim=(0, 1)),
            by_query,
            by_vector,
        )

    def of_scores(self, looking: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The gradients of keys, query and vector; `looking` (B T W) are the h that asked."""
        of_query, vector = torch.stack(self.by_query[::-1], dim=1), self.weights.vector  # B T a
        by_query = weight_of(of_query, looking)
        if self.by_keys is None or vector is None:
            asked = linear(looking, self.weights.query)  # B T a
            return torch.bmm(torch.stack(self.by_scores[::-1], dim=2), asked), by_query, None
        return self.by_keys * vector, by_query * vector[:, None], self.of_vector()

    def of_vector(self) -> Tensor:
        assert self.kept.asked is not None
        return self.kept.asked.flatten(0, 2).mT @ torch.stack(self.by_scores[::-1]).flatten()


def gathered(like: Tensor, steps: int, each: Tensor | None, last: Tensor | None) -> Tensor:
    """T+1 B …: zeros for what stood before the first step, then `each` (B T …), with `last` added to the last."""
    found = like.new_zeros(steps + 1, *like.shape)
    if each is not None:
        found[1:].copy_(each.transpose(0, 1))
    if last is not None:
        found[-1].add_(last)
    return found


def after_first(first: Tensor, each: Tensor) -> Tensor:
    """B T …: what stood before each step, `first` before the first."""
    return torch.cat([first[:, None], each[:, :-1]], dim=1)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    torch.addmm(total, a, b, out=total)


def weight_of(of_y: Tensor, x: Tensor) -> Tensor:
    """The gradient of the weight of a linear map from x (B T D) to y (B T W), summed over rows and steps."""
    return of_y.flatten(0, 1).mT @ x.flatten(0, 1)
