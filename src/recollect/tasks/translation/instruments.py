"""The instrument alignment: weights over the source for each word of a translation, by attention or by gradient."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.attribution import gradients_of, normalize_rows
from ...core.chart import SHARES, Map
from ...core.contract import ContractError
from ...core.inspection import Instrument, Reading
from ...core.task import LoadedRun
from ...decode import pharaoh
from ...decode.beam import Hypothesis
from ...decode.translate import encode, looks
from ..decoding import AlignmentOptions, log_likelihoods, select_heads
from .use import translate


class Alignment(NamedTuple):
    """Weights T S of one translation, ends included, with the names of its rows and columns."""

    weights: Tensor
    source: list[str]
    target: list[str]
    kind: str  # what the weights are
    pairs: list[tuple[int, int]]  # (source word, target word), the strongest for each word of the target


def align(
    run: LoadedRun[Any, Any],
    ids: np.ndarray,
    hypothesis: Hypothesis,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Alignment:
    """Where a translation of the source `ids` came from, by one layer or head (from 1), or the mean of all."""
    source, target = run.artifacts
    row, written = np.append(ids, source.end), [*hypothesis.tokens, target.end]
    memory = encode(run.model, source, [ids])
    found = looks(run.model, memory, hypothesis.tokens, target.begin)
    if found:
        weights, kind = select_heads(found, layer, head)
    elif layer is not None or head is not None:
        raise ContractError(
            "alignment: expected a model with attention for a layer or a head, found one without; ask for neither"
        )
    else:
        tokens = torch.from_numpy(row.astype(np.int64))[None].to(memory.values.device)
        weights = source_influence(run.model, tokens, written, target.begin)
        kind = "influence of each source token, by gradient"
    words = pharaoh.words(source, ids.tolist()), pharaoh.words(target, hypothesis.tokens)
    pairs = pharaoh.pairs(weights, *words)
    return Alignment(weights, source.pieces(row), target.pieces(written), kind, pairs)


def source_influence(model: Any, source: Tensor, tokens: Sequence[int], begin: int) -> Tensor:
    """T S: ‖∂ log p(token t)/∂(embedding of source place s)‖, each row divided by its sum.

    source: 1 S tokens with their end; `tokens` are what was written, its end included.
    """
    with torch.enable_grad():
        embedded = model.embed_source(source).detach().requires_grad_()
        likely = log_likelihoods(model, model.read_source(embedded), tokens, begin)
    return normalize_rows(gradients_of(likely, embedded)[:, 0].norm(dim=-1).float().cpu())


def read_alignment(run: LoadedRun[Any, Any], options: AlignmentOptions) -> Reading:
    """Of the given text, or the first source of validation, and the run's own translation."""
    options.refuse("sound", run)
    source, target = run.artifacts
    text = options.text
    if text is None:
        text = source.decode(run.task.pairs("valid").source_of(0).tolist())
    ids, best = translate(run, text)
    found = align(run, ids, best, layer=options.layer, head=options.head)
    figures = {
        "source": found.source,
        "target": found.target,
        "kind": found.kind,
        "weights": found.weights.tolist(),
        "pairs": [list(pair) for pair in found.pairs],
    }
    summary, charts = [f"{text} → {target.decode(best.tokens)}", found.kind], [draw(found, found.kind)]
    if options.initial is not False and run.draw_initial is not None:
        untrained = replace(run, model=run.draw_initial())
        before = align(untrained, ids, best, layer=options.layer, head=options.head)
        figures["initial"] = {"weights": before.weights.tolist(), "pairs": [list(pair) for pair in before.pairs]}
        charts = [draw(before, f"{found.kind}, before training"), draw(found, f"{found.kind}, trained")]
        summary.append(
            f"the largest weight of a word: {sharpness(before):.2f} before training, {sharpness(found):.2f} trained, "
            f"{1 / len(found.source):.2f} if all were alike (means over the words)"
        )
    return Reading(summary=summary, figures=figures, charts=charts)


def sharpness(alignment: Alignment) -> float:
    """The largest weight of each word of the target, on the mean."""
    return float(alignment.weights.amax(dim=-1).mean())


def draw(alignment: Alignment, title: str) -> Map:
    values = alignment.weights.tolist()
    return Map(
        title=title, x="source", y="translation", values=values, columns=alignment.source, rows=alignment.target,
        group="map", **SHARES,
    )  # fmt: skip


INSTRUMENTS = (Instrument("alignment", AlignmentOptions, read_alignment),)
