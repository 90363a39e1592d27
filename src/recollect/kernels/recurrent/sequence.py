"""Recurrent cells over whole sequences, the gradient written out, with what each step left behind.

cuDNN tells h after every step but c only after the last, and rows of unequal length only if the CPU knows the lengths:
then nothing can be captured as a CUDA graph. Here every step's c is at hand, so a row's own last one can be taken from
it. Several ways, such as a layer onward and another back, are one product a step.

Letters: T steps, K ways, B rows, W width, G = gates · W.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ... import kernels
from ...core import state as states
from .gates import Gates
from .projection import coarsely, is_coarse, project

LEAST = 8  # steps that are worth a kernel for all of them
S = TypeVar("S", bound=tuple[Tensor, ...])


def over(inputs: Sequence[Tensor], weights: Sequence[Any], before: Sequence[S], gates: Gates) -> list[S]:
    """Each way over its own input (B T D), with its W, U, b, d: its states (B W each part) become those of all steps
    (B T W), h first.

    All of it is in the precision of autocast where that is on, as torch's own kernels are.
    """
    dtype = lowered(inputs[0])
    with torch.autocast(inputs[0].device.type, enabled=False):
        own: list[Any] = [[None if w is None else w.to(dtype) for w in way] for way in weights]
        drives = [
            project(x.to(dtype).transpose(0, 1), W, b) for x, (W, _, b, _) in zip(inputs, own, strict=True)
        ]  # T B G
        U, d = torch.stack([w[1] for w in own]), None if own[0][3] is None else torch.stack([w[3] for w in own])
        h, *c = (torch.stack(parts).to(dtype) for parts in zip(*before, strict=True))
        found = loop(torch.stack(drives, dim=1), U, d, h, c[0] if c else None, gates)
    parts = [part.permute(1, 2, 0, 3) for part in found if part is not None]  # K B T W
    return [states.map(lambda _, part, way=way: part[way], first, parts) for way, first in enumerate(before)]


def lowered(x: Tensor) -> torch.dtype:
    """What autocast would have a product of x in."""
    kind = x.device.type
    lower = torch.is_autocast_enabled(kind) and x.dtype != torch.float64
    return torch.get_autocast_dtype(kind) if lower else x.dtype


def ends(after: S, lengths: Tensor | None, before: S) -> S:
    """Of the states after all steps (B T W a part), each row's last (B W); that `before` where a row has no step."""
    if lengths is None:
        return states.map(lambda own, part: part[:, -1].to(own.dtype), before, after)
    at = (lengths - 1).clamp(min=0)[:, None, None]
    empty = (lengths == 0)[:, None]

    def last(part: Tensor, own: Tensor) -> Tensor:
        found = part.gather(1, at.expand(-1, 1, part.shape[2]))[:, 0]
        return torch.where(empty, own, found.to(own.dtype))

    return states.map(last, after, before)


def loop(
    drive: Tensor, U: Tensor, d: Tensor | None, h: Tensor, c: Tensor | None, gates: Gates
) -> tuple[Tensor, Tensor | None]:
    """drive (what each step's gates get from x): T K B G, U: K G W, d: K G, h and c: K B W → all h, all c: T K B W.

    Where there is a kernel for one way but none for all of them together, they go one after the other.
    """
    steps = resident(gates.kind, U, U.dtype, drive.shape[2], len(drive), ways=len(U))
    if steps is None and len(U) > 1 and resident(gates.kind, U, U.dtype, drive.shape[2], len(drive)):
        found = [
            loop(drive[:, k : k + 1], U[k : k + 1], one(d, k), h[k : k + 1], one(c, k), gates) for k in range(len(U))
        ]
        hidden, cells = zip(*found, strict=True)
        return torch.cat(hidden, dim=1), None if c is None else torch.cat(cells, dim=1)
    steps = steps or OneByOne(gates)
    if torch.is_grad_enabled():
        return Loop.apply(steps, drive, U, d, h, c)
    found = steps.forth(drive, U, d, h, c, keep=False)
    return found.hidden[1:], found.cells


def one(part: Tensor | None, way: int) -> Tensor | None:
    return None if part is None else part[way : way + 1]


