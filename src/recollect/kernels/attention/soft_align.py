"""Soft alignment over a whole chunk, with a backward pass of its own.

The input projections of all steps are one product, and so is the gradient of each weight; only what depends on the last
h runs step by step, forward and backward. On a GPU the gates of a cell are torch's fused kernel, and attention to the
source by additive scores is a kernel of additive.py, for which the operations here are the definition.

Letters: B rows, T steps, D width of x, M of the context, W of h, G = gates · W, S places of the source, a of a key.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from ... import kernels
from ..recurrent.gates import Gates

Attend = Callable[[int, Tensor], Tensor]  # from the number of a step and its h (B W) to the context (B M)
WIDEST = 4096  # the largest width of a key or value that the kernels take


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


class Saved(NamedTuple):
    """Tensors of the forward pass that the backward pass needs."""

    score_inputs: Tensor | None  # of additive scores: T B S a, tanh(query + key), or of the kernels: T B a, the queries
    alignments: list[Tensor]  # T times B S, the attention weights
    gates: list[tuple[Tensor, ...]]  # T times what the backward pass of the gates needs


class Outputs(NamedTuple):
    hidden: Tensor  # B T W
    contexts: Tensor  # B T M
    h: Tensor  # B W, the last
    context: Tensor  # B M, the last
    c: Tensor | None  # B W, the last of a cell that has one


def loop(
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    context: Tensor,
    source: Source,
    weights: Weights,
    gates: Gates,
    align_first: bool,
) -> Outputs:
    """All steps of x (B T D) from h, c and context; `align_first`: the source is attended to before the cell's step."""
    implementation = choose_implementation(source, weights)
    if torch.is_grad_enabled():
        return Outputs(*Loop.apply(implementation, gates, align_first, x, h, c, context, *source, *weights))
    return run_forward(implementation, x, h, c, context, source, weights, gates, align_first, save=False)[0]


class Implementation(NamedTuple):
    """Attention to the source, forward and backward, by plain operations or by kernels."""

    prepare: Callable[..., tuple[Attend, Saved]]  # of source, weights, steps, save; Attend appends to Saved
    backward: "type[Backward]"


def choose_implementation(source: Source, weights: Weights) -> Implementation:
    """The kernels for additive scores where they run and the widths fit, else plain operations."""
    keys, values, _ = source
    exact = keys.dtype in (torch.float32, torch.float64)
    fits = max(keys.shape[2], values.shape[2]) <= WIDEST
    if weights.vector is None or not (exact and fits and kernels.can_take(keys)):
        return Implementation(prepare_plain, Backward)
    from . import additive

    return Implementation(additive.prepare, additive.KernelBackward)


def prepare_plain(source: Source, weights: Weights, steps: int, *, save: bool) -> tuple[Attend, Saved]:
    """The function that attends to the source at a step, and the tensors that it saves."""
    (keys, values, valid), vector = source, weights.vector
    # 0 where valid, else -inf
    scores = torch.log(valid.expand(steps, -1, -1), out=values.new_empty(steps, *valid.shape))
    mixed = None if vector is None else keys.new_empty(steps if save else 1, *keys.shape)
    saved = Saved(mixed, [], [])

    def attend(t: int, h: Tensor) -> Tensor:
        query = linear(h, weights.query)[:, None]  # B 1 a
        if mixed is None or vector is None:
            score = scores[t][:, None]
            torch.baddbmm(score, query, keys.mT, out=score)
        else:
            sums, score = mixed[t if save else 0], scores[t].view(-1, 1)
            torch.add(query, keys, out=sums).tanh_()
            torch.addmm(score, sums.flatten(0, 1), vector[:, None], out=score)
        alignment = scores[t].softmax(dim=-1)
        if save:
            saved.alignments.append(alignment)
        return torch.bmm(alignment[:, None], values)[:, 0]

    return attend, saved


