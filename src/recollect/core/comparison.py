"""Comparison of two computations that should give the same: outputs, states and gradients, within a tolerance."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from . import state as states
from .contract import name_of

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
Named = list[tuple[str, Tensor]]


class LawBroken(AssertionError):
    """A layer does not keep the contract: in which tensor, from which row and step on, by how much, where known."""

    def __init__(
        self,
        message: str,
        *,
        tensor: str | None = None,
        row: int | None = None,
        step: int | None = None,
        error: float | None = None,
    ) -> None:
        super().__init__(message)
        self.tensor, self.row, self.step, self.error = tensor, row, step, error


class Cotangents:
    """Random directions for the gradients of a comparison; `rewind` gives the same ones again."""

    def __init__(self) -> None:
        self.rewind()

    def rewind(self) -> None:
        self.generator = torch.Generator().manual_seed(7)

    def like(self, tensor: Tensor) -> Tensor:
        """The direction of a slot does not depend on how many empty ones follow it."""
        rows, *rest = tensor.shape
        slots = [max(64, rest[0]), *rest[1:]] if rest else []
        direction = torch.randn(rows, *slots, generator=self.generator, dtype=torch.float64)
        return (direction[:, : rest[0]] if rest else direction).to(tensor)


def weighted_gradients(outputs: Named, inputs: list[Tensor], names: list[str], cotangents: Cotangents) -> Named:
    """The gradients of a random weighting of all outputs."""
    weighted = [(tensor, cotangents.like(tensor)) for _, tensor in outputs]
    total = sum((tensor * weight).sum() for tensor, weight in weighted if tensor.requires_grad)
    gradients = [None] * len(inputs)
    if isinstance(total, Tensor):
        gradients = torch.autograd.grad(total, inputs, allow_unused=True)
    return [
        (f"gradient of {name}", torch.zeros_like(tensor) if gradient is None else gradient)
        for name, tensor, gradient in zip(names, inputs, gradients, strict=True)
    ]


def detach_all(outputs: Iterable[tuple[str, Tensor]]) -> Named:
    """The same tensors, cut off from the computation that led to them."""
    return [(name, tensor.detach()) for name, tensor in outputs]


def pad_slots(found: Named, expected: Named) -> tuple[Named, Named]:
    """Pad the shorter of two growing tensors with empty slots, so that only what they hold is compared."""
    pairs: tuple[Named, Named] = ([], [])
    for (name, a), (_, b) in zip(found, expected, strict=True):
        if a.dim() > 1 and name != "y" and not name.startswith("gradient"):
            slots = max(a.shape[1], b.shape[1])
            a, b = states.fit(a, slots), states.fit(b, slots)
        pairs[0].append((name, a))
        pairs[1].append((name, b))
    return pairs


def compare_tensors(
    law: str,
    layer: Any,
    what: str,
    found: Named,
    expected: Named,
    dtype: torch.dtype,
    tolerance: float | None,
) -> float:
    """The largest difference, relative to each tensor's largest entry; beyond the tolerance `LawBroken` is raised."""
    if tolerance is None:
        found_in = next((t.dtype for _, t in expected if t.is_floating_point()), dtype)
        tolerance = TOLERANCE[torch.float64 if found_in == torch.float64 else torch.float32]
    worst = 0.0
    gradients = [float(t.abs().max()) for name, t in expected if name.startswith("gradient") and t.numel()]
    for (name, a), (_, b) in zip(found, expected, strict=True):
        if a.shape != b.shape:
            raise LawBroken(
                f"{law} law broken by {name_of(layer)}: {what}: {name} has shape {tuple(a.shape)}, "
                f"expected {tuple(b.shape)}",
                tensor=name,
            )
        if not b.numel():
            continue
        a, b = a.double(), b.double()
        scale = max(float(b.abs().max()), float(a.abs().max()), 1e-4 * max(gradients, default=0.0))
        error = float((a - b).abs().max()) / scale if scale else 0.0
        if not error <= tolerance:  # NaN is an error too
            row, step = find_difference(a, b, tolerance * scale)
            raise LawBroken(
                f"{law} law broken by {name_of(layer)}: {what}: {name} differs by {error:.3g} "
                f"of its largest entry, allowed {tolerance:g}",
                tensor=name,
                row=row,
                step=step,
                error=error,
            )
        worst = max(worst, error)
    return worst


def find_difference(a: Tensor, b: Tensor, allowed: float) -> tuple[int | None, int | None]:
    """The first index of axis 0 (a row) and of axis 1 (a step) at which two tensors of one shape differ by more."""
    wrong = ~((a - b).abs() <= allowed)  # NaN is a difference too
    places = wrong.nonzero()
    firsts = [int(axis.min()) for axis in places.unbind(1)] if len(places) else []
    return (firsts[0] if firsts else None), (firsts[1] if len(firsts) > 1 else None)