def resident(kind: str, U: Tensor, dtype: torch.dtype, batch: int, steps: int, ways: int = 1) -> Any:
    """One kernel for all steps in which U (… G W) stays on the chip; None where there is none for such sizes."""
    if steps < LEAST or kernels.shared() or not kernels.can_launch(U):
        return None
    from .persistent import Resident

    return Resident.planned(kind, U, dtype, batch, ways)


class Found(NamedTuple):
    hidden: Tensor  # T+1 K B W, the first h before all others
    cells: Tensor | None  # T K B W
    kept: list[Tensor]  # what the way back needs of the steps, where there is one


class OneByOne:
    """A few operations for each step."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates

    def forth(self, drive: Tensor, U: Tensor, d: Tensor | None, h: Tensor, c: Tensor | None, keep: bool) -> Found:
        shape, turned = h.shape, U.mT
        hidden, cells, kept = [h], [], []
        c = None if c is None else c.flatten(0, 1)
        for now in drive.unbind(0):
            asked = torch.bmm(h, turned) if d is None else torch.baddbmm(d[:, None], h, turned)  # K B G
            new, c, needed = self.gates.forth(now.flatten(0, 1), asked.flatten(0, 1), h.flatten(0, 1), c)
            h = new.view(shape)
            hidden.append(h)
            cells.append(c)
            kept += needed if keep else ()
        return Found(torch.stack(hidden), None if c is None else torch.stack(cells).unflatten(1, shape[:2]), kept)

    def back(
        self, U: Tensor, c: Tensor | None, found: Found, of_hidden: Tensor | None, of_cells: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The gradients of what each step's gates got from x, and from h (T K B G), of the first h and c (K B W)."""
        steps, shape = len(found.hidden) - 1, found.hidden.shape[1:]
        size = len(found.kept) // steps
        by_h = torch.zeros_like(found.hidden[0]) if of_hidden is None else of_hidden[-1]  # of h after step t
        by_c = None if of_cells is None else of_cells[-1].flatten(0, 1)
        of_x, of_asked = [], []  # the gradients of both sums, from the last step to the first
        for t in reversed(range(steps)):
            kept = tuple(found.kept[t * size : (t + 1) * size])
            from_x, from_h, direct, by_c = self.gates.back(kept, by_h.flatten(0, 1), by_c)
            of_x.append(from_x)
            of_asked.append(from_h)
            back = from_h.unflatten(0, shape[:2])
            by_h = torch.baddbmm(of_hidden[t - 1], back, U) if t and of_hidden is not None else torch.bmm(back, U)
            if direct is not None:
                by_h.add_(direct.view_as(by_h))
            if t and of_cells is not None:
                assert by_c is not None
                by_c = by_c + of_cells[t - 1].flatten(0, 1)
        by_drive = torch.stack(of_x[::-1]).unflatten(1, shape[:2])
        alike = of_x[0] is of_asked[0]
        by_asked = by_drive if alike else torch.stack(of_asked[::-1]).unflatten(1, shape[:2])
        return by_drive, by_asked, by_h, None if by_c is None else by_c.view(shape)


class Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, steps: Any, drive: Any, U: Any, d: Any, h: Any, c: Any):
        found = steps.forth(drive, U, d, h, c, keep=True)
        ctx.set_materialize_grads(False)
        ctx.steps, ctx.biased, ctx.coarse = steps, d is not None, is_coarse(U)
        ctx.save_for_backward(U, c, found.hidden, found.cells, *found.kept)
        return found.hidden[1:], found.cells

    @staticmethod
    def backward(ctx: Any, *outer: Any):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "recurrent: expected a first derivative, found create_graph=True; for a second one take layer.unroll"
            )
        U, c, hidden, cells, *kept = ctx.saved_tensors
        with torch.autocast(U.device.type, enabled=False):  # the precision is that of the way forth
            by_drive, by_asked, by_h, by_c = ctx.steps.back(U, c, Found(hidden, cells, kept), *outer)
            with coarsely(ctx.coarse):
                by_U = by_asked.permute(1, 3, 0, 2).flatten(2) @ hidden[:-1].transpose(0, 1).flatten(1, 2)
        by_d = by_asked.sum(dim=(0, 2)) if ctx.biased else None
        return None, by_drive, by_U, by_d, by_h, by_c
