"""Films as tensors, as a model reads them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..images import to_floats


def join_films(films: Sequence[np.ndarray], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Films (T P P 3 each) as one tensor, B T P P 3, zero where one has ended, and their lengths."""
    lengths = torch.tensor([len(film) for film in films])
    frames = torch.zeros(len(films), int(lengths.max()), *films[0].shape[1:], dtype=torch.uint8)
    for row, film in enumerate(films):
        frames[row, : len(film)] = torch.from_numpy(np.array(film))
    return frames.to(device), lengths.to(device)


def to_frames(frames: Tensor, model: Any) -> Tensor:
    """B T P P 3 from 0 to 255 → B T 3 P P from 0 to 1, as precise as the model."""
    return to_floats(frames.flatten(0, 1), model).unflatten(0, frames.shape[:2])
