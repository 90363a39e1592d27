"""Forecast errors: sums over windows by horizon and column, and the figures made of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.files import DataError
from .calibration import explain_missing, explain_uncalibrated
from .scaler import Scaler


class Errors:
    """Sums of errors by horizon and column, over windows as they come."""

    def __init__(self, horizon: int, columns: int, device: torch.device | str) -> None:
        zero = torch.zeros(horizon, columns, dtype=torch.float64, device=device)
        self.square, self.absolute, self.count = (zero.clone() for _ in range(3))
        self.bounded, self.inside, self.wide = (zero.clone() for _ in range(3))  # where there is an interval

    def add(self, mean: Tensor, y: Tensor, counts: Tensor | None, ends: tuple[Tensor, Tensor] | None = None) -> None:
        """mean, y: B H C; `ends` are those of an interval."""
        weight = torch.ones_like(y, dtype=torch.float64) if counts is None else counts.double()
        error = mean.double() - y.double()
        self.square += (weight * error**2).sum(dim=0)
        self.absolute += (weight * error.abs()).sum(dim=0)
        self.count += weight.sum(dim=0)
        if ends is not None:
            lower, upper = ends
            known = weight * (lower.isfinite() & upper.isfinite())
            self.bounded += known.sum(dim=0)
            self.inside += (known * ((lower <= y) & (y <= upper))).sum(dim=0)
            self.wide += torch.where(known > 0, (upper - lower).double(), 0.0).sum(dim=0)


def summarize(errors: Errors, name: str, scaler: Scaler, level: float | None = None) -> dict[str, Any]:
    """Errors of all points, of some horizons and of each column of the series `name`."""
    sizes = np.array(scaler.deviation)
    square, absolute, count = (part.cpu().numpy() for part in (errors.square, errors.absolute, errors.count))
    bounded, inside, wide = (part.cpu().numpy() for part in (errors.bounded, errors.inside, errors.wide))
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
        if level is not None:
            share = bounded[rows].sum()
            found["coverage"] = inside[rows].sum() / share if share else None
            found["interval"] = wide[rows].sum() / share if share else None
        return {name: None if value is None else float(value) for name, value in found.items()}

    found: dict[str, Any] = of(slice(None))
    if level is not None:
        found |= {"level": level, "bounded": count_bounded(bounded)}
    found["by_horizon"] = {str(h): of(slice(h - 1, h)) for h in horizons(len(count)) if count[h - 1].any()}
    found["by_column"] = {
        column: {"mse": float(s / n), "mae": float(a / n)}
        for column, s, a, n in zip(scaler.columns, square.sum(0), absolute.sum(0), count.sum(0), strict=True)
        if n
    }
    return found


def count_bounded(bounded: np.ndarray) -> int:
    """How many points ahead have an interval in every series (H C)."""
    some = list(map(bool, np.atleast_1d((bounded > 0).all(axis=1))))
    return len(some) if all(some) else some.index(False)


def horizons(longest: int) -> list[int]:
    """The horizons that are reported by themselves: 1, 4, 16, 64, … and the last."""
    return [*(4**i for i in range(8) if 4**i < longest), longest]


def format_error(value: float | None) -> str:
    """An error of any size for a table; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.4f}" if value == 0 or 1e-2 <= abs(value) < 1e6 else f"{value:.4g}"


def tabulate(found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
    """Figures of a split as columns, rows and lines below them."""
    figures = found["figures"]
    names = ["mse", "mae", "mase", "mse_raw", "mae_raw", "coverage"]
    rows = [[str(h), *(format_error(own[n]) for n in names)] for h, own in figures["by_horizon"].items()]
    rows.append(["all", *(format_error(figures[n]) for n in names)])
    guesses = "  ".join(f"{name} {format_error(value)}" for name, value in found["baselines"].items())
    below = [figures["rule"], f"without learning, {found['metric']['name']}: {guesses}"]
    if found["better"]:
        below.append(f"better than this model: {', '.join(found['better'])}")
    if figures["coverage"] is not None:
        note = " (of the windows that they were calibrated on: ask for --split test)"
        own = note if found.get("split") == "valid" else ""
        below.append(f"intervals meant to hold {figures['level']:.0%} held {figures['coverage']:.1%}{own}")
    below += missing_intervals(figures, found["horizon"])
    return ("horizon", *names), rows, below


def missing_intervals(figures: Mapping[str, Any], horizon: int) -> list[str]:
    """A line on the points ahead that have no interval, where there are any."""
    if not figures.get("calibrated", True):
        return [explain_uncalibrated(not figures["bounded"])]
    first = figures["bounded"] + 1
    return [explain_missing(first, figures["level"])] if first <= horizon else []
