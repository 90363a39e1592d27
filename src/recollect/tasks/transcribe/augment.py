"""Recordings altered in training: faster or slower, and with faint noise."""

import numpy as np


def alter(samples: np.ndarray, draw: np.random.Generator, speed: float, noise: float) -> np.ndarray:
    """The samples played at another speed, between 1 − `speed` and 1 + `speed`, and noise added up to a deviation."""
    if speed:
        count = max(1, round(len(samples) * (1 + draw.uniform(-speed, speed))))
        at = np.linspace(0, len(samples) - 1, count)
        samples = np.interp(at, np.arange(len(samples)), samples).astype(np.float32)
    if noise:
        level = noise * draw.random()
        samples = samples + (level * draw.standard_normal(len(samples))).astype(np.float32)
    return samples
