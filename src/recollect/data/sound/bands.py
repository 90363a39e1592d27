"""Frames on one scale: of each band the mean and the deviation over the training part."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

LEAST = 1e-3  # a deviation below it is that of a band in which nothing happens


@dataclass(frozen=True)
class BandScaler:
    """Makes the mean of each band 0 and its deviation 1, as they were in training."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __post_init__(self) -> None:
        finite = all(map(math.isfinite, (*self.mean, *self.deviation)))
        if not (len(self.mean) == len(self.deviation) > 0 and finite and min(self.deviation) > 0):
            raise ValueError("expected a mean and a deviation above 0 for each band, found others")

    @classmethod
    def fit(cls, recordings: Iterable[np.ndarray], bands: int) -> "BandScaler":
        """The scaler of recordings, each frames of T bands, read once."""
        count, total, squares = 0, np.zeros(bands), np.zeros(bands)
        for frames in recordings:
            own = np.asarray(frames, dtype=np.float64)
            count, total, squares = count + len(own), total + own.sum(axis=0), squares + np.square(own).sum(axis=0)
        mean = total / max(count, 1)
        deviation = np.sqrt(np.maximum(squares / max(count, 1) - np.square(mean), 0))
        return cls(tuple(mean.tolist()), tuple(np.maximum(deviation, LEAST).tolist()))

    def scale(self, frames: np.ndarray) -> np.ndarray:
        """Frames (… bands) as float32, on one scale."""
        return ((frames - np.asarray(self.mean)) / np.asarray(self.deviation)).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        return {"mean": list(self.mean), "deviation": list(self.deviation)}