def run_forward(
    implementation: Implementation,
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    context: Tensor,
    source: Source,
    weights: Weights,
    gates: Gates,
    align_first: bool,
    *,
    save: bool,
) -> tuple[Outputs, Saved]:
    _, steps, dim = x.shape
    fed = weights.W[:, dim:]  # G M, or nothing
    apart = steps > 1 or not fed.shape[1]  # one step is one product of x and context
    from_x = linear(x.transpose(0, 1).contiguous(), weights.W[:, :dim], weights.b) if apart else None  # T B G
    attend, saved = implementation.prepare(source, weights, steps, save=save)
    hidden, contexts = [], []
    for t in range(steps):
        if align_first:
            context = attend(t, h)
        if from_x is None:
            now = linear(torch.cat([x[:, t], context], dim=-1), weights.W, weights.b)
        else:
            now = from_x[t]
            if fed.shape[1]:
                torch.addmm(now, context, fed.mT, out=now)
        h, c, needed = gates.forward(now, linear(h, weights.U, weights.d), h, c)
        if not align_first:
            context = attend(t, h)
        hidden.append(h)
        contexts.append(context)
        if save:
            saved.gates.append(needed)
    if steps == 1 and not save:
        return Outputs(h[:, None], context[:, None], h, context, c), saved
    return Outputs(torch.stack(hidden, dim=1), torch.stack(contexts, dim=1), h, context, c), saved


class Loop(torch.autograd.Function):
    """`run_forward` with `Backward` as its gradient."""

    @staticmethod
    def forward(
        ctx: Any, implementation: Any, gates: Any, align_first: Any, x: Any, h: Any, c: Any, context: Any, *rest: Any
    ):
        source, weights = Source(*rest[:3]), Weights(*rest[3:])
        found, saved = run_forward(implementation, x, h, c, context, source, weights, gates, align_first, save=True)
        ctx.set_materialize_grads(False)
        ctx.implementation, ctx.gates, ctx.align_first, ctx.steps = implementation, gates, align_first, x.shape[1]
        flat = [tensor for step in saved.gates for tensor in step]
        ctx.save_for_backward(
            x, h, context, *rest, found.hidden, found.contexts, saved.score_inputs, *saved.alignments, *flat
        )
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *outer: Any):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "soft-align: expected a first derivative, found create_graph=True; for a second one take layer.unroll"
            )
        x, h, context, *rest = ctx.saved_tensors
        source, weights = Source(*rest[:3]), Weights(*rest[3:9])
        (hidden, contexts, score_inputs), rest = rest[9:12], rest[12:]
        alignments, flat = rest[: ctx.steps], rest[ctx.steps :]
        size = len(flat) // ctx.steps
        saved = Saved(score_inputs, alignments, [tuple(flat[i : i + size]) for i in range(0, len(flat), size)])
        with torch.autocast(x.device.type, enabled=False):
            backward = ctx.implementation.backward(
                source, weights, saved, x, h, context, hidden, contexts, outer, ctx.gates, ctx.align_first
            )
            return None, None, None, *backward.all_gradients()


