"""Pictures as tensors: as a model reads them, randomly cropped and mirrored, and the grid that lies over them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample


def to_floats(images: Tensor, model: Any) -> Tensor:
    """B P P 3 from 0 to 255 → B 3 P P from 0 to 1, as precise as the model."""
    return images.permute(0, 3, 1, 2).to(model.like().dtype) / 255


def random_views(draw: np.random.Generator, count: int, flip: bool, crop: float) -> np.ndarray:
    """N 2 3: for each picture a random part of it, at least 1 − crop of each side, and whether it is mirrored."""
    size = 1 - crop * draw.random((count, 2))
    shift = (1 - size) * draw.uniform(-1, 1, size=(count, 2))
    mirror = np.where(draw.random(count) < 0.5, -1.0, 1.0) if flip else np.ones(count)
    found = np.zeros((count, 2, 3), np.float32)
    found[:, 0, 0], found[:, 1, 1], found[:, :, 2] = mirror * size[:, 0], size[:, 1], shift
    return found


def apply_views(images: Tensor, views: Tensor) -> Tensor:
    """The part of each picture that its view (B 2 3) names, as large as the whole."""
    grid = affine_grid(views.to(images.dtype), list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="border", align_corners=False)


def box_coverage(box: Sequence[int] | np.ndarray, shape: tuple[int, ...], pixels: int) -> np.ndarray:
    """rows·columns: the share of each cell of a grid over the picture that lies inside a box."""
    left, top, right, bottom = (float(edge) for edge in box)

    def along(low: float, high: float, cells: int) -> np.ndarray:
        edges = np.linspace(0, pixels, cells + 1)
        inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
        return np.clip(inside, 0, None) * cells / pixels

    rows, columns = shape
    return np.outer(along(top, bottom, rows), along(left, right, columns)).ravel()
