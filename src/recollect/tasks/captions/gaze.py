"""Where a caption came from: weights over a picture for each word of it, by attention or by gradient."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from ...core.attribution import gradients_of, normalize_rows
from ...core.task import LoadedRun
from ...decode.beam import Hypothesis
from ...decode.translate import looks
from ..decoding import log_likelihoods, search_settings, select_heads
from .images import to_floats


class Gaze(NamedTuple):
    """Weights over the grid of a picture, or of each frame of a film, for each word of a caption and its end."""

    weights: Tensor  # T rows columns, or T frames rows columns; each word's sum to 1
    words: list[str]
    kind: str  # what the weights are


def gaze(
    run: LoadedRun[Any, Any],
    image: np.ndarray,
    hypothesis: Hypothesis,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Gaze:
    """Where the caption of a picture (P P 3, as the model saw it) came from, by one layer or head, or the mean."""
    model, tokenizer = run.model, run.artifacts.tokenizer
    written = [*hypothesis.tokens, tokenizer.end]
    images = to_floats(torch.from_numpy(image)[None].to(run.device), model)
    with torch.no_grad():
        memory = model.encode(images)
    found = looks(model, memory, hypothesis.tokens, tokenizer.begin)
    if found:
        weights, kind = select_heads(found, layer, head)
    else:
        weights = cell_influence(model, images, written, tokenizer.begin, memory.shape).flatten(1)
        kind = "influence of each part of the picture, by gradient"
    return Gaze(weights.unflatten(1, memory.shape), tokenizer.pieces(written), kind)


def cell_influence(model: Any, images: Tensor, tokens: Sequence[int], begin: int, shape: tuple[int, ...]) -> Tensor:
    """T rows columns: the mean of ‖∂ log p(token t)/∂pixel‖ in each cell, divided by the sum over all cells.

    images: 1 3 P P; `tokens` are what was written, the end included.
    """
    with torch.enable_grad():
        seen = images.detach().requires_grad_()
        likely = log_likelihoods(model, model.encode(seen), tokens, begin)
    norms = gradients_of(likely, seen)[:, 0].norm(dim=1)  # T P P
    return normalize_rows(adaptive_avg_pool2d(norms, (shape[0], shape[1])).float().cpu())


class Looked(NamedTuple):
    """A picture or film with the run's own caption, and where that came from."""

    gaze: Gaze
    tokens: Sequence[int]  # of the caption
    shown: np.ndarray  # what it is drawn over, in its own proportions
    weights: Tensor  # T S, for a map
    places: str  # what S counts


def look(run: LoadedRun[Any, Any], image: str | None, layer: int | None, head: int | None) -> Looked:
    """Of the given picture, or the first of validation."""
    from .use import caption, view

    if image is not None:
        one = next(caption(run, [image]))
        seen, best, shown = one.image, one.found[0], view(image)
    else:
        seen = shown = np.array(run.task.part("valid").images[0])
        best = run.task.hypotheses(run.model, "valid", search_settings(run.config.task), 1)[0][0]
    found = gaze(run, seen, best, layer=layer, head=head)
    return Looked(found, best.tokens, shown, found.weights.flatten(1), "part of the picture, row by row")
