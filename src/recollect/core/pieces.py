"""A metric on equal pieces of what was measured, from which an interval of a difference can be had."""

from typing import Any

import numpy as np

MOST = 200  # pieces that a row holds
DIGITS = 6  # behind the decimal point, as far as a figure goes


def cut(values: Any, most: int = MOST) -> list[float]:
    """The mean of each of so many pieces of the values at most, which stay in their order."""
    found = np.asarray(values, dtype=np.float64).ravel()
    count = max(1, min(most, len(found)))
    return [round(float(piece.mean()), DIGITS) for piece in np.array_split(found, count)] if len(found) else []
