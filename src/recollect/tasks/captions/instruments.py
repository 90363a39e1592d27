"""The instrument gaze: weights over a picture for each word of its caption, by attention or by gradient."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from ...core.attribution import gradients_of, normalize_rows
from ...core.chart import Map
from ...core.inspection import Instrument, Reading
from ...core.settings import option
from ...core.task import LoadedRun
from ...decode.beam import Hypothesis
from ...decode.translate import looks
from ..decoding import log_likelihoods, search_settings, select_heads
from .images import to_floats
from .use import caption, view


class Gaze(NamedTuple):
    """Weights over the grid of a picture for each word of its caption, the end included."""

    weights: Tensor  # T rows columns, each word's sum to 1
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


@dataclass(frozen=True, kw_only=True)
class Options:
    image: str | None = option(None, "Of captions: this picture.")
    layer: int | None = option(None, "The attention of this layer.")
    head: int | None = option(None, "Of alignment and gaze: this head.")


def read_gaze(run: LoadedRun[Any, Any], options: Options) -> Reading:
    """Of the given picture, or the first of validation, and the run's own caption."""
    if options.image is not None:
        one = next(caption(run, [options.image]))
        image, best, picture = one.image, one.found[0], view(options.image)
    else:
        image = picture = np.array(run.task.part("valid").images[0])
        best = run.task.hypotheses(run.model, "valid", search_settings(run.config.task), 1)[0][0]
    found = gaze(run, image, best, layer=options.layer, head=options.head)
    cells = found.weights.flatten(1).tolist()
    chart = Map(
        title=found.kind, x="part of the picture, row by row", y="word", values=cells, rows=found.words, unit="share"
    )
    figures = {"words": found.words, "kind": found.kind, "weights": found.weights.tolist()}
    text = run.artifacts.tokenizer.decode(best.tokens)
    return Reading(summary=[text, found.kind], figures=figures, charts=[chart], picture=picture)


INSTRUMENTS = (Instrument("gaze", Options, read_gaze),)
