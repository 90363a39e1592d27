"""Linear least squares in closed form, from rows that come a batch at a time."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Fit(NamedTuple):
    """The map whose squared error is the smallest, and what it leaves."""

    weights: Tensor  # D+1 N: the constant last
    left: Tensor  # N: the mean squared error


def fit(batches: Iterable[tuple[Tensor, Tensor]], ridge: float = 0.0) -> Fit:
    """From rows x (R D) to rows y (R N); `ridge` holds down all weights but the constant."""
    square: Any = 0
    cross: Any = 0
    total: Any = 0
    count = 0
    for x, y in batches:
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        square, cross, total, count = square + x.T @ x, cross + x.T @ y, total + (y**2).sum(dim=0), count + len(x)
    penalty = torch.eye(len(square), dtype=square.dtype, device=square.device) * ridge * count
    penalty[-1, -1] = 0  # the constant is free
    # on the CPU by the pseudo-inverse: columns that never change make the matrix singular
    weights = torch.linalg.pinv((square + penalty).cpu(), rtol=1e-13, hermitian=True) @ cross.cpu()
    left = (
        total.cpu() - 2 * (weights * cross.cpu()).sum(dim=0) + (weights * (square.cpu() @ weights)).sum(dim=0)
    ) / count
    return Fit(weights, left)
