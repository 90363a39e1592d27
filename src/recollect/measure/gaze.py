"""Where a model looked for each word of a caption: attention where it has it, else the influence of each cell."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from ..decode.beam import Hypothesis
from ..decode.position import device_of
from ..decode.translate import looks
from ..tasks.captions import cover, numbers
from ..train.job import Used
from . import influence
from .alignment import chosen


class Gaze(NamedTuple):
    """Weights over the grid of a picture for each word of its caption, the end included."""

    weights: Tensor  # T rows columns, each word's sum to 1
    words: list[str]
    kind: str  # what the weights are


def gaze(
    used: Used[Any], image: np.ndarray, hypothesis: Hypothesis, *, layer: int | None = None, head: int | None = None
) -> Gaze:
    """Where the caption of a picture (P P 3, as the model saw it) came from, by one layer or head, or the mean."""
    model, side = used.model, used.kept.side
    written = [*hypothesis.tokens, side.end]
    images = numbers(torch.from_numpy(image)[None].to(device_of(model)), model)
    with torch.no_grad():
        memory = model.encode(images)
    found = looks(model, memory, hypothesis.tokens, side.begin)
    if found:
        weights, kind = chosen(found, layer, head)
    else:
        weights = of_cells(model, images, written, side.begin, memory.shape).flatten(1)
        kind = "influence of each part of the picture, by gradient"
    return Gaze(weights.unflatten(1, memory.shape), side.pieces(written), kind)


def of_cells(model: Any, images: Tensor, tokens: Sequence[int], begin: int, shape: tuple[int, ...]) -> Tensor:
    """T rows columns: the mean of ‖∂ log p(token t)/∂pixel‖ in each cell, divided by the sum over all cells.

    images: 1 3 P P; `tokens` are what was written, the end included.
    """
    with torch.enable_grad():
        seen = images.detach().requires_grad_()
        likely = influence.said(model, model.encode(seen), tokens, begin)
    norms = influence.slopes(likely, seen)[:, 0].norm(dim=1)  # T P P
    return influence.shares(adaptive_avg_pool2d(norms, (shape[0], shape[1])).float().cpu())


def on_box(weights: Tensor, box: Sequence[int], pixels: int) -> Tensor:
    """T: how much of each word's gaze (T rows columns) lies on a box (left, top, right, bottom) of the picture."""
    covered = torch.from_numpy(cover(box, tuple(weights.shape[1:]), pixels)).to(weights.dtype)
    return weights.flatten(1) @ covered
