"""Recurrent cells over whole sequences, with a backward pass of their own and the state after every step.

cuDNN returns h after every step but c only after the last, and takes rows of unequal length only if the CPU knows the
lengths, which no CUDA graph can capture. Here c of every step is returned too, so that each row's last state can be
selected on the GPU. Several directions, such as the two of a bidirectional encoder, are one product a step.

Letters: T steps, K directions, B rows, W width, G = gates · W.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ... import kernels
from ...core import state as states
from .gates import Gates
from .projection import project, use_tf32, uses_tf32

MIN_STEPS = 8  # from which on one kernel for all steps is worth it
S = TypeVar("S", bound=tuple[Tensor, ...])


def run_directions(inputs: Sequence[Tensor], weights: Sequence[Any], before: Sequence[S], gates: Gates) -> list[S]:
    """The states after every step (B T W a part, h first) of each direction, from its input (B T D), weights (W, U, b,
    d) and initial state (B W a part).

    Under autocast everything is in its dtype, as in torch's own kernels.
    """
    dtype = kernels.autocast_dtype(inputs[0])
    with torch.autocast(inputs[0].device.type, enabled=False):
        own: list[Any] = [[None if w is None else w.to(dtype) for w in direction] for direction in weights]
        projected = [
            project(x.to(dtype).transpose(0, 1), W, b) for x, (W, _, b, _) in zip(inputs, own, strict=True)
        ]  # T B G
        U, d = torch.stack([w[1] for w in own]), None if own[0][3] is None else torch.stack([w[3] for w in own])
        h, *c = (torch.stack(parts).to(dtype) for parts in zip(*before, strict=True))
        found = run_steps(torch.stack(projected, dim=1), U, d, h, c[0] if c else None, gates)
    parts = [part.permute(1, 2, 0, 3) for part in found if part is not None]  # K B T W
    return [states.map(lambda _, part, k=k: part[k], first, parts) for k, first in enumerate(before)]


def last_states(after: S, lengths: Tensor | None, before: S) -> S:
    """Each row's last state (B W a part) out of those after all steps (B T W); `before` for rows of length 0."""
    if lengths is None:
        return states.map(lambda own, part: part[:, -1].to(own.dtype), before, after)
    at = (lengths - 1).clamp(min=0)[:, None, None]
    empty = (lengths == 0)[:, None]

    def last(part: Tensor, own: Tensor) -> Tensor:
        found = part.gather(1, at.expand(-1, 1, part.shape[2]))[:, 0]
        return torch.where(empty, own, found.to(own.dtype))

    return states.map(last, after, before)


def run_steps(
    from_x: Tensor, U: Tensor, d: Tensor | None, h: Tensor, c: Tensor | None, gates: Gates
) -> tuple[Tensor, Tensor | None]:
    """All h and all c (T K B W) for from_x = W x + b of every step: T K B G, U: K G W, d: K G, h and c: K B W.

    Where there is a kernel for one direction but none for all together, they run one after the other.
    """
    steps = find_persistent(gates.kind, U, U.dtype, from_x.shape[2], len(from_x), directions=len(U))
    if steps is None and len(U) > 1 and find_persistent(gates.kind, U, U.dtype, from_x.shape[2], len(from_x)):
        found = [
            run_steps(from_x[:, k : k + 1], U[k : k + 1], select(d, k), h[k : k + 1], select(c, k), gates)
            for k in range(len(U))
        ]
        hidden, cells = zip(*found, strict=True)
        return torch.cat(hidden, dim=1), None if c is None else torch.cat(cells, dim=1)
    steps = steps or StepByStep(gates)
    if torch.is_grad_enabled():
        return Loop.apply(steps, from_x, U, d, h, c)
    found = steps.forward(from_x, U, d, h, c, save=False)
    return found.hidden[1:], found.cells


def select(part: Tensor | None, direction: int) -> Tensor | None:
    return None if part is None else part[direction : direction + 1]


def find_persistent(kind: str, U: Tensor, dtype: torch.dtype, batch: int, steps: int, directions: int = 1) -> Any:
    """The kernel for all steps that keeps U (… G W) on the chip; None where there is none for such sizes."""
    if steps < MIN_STEPS or kernels.is_gpu_shared() or not kernels.can_launch(U):
        return None
    from .persistent import Persistent

    return Persistent.fit(kind, U, dtype, batch, directions)


