"""Weights over the frames of a film, and over the parts of each, for every word of its caption."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from ....core.attribution import gradients_of, normalize_rows
from ....core.task import LoadedRun
from ....decode.beam import Hypothesis
from ....decode.translate import looks
from ...decoding import log_likelihoods, search_settings, select_heads
from ..gaze import Gaze, Looked
from .film_files import read_film
from .frames import join_films, to_frames


def gaze(
    run: LoadedRun[Any, Any],
    film: np.ndarray,
    hypothesis: Hypothesis,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Gaze:
    """Where the caption of a film (T P P 3, as the model saw it) came from: words × frames × rows × columns.

    A model whose memory keeps the cells of each frame says it all by attention. One that remembers a vector of each
    frame says by attention at which frames it looked; where in each it did is found by gradient. Without attention
    both are.
    """
    model, tokenizer = run.model, run.artifacts.tokenizer
    written = [*hypothesis.tokens, tokenizer.end]
    frames = to_frames(join_films([film], run.device)[0], model)
    with torch.no_grad():
        memory = model.encode(frames)
    found = looks(model, memory, hypothesis.tokens, tokenizer.begin)
    words = tokenizer.pieces(written)
    if found and len(memory.shape) == 3:
        weights, kind = select_heads(found, layer, head)
        return Gaze(weights.unflatten(1, memory.shape), words, kind)
    parts = part_influence(model, frames, written, tokenizer.begin)
    if not found:
        return Gaze(normalize_rows(parts), words, "influence of each part of each frame, by gradient")
    weights, kind = select_heads(found, layer, head)
    inside = normalize_rows(parts.flatten(0, 1)).view_as(parts)
    return Gaze(weights[:, :, None, None] * inside, words, f"{kind} to each frame, and inside it influence by gradient")


def part_influence(model: Any, frames: Tensor, tokens: Sequence[int], begin: int) -> Tensor:
    """T F rows columns: the mean of ‖∂ log p(token t)/∂pixel‖ in each part of each frame.

    frames: 1 F 3 P P; `tokens` are what was written, the end included.
    """
    with torch.enable_grad():
        seen = frames.detach().requires_grad_()
        likely = log_likelihoods(model, model.encode(seen), tokens, begin)
    norms = gradients_of(likely, seen)[:, 0].norm(dim=2)  # T F P P
    return adaptive_avg_pool2d(norms, model.eye.grid()).float().cpu()


def look(run: LoadedRun[Any, Any], image: str | None, layer: int | None, head: int | None) -> Looked:
    """Of the given film, or the first of validation. The weights of a map are those of the frames."""
    from .use import VIEW, describe_films

    if image is not None:
        one = next(describe_films(run, [image]))
        film, best = one.image, one.found[0]
        shown = read_film(image, VIEW, run.artifacts.frames, square=False)[0]
    else:
        film = shown = np.array(run.task.part("valid").film(0))
        best = run.task.hypotheses(run.model, "valid", search_settings(run.config.task), 1)[0][0]
    found = gaze(run, film, best, layer=layer, head=head)
    return Looked(found, best.tokens, shown, found.weights.flatten(2).sum(dim=2), "frame")