class Backward:
    """The backward pass through the steps; gradients of weights are products over all steps, taken at the end."""

    def __init__(
        self,
        source: Source,
        weights: Weights,
        saved: Saved,
        x: Tensor,
        h: Tensor,
        context: Tensor,
        hidden: Tensor,
        contexts: Tensor,
        outer: tuple[Tensor | None, ...],
        gates: Gates,
        align_first: bool,
    ) -> None:
        self.source, self.weights, self.saved, self.gates, self.align_first = source, weights, saved, gates, align_first
        self.x, self.hidden, self.contexts, self.steps = x, hidden, contexts, len(saved.alignments)
        self.h, self.context = h, context  # before the first step
        grad_hidden, grad_contexts, grad_last_h, grad_last_context, self.grad_c = outer
        # T+1 B W and T+1 B M: of h and context before each step, and after the last
        self.grad_h = by_step(h, self.steps, grad_hidden, grad_last_h)
        self.grad_context = by_step(context, self.steps, grad_contexts, grad_last_context)
        vector = weights.vector
        self.query = weights.query if vector is None else vector[:, None] * weights.query
        self.grad_keys = None if vector is None else torch.zeros_like(source.keys)  # without the factor `vector`
        self.grad_scores: list[Tensor] = []  # from the last step to the first
        self.grad_queries: list[Tensor] = []  # likewise, without the factor `vector`

    def attend(self, t: int, at: int) -> None:
        """Backward through the attention of step t, whose query came from h number `at`."""
        grad = self.backward_query(t)
        add_product(self.grad_h[at], grad, self.query)
        self.grad_queries.append(grad)

    def backward_query(self, t: int) -> Tensor:
        """The gradient of the query of step t; those of scores and keys are accumulated."""
        keys, values, _ = self.source
        grad_alignment = torch.bmm(self.grad_context[t + 1][:, None], values.mT)[:, 0]
        alignment = self.saved.alignments[t]
        grad_score = torch.ops.aten._softmax_backward_data(grad_alignment, alignment, -1, alignment.dtype)
        self.grad_scores.append(grad_score)
        if self.saved.score_inputs is None or self.grad_keys is None:
            return torch.bmm(grad_score[:, None], keys)[:, 0]
        grad_sum = torch.ops.aten.tanh_backward(grad_score[..., None].expand_as(keys), self.saved.score_inputs[t])
        self.grad_keys.add_(grad_sum)
        return grad_sum.sum(dim=1)

    def all_gradients(self) -> tuple[Tensor | None, ...]:
        """The gradients of x, h, c, context, keys, values, valid, and the weights in their order."""
        weights, align_first, dim = self.weights, self.align_first, self.x.shape[2]
        fed, grads_from_x, grads_from_h = weights.W[:, dim:], [], []
        for t in reversed(range(self.steps)):
            if not align_first:
                self.attend(t, t + 1)
            by_x, by_h, direct, self.grad_c = self.gates.backward(self.saved.gates[t], self.grad_h[t + 1], self.grad_c)
            if fed.shape[1]:
                add_product(self.grad_context[t + 1 if align_first else t], by_x, fed)
            if direct is not None:
                self.grad_h[t].add_(direct)
            add_product(self.grad_h[t], by_h, weights.U)
            if align_first:
                self.attend(t, t)
            grads_from_x.append(by_x)
            grads_from_h.append(by_h)
        grad_from_x = torch.stack(grads_from_x[::-1], dim=1)  # B T G
        grad_from_h = grad_from_x if grads_from_x[0] is grads_from_h[0] else torch.stack(grads_from_h[::-1], dim=1)
        before = before_each(self.h, self.hidden)
        grad_W = weight_gradient(grad_from_x, self.x)
        if fed.shape[1]:
            seen = self.contexts if align_first else before_each(self.context, self.contexts)
            grad_W = torch.cat([grad_W, weight_gradient(grad_from_x, seen)], dim=1)
        grad_keys, grad_query, grad_vector = self.backward_scores(before if align_first else self.hidden)
        grad_values = torch.bmm(torch.stack(self.saved.alignments, dim=2), self.grad_context[1:].transpose(0, 1))
        return (
            linear(grad_from_x, weights.W[:, :dim].mT),
            self.grad_h[0],
            self.grad_c,
            self.grad_context[0],
            grad_keys,
            grad_values,
            None,
            grad_W,
            weight_gradient(grad_from_h, before),
            None if weights.b is None else grad_from_x.sum(dim=(0, 1)),
            None if weights.d is None else grad_from_h.sum(dim=(0, 1)),
            grad_query,
            grad_vector,
        )

    def backward_scores(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The gradients of keys, query and vector; `hidden` (B T W) are the h that the queries came from."""
        queries, vector = torch.stack(self.grad_queries[::-1], dim=1), self.weights.vector  # B T a
        grad_query = weight_gradient(queries, hidden)
        if self.grad_keys is None or vector is None:
            projected = linear(hidden, self.weights.query)  # B T a
            return torch.bmm(torch.stack(self.grad_scores[::-1], dim=2), projected), grad_query, None
        return self.grad_keys * vector, grad_query * vector[:, None], self.backward_vector()

    def backward_vector(self) -> Tensor:
        assert self.saved.score_inputs is not None
        return self.saved.score_inputs.flatten(0, 2).mT @ torch.stack(self.grad_scores[::-1]).flatten()


def by_step(like: Tensor, steps: int, each: Tensor | None, last: Tensor | None) -> Tensor:
    """Gradients by step, T+1 B …: zeros for the initial value, then `each` (B T …), `last` added to the last."""
    found = like.new_zeros(steps + 1, *like.shape)
    if each is not None:
        found[1:].copy_(each.transpose(0, 1))
    if last is not None:
        found[-1].add_(last)
    return found


def before_each(initial: Tensor, each: Tensor) -> Tensor:
    """The value before each step (B T …): `initial`, then those after each step but the last."""
    return torch.cat([initial[:, None], each[:, :-1]], dim=1)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    torch.addmm(total, a, b, out=total)


def weight_gradient(grad_y: Tensor, x: Tensor) -> Tensor:
    """The gradient of the weight of a linear map from x (B T D) to y (B T W), summed over rows and steps."""
    return grad_y.flatten(0, 1).mT @ x.flatten(0, 1)