class Outputs(NamedTuple):
    hidden: Tensor  # T+1 K B W, the initial h first
    cells: Tensor | None  # T K B W
    saved: list[Tensor]  # for the backward pass, where one is wanted


class StepByStep:
    """A few operations for each step."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates

    def forward(self, from_x: Tensor, U: Tensor, d: Tensor | None, h: Tensor, c: Tensor | None, save: bool) -> Outputs:
        shape, transposed = h.shape, U.mT
        hidden, cells, saved = [h], [], []
        c = None if c is None else c.flatten(0, 1)
        for now in from_x.unbind(0):
            from_h = torch.bmm(h, transposed) if d is None else torch.baddbmm(d[:, None], h, transposed)  # K B G
            new, c, needed = self.gates.forward(now.flatten(0, 1), from_h.flatten(0, 1), h.flatten(0, 1), c)
            h = new.view(shape)
            hidden.append(h)
            cells.append(c)
            saved += needed if save else ()
        return Outputs(torch.stack(hidden), None if c is None else torch.stack(cells).unflatten(1, shape[:2]), saved)

    def backward(
        self, U: Tensor, c: Tensor | None, outputs: Outputs, grad_hidden: Tensor | None, grad_cells: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The gradients of W x + b and of U h + d at every step (T K B G), and of the initial h and c (K B W)."""
        steps, shape = len(outputs.hidden) - 1, outputs.hidden.shape[1:]
        size = len(outputs.saved) // steps
        grad_h = torch.zeros_like(outputs.hidden[0]) if grad_hidden is None else grad_hidden[-1]  # of h after step t
        grad_c = None if grad_cells is None else grad_cells[-1].flatten(0, 1)
        of_x, of_h = [], []  # the gradients of W x + b and U h + d, from the last step to the first
        for t in reversed(range(steps)):
            saved = tuple(outputs.saved[t * size : (t + 1) * size])
            by_x, by_h, direct, grad_c = self.gates.backward(saved, grad_h.flatten(0, 1), grad_c)
            of_x.append(by_x)
            of_h.append(by_h)
            by_h = by_h.unflatten(0, shape[:2])
            grad_h = torch.baddbmm(grad_hidden[t - 1], by_h, U) if t and grad_hidden is not None else torch.bmm(by_h, U)
            if direct is not None:
                grad_h.add_(direct.view_as(grad_h))
            if t and grad_cells is not None:
                assert grad_c is not None
                grad_c = grad_c + grad_cells[t - 1].flatten(0, 1)
        grad_from_x = torch.stack(of_x[::-1]).unflatten(1, shape[:2])
        same = of_x[0] is of_h[0]
        grad_from_h = grad_from_x if same else torch.stack(of_h[::-1]).unflatten(1, shape[:2])
        return grad_from_x, grad_from_h, grad_h, None if grad_c is None else grad_c.view(shape)


class Loop(torch.autograd.Function):
    """All steps by `steps`, a StepByStep or a Persistent, and their gradient."""

    @staticmethod
    def forward(ctx: Any, steps: Any, from_x: Any, U: Any, d: Any, h: Any, c: Any):
        found = steps.forward(from_x, U, d, h, c, save=True)
        ctx.set_materialize_grads(False)
        ctx.steps, ctx.biased, ctx.tf32 = steps, d is not None, uses_tf32(U)
        ctx.save_for_backward(U, c, found.hidden, found.cells, *found.saved)
        return found.hidden[1:], found.cells

    @staticmethod
    def backward(ctx: Any, *outer: Any):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "recurrent: expected a first derivative, found create_graph=True; for a second one take layer.unroll"
            )
        U, c, hidden, cells, *saved = ctx.saved_tensors
        with torch.autocast(U.device.type, enabled=False):  # the precision is that of the forward pass
            grad_from_x, grad_from_h, grad_h, grad_c = ctx.steps.backward(U, c, Outputs(hidden, cells, saved), *outer)
            with use_tf32(ctx.tf32):
                grad_U = grad_from_h.permute(1, 3, 0, 2).flatten(2) @ hidden[:-1].transpose(0, 1).flatten(1, 2)
        grad_d = grad_from_h.sum(dim=(0, 2)) if ctx.biased else None
        return None, grad_from_x, grad_U, grad_d, grad_h, grad_c
