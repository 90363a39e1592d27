"""The instrument alignment of sound: where in a recording each character of its text was heard."""

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
from ...decode import ctc as paths
from ...decode.beam import Hypothesis
from ...decode.translate import looks
from ..decoding import AlignmentOptions, log_likelihoods, search_settings, select_heads
from .use import Heard, find_texts, posteriors_of, transcribe

PROBABILITY = "probability"
SHARE = "share of each character's weights"
STATES = "probability that the character is heard at this moment, over all paths of CTC"


class Alignment(NamedTuple):
    """Weights over the steps of a sound for each character of its text."""

    weights: Tensor  # N S
    characters: list[str]
    kind: str  # what the weights are
    spans: list[tuple[float, float]]  # by CTC: seconds of each character on the likeliest path

    @property
    def unit(self) -> str:
        """What is counted."""
        return PROBABILITY if self.kind == STATES else SHARE


def align(
    run: LoadedRun[Any, Any],
    steps: Tensor,
    hypothesis: Hypothesis,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Alignment:
    """Where in a sound (S D, the steps of the model) its text was heard, by one layer or head (from 1), or the mean."""
    artifacts, model = run.artifacts, run.model
    frames = steps[None].to(run.device).clone()  # texts are found in inference mode, whose tensors have no gradient
    lengths = torch.tensor([len(steps)], device=run.device)
    posteriors = posteriors_of(model)
    if posteriors is not None:
        return align_paths(posteriors(frames, lengths)[0].detach().cpu().numpy(), artifacts, hypothesis)
    tokenizer = artifacts.tokenizer
    written = [*hypothesis.tokens, tokenizer.end]
    with torch.no_grad():
        memory = model.encode(frames, lengths)
    found = looks(model, memory, hypothesis.tokens, tokenizer.begin)
    if found:
        weights, kind = select_heads(found, layer, head)
    elif layer is not None or head is not None:
        raise ContractError(
            "alignment: expected a model with attention for a layer or a head, found one without; ask for neither"
        )
    else:
        weights = step_influence(model, frames, written, tokenizer.begin)
        kind = "influence of each moment, by gradient"
    return Alignment(weights, tokenizer.pieces(written), kind, [])


def align_paths(logp: np.ndarray, artifacts: Any, hypothesis: Hypothesis) -> Alignment:
    """By CTC: at each step the probability of each character of the text, and the steps of the likeliest path."""
    tokens = hypothesis.tokens
    weights = paths.occupancy(logp, tokens) if tokens else np.zeros((0, len(logp)))
    spans = [(artifacts.time(span.first), artifacts.time(span.end)) for span in paths.align(logp, tokens)]
    return Alignment(torch.from_numpy(weights).float(), artifacts.tokenizer.pieces(tokens), STATES, spans)


def step_influence(model: Any, frames: Tensor, tokens: Sequence[int], begin: int) -> Tensor:
    """N S: ‖∂ log p(character n)/∂(step s of the sound)‖, each row divided by its sum."""
    with torch.enable_grad():
        seen = frames.detach().requires_grad_()
        likely = log_likelihoods(model, model.encode(seen), tokens, begin)
    return normalize_rows(gradients_of(likely, seen)[:, 0].norm(dim=-1).float().cpu())


def read_alignment(run: LoadedRun[Any, Any], options: AlignmentOptions) -> Reading:
    """Of the given recording, or the first of validation, and the run's own text."""
    options.refuse("text", run)
    heard = hear_first(run) if options.sound is None else next(transcribe(run, [options.sound]))
    best, artifacts = heard.found[0], run.artifacts
    found = align(run, heard.steps, best, layer=options.layer, head=options.head)
    if not found.characters:
        raise ContractError("alignment: expected a recording in which the model hears something, found an empty text")
    figures: dict[str, Any] = {
        "characters": found.characters,
        "kind": found.kind,
        "unit": found.unit,
        "seconds_of_a_step": artifacts.seconds,
        "seconds_of_a_frame": artifacts.seconds / artifacts.stack,
        "weights": found.weights.tolist(),
        "spans": [list(span) for span in found.spans],
    }
    text = artifacts.tokenizer.decode(best.tokens)
    summary = [f"{heard.file}: {text}", found.kind]
    charts = [draw(run, heard, found, found.kind)]
    if options.initial is not False and run.draw_initial is not None:
        untrained = replace(run, model=run.draw_initial())
        before = align(untrained, heard.steps, best, layer=options.layer, head=options.head)
        figures["initial"] = {"weights": before.weights.tolist()}
        charts = [draw(run, heard, before, f"{found.kind}, before training"), draw(run, heard, found, found.kind)]
    if found.spans:
        heard_at = "  ".join(
            f"{name} {begin:.2f}–{end:.2f}" for name, (begin, end) in zip(found.characters, found.spans, strict=True)
        )
        summary.append(f"seconds on the likeliest path: {heard_at}")
    return Reading(summary=summary, figures=figures, charts=charts, spectrum=heard.frames.numpy())


@torch.no_grad()
def hear_first(run: LoadedRun[Any, Any]) -> Heard:
    """The first recording of validation, with the model's own text."""
    part, plan, rows = run.task.measured("valid", 1)
    artifacts = run.artifacts
    samples = part.samples_of(plan, int(rows[0]))
    steps = artifacts.steps(samples)
    lengths = torch.tensor([len(steps)], device=run.device)
    search = search_settings(run.config.task)
    (found,) = find_texts(run.model, artifacts, steps[None].to(run.device), lengths, search)
    frames = artifacts.scaled(artifacts.mel.frames(samples))
    texts = [artifacts.tokenizer.decode(hypothesis.tokens) for hypothesis in found]
    return Heard("the first recording of validation", frames, steps, found, texts)


def draw(run: LoadedRun[Any, Any], heard: Heard, found: Alignment, title: str) -> Map:
    """The weights as a map over the spectrogram."""
    return Map(
        title=title, x="seconds", y="character", values=found.weights.tolist(), rows=found.characters,
        columns=[f"{run.artifacts.time(step):.2f}" for step in range(found.weights.shape[1])], group="map", **SHARES,
    )  # fmt: skip


INSTRUMENTS = (Instrument("alignment", AlignmentOptions, read_alignment),)
