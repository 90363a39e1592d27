"""Straight lines through what was measured, and how long something takes."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The slope of the least-squares line, and the share of y's variance that the line explains."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    line = np.polyfit(a, b, 1)
    rest, total = ((b - np.polyval(line, a)) ** 2).sum(), ((b - b.mean()) ** 2).sum()
    return float(line[0]), float(1 - rest / total) if total else 1.0


def exponent(lengths: Sequence[int], cost: Sequence[float]) -> float:
    """p of the best fit cost ~ length^p."""
    return slope(np.log(lengths).tolist(), np.log(cost).tolist())[0]


def seconds(function: Callable[[], Any], device: str, repeats: int = 7) -> float:
    """The time of the fastest of a few calls, since whatever else the machine does only adds to it."""

    def once() -> float:
        started = time.perf_counter()
        function()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.perf_counter() - started

    return min(once() for _ in range(repeats))
