"""Forecast errors: sums over windows by horizon and column, and the figures made of them."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.files import DataError
from .scaler import Scaler


class Errors:
    """Sums of errors by horizon and column, over windows as they come."""

    def __init__(self, horizon: int, columns: int, device: torch.device | str) -> None:
        zero = torch.zeros(horizon, columns, dtype=torch.float64, device=device)
        self.square, self.absolute, self.count, self.inside, self.wide = (zero.clone() for _ in range(5))
        self.judged = False

    def add(self, mean: Tensor, y: Tensor, counts: Tensor | None, ends: tuple[Tensor, Tensor] | None = None) -> None:
        """mean, y: B H C; `ends` are those of an interval."""
        weight = torch.ones_like(y, dtype=torch.float64) if counts is None else counts.double()
        error = mean.double() - y.double()
        self.square += (weight * error**2).sum(dim=0)
        self.absolute += (weight * error.abs()).sum(dim=0)
        self.count += weight.sum(dim=0)
        if ends is not None and bool(ends[0].isfinite().all()):
            self.judged = True
            self.inside += (weight * ((ends[0] <= y) & (y <= ends[1]))).sum(dim=0)
            self.wide += (weight * (ends[1] - ends[0]).double()).sum(dim=0)


def summarize(errors: Errors, name: str, scaler: Scaler, level: float | None = None) -> dict[str, Any]:
    """Errors of all points, of some horizons and of each column of the series `name`."""
    sizes = np.array(scaler.deviation)
    square, absolute, count, inside, wide = (
        part.cpu().numpy() for part in (errors.square, errors.absolute, errors.count, errors.inside, errors.wide)
    )
    if not count.any():
        raise DataError(f"{name}: expected something measured in the horizons, found nothing")

    def of(rows: slice) -> dict[str, float | None]:
        total = count[rows].sum()
        own = count[rows].sum(axis=0)  # by column
        apart = absolute[rows].sum(axis=0) / np.maximum(own, 1)
        units = np.array(scaler.naive)
        some = (units > 0) & (own > 0)
        found = {
            "mse": square[rows].sum() / total,
            "mae": absolute[rows].sum() / total,
            "mse_raw": (square[rows].sum(axis=0) * sizes**2).sum() / total,
            "mae_raw": (absolute[rows].sum(axis=0) * sizes).sum() / total,
            "mase": (apart[some] / units[some]).mean() if some.any() else None,
        }
        if errors.judged:
            found |= {"coverage": inside[rows].sum() / total, "interval": wide[rows].sum() / total}
        return {name: None if value is None else float(value) for name, value in found.items()}

    found: dict[str, Any] = of(slice(None))
    if errors.judged:
        found["level"] = level
    found["by_horizon"] = {str(h): of(slice(h - 1, h)) for h in horizons(len(count)) if count[h - 1].any()}
    found["by_column"] = {
        column: {"mse": float(s / n), "mae": float(a / n)}
        for column, s, a, n in zip(scaler.columns, square.sum(0), absolute.sum(0), count.sum(0), strict=True)
        if n
    }
    return found


def horizons(longest: int) -> list[int]:
    """The horizons that are reported by themselves: 1, 4, 16, 64, … and the last."""
    return [*(4**i for i in range(8) if 4**i < longest), longest]


def format_error(value: float | None) -> str:
    """An error of any size for a table; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.4f}" if value == 0 or 1e-2 <= abs(value) < 1e6 else f"{value:.4g}"
