"""How much each input matters to each output: by gradient, and by what changes when it is taken away.

By gradient:  ‖∂ log p(what came)/∂(what the input enters as)‖, of numbers ‖∂y/∂x‖.
By ablation:  the input is replaced by another one of the same data (or by zero), and the output's distribution moves
              by so many nats, KL(before ‖ after); numbers by so much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ..core.attribution import gradients_of, normalize_rows
from ..core.chart import SHARES, Map
from ..core.contract import ContractError
from ..core.inspection import Instrument, Probe, Reading, Request
from ..core.settings import known, option
from ..core.task import LoadedRun
from . import attention
from .inputs import counted, traced, without
from .probes import probe_of

By = Literal["another", "zero"]
STEPS = 24  # of a row that may be read to any length
MOST_STEPS = 2_000  # of a row
MOST_PASSES = 1_000_000  # of a row through the model
TOGETHER = 4096  # steps that go through a model at once


@torch.enable_grad()
def by_gradient(probe: Probe) -> Tensor:
    """O S, of the first row: the sources' places come first, where there are tokens of a source."""
    one = probe.first()
    if one.source_names and one.source is not None:
        y, seen = traced(lambda source, x: one.answers(x, source=source), one.model, one.source[0], one.x)
    else:
        y, seen = traced(one.answers, one.model, one.x)
    answers = y[0].gather(1, one.y[0, :, None]) if one.categorical else y[0]  # O V
    found = []
    for entered in seen:
        rows = gradients_of(answers.flatten(), entered)[:, 0].flatten(2).norm(dim=-1)  # O·V S
        found.append(rows.unflatten(0, tuple(answers.shape)).norm(dim=1))
    return torch.cat(found, dim=1).float().cpu()


@torch.no_grad()
def by_ablation(probe: Probe, *, by: By = "another", draws: int = 4, seed: int = 0) -> Tensor:
    """O S, of the first row; with `another`, the mean over so many draws of what stands in an input's place.

    What is drawn is another input of the same data, never the same token.
    """
    one = probe.first()
    before = one.answers(one.x)
    noise = torch.Generator().manual_seed(seed)

    def alone(rows: Tensor) -> Tensor:
        return torch.zeros(len(rows), dtype=torch.int64, device=rows.device)

    def of_x(x: Tensor) -> Tensor:
        return one.answers(x, alone(x))

    def of_source_tokens(x: Tensor) -> Tensor:
        return one.answers(one.x[alone(x)], alone(x), x)

    check_passes(probe, by, draws)
    parts = [(of_x, one.x, probe.x)]
    if one.source_names and one.source is not None and probe.source is not None:
        parts.insert(0, (of_source_tokens, one.source[0], _real(probe)))
    found = []
    for call, x, pool in parts:
        steps = x.shape[1]
        count = draws if by == "another" else 1
        places = torch.arange(steps).repeat(count)
        moved = []
        for some in places.split(max(1, TOGETHER // steps)):
            many = x[alone(some)]
            gone = torch.arange(steps)[None] == some[:, None]
            if by == "zero":
                after = without(call, one.model, many, gone.to(x.device))
            else:
                after = call(_replaced(many, some, pool, noise))
            moved.append(distance(before, after, one.categorical))
        found.append(torch.cat(moved).unflatten(0, (count, steps)).mean(dim=0).T)
    return torch.cat(found, dim=1).float().cpu()


def check_passes(probe: Probe, by: By, draws: int) -> None:
    """Refuse what takes too many passes of a row through the model."""
    one = probe.first()
    if one.x.shape[1] > MOST_STEPS:
        raise ContractError(
            f"influence: expected at most {MOST_STEPS:,} steps, each of which is held against all before it, found "
            f"{one.x.shape[1]:,}; lower --steps or shorten --text"
        )
    places = one.x.shape[1] + (one.source[0].shape[1] if one.source_names and one.source is not None else 0)
    passes = places * (draws if by == "another" else 1)
    if passes > MOST_PASSES:
        raise ContractError(
            f"influence: expected at most {MOST_PASSES:,} forward passes, found that {one.x.shape[1]:,} steps with "
            f"{draws:,} draws would take {passes:,}; lower --steps or --draws"
        )


def distance(before: Tensor, after: Tensor, categorical: bool) -> Tensor:
    """How far outputs (… V) moved: KL(before ‖ after) in nats of log-probabilities, of numbers the length between."""
    if not categorical:
        return (after - before).norm(dim=-1)
    return (before.exp() * (before - after)).sum(dim=-1).clamp(min=0)


def _real(probe: Probe) -> Tensor:
    """The tokens of all sources, without what pads them: N."""
    assert probe.source is not None
    tokens, lengths = probe.source
    return tokens[torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]]


def _replaced(rows: Tensor, places: Tensor, pool: Tensor, noise: torch.Generator) -> Tensor:
    """Rows (N T …), each with another input of the pool in its place."""
    rows, at = rows.clone(), torch.arange(len(rows))
    if rows.is_floating_point():
        pool = pool.flatten(0, 1)
        rows[at, places] = pool[torch.randint(len(pool), (len(rows),), generator=noise)]
        return rows
    kinds, counts = pool.unique(return_counts=True)
    own = rows[at, places]
    weights = counts.double() * (kinds != own[:, None])  # N K
    weights[weights.sum(dim=1) == 0] = 1  # nothing else occurs: it stays
    rows[at, places] = kinds[torch.multinomial(weights.cpu(), 1, generator=noise)[:, 0].to(kinds.device)]
    return rows


def read(probe: Probe, *, by: By = "another", draws: int = 4, layer: int | None = None) -> Reading:
    """Both maps of the first row, and beside them the attention weights where the model has them."""
    check_passes(probe, by, draws)
    names: dict[str, Any] = {"x": "input", "y": "output"}
    columns, rows = [*probe.source_names, *probe.inputs], list(probe.outputs)
    figures: dict[str, Any] = {"data": probe.data, "inputs": columns, "outputs": rows}
    summary, charts = [], []
    if counted(probe.model):
        summary.append("by gradient: not here, since what was counted has no gradient")
    else:
        found = by_gradient(probe)
        figures["gradient"] = found.tolist()
        charts.append(
            Map(
                title="influence by gradient",
                values=normalize_rows(found).tolist(),
                columns=columns,
                rows=rows,
                **SHARES,
                **names,
            )
        )
        summary.append("by gradient: " + _strongest(found, columns, rows))
    found = by_ablation(probe, by=by, draws=draws)
    unit = "nats by which the output moves" if probe.categorical else "distance by which the output moves"
    least = 1.0 if probe.categorical else None  # below a nat is little, and is to look so
    figures["ablation"] = {"by": by, "draws": draws, "values": found.tolist()}
    charts.append(
        Map(
            title="influence by ablation",
            values=found.tolist(),
            columns=columns,
            rows=rows,
            high=least,
            unit=unit,
            **names,
        )
    )
    summary.append("by ablation: " + _strongest(found, columns, rows))
    heads = attention.weights(probe)
    if heads:
        figures["attention"] = {name: head.tolist() for name, head in heads.items()}
        charts += attention.maps(probe, heads, layer)
        summary.append(f"attention: {', '.join(heads)}")
    elif layer is not None:
        raise ContractError("--layer: expected a model with attention, found one without; leave it out")
    else:
        summary.append("attention: none, this memory has no weights over what it saw")
    return Reading(summary=summary, figures=figures, charts=charts)


def _strongest(found: Tensor, columns: Sequence[str], rows: Sequence[str]) -> str:
    """The input that the last output rests on most."""
    place = int(found[-1].argmax())
    share = float(normalize_rows(found)[-1, place])
    return f"{rows[-1]!r}, the last output, rests most on {columns[place]!r} (input {place + 1}), {share:.0%} of all"


@dataclass(frozen=True, kw_only=True)
class Options(Request):
    by: str | None = option(None, "Of influence: an input gives way to another, or to zero.")
    draws: int | None = option(None, "Of influence: how many others, on average (default: 4).", most=10_000)
    layer: int | None = option(None, "The attention of this layer.")


def inspect(run: LoadedRun[Any, Any], options: Options) -> Reading:
    by = known("--by", options.by or "another", get_args(By))
    probe = probe_of(run, options, rows=16, steps=STEPS if run.kind.free_length else None)
    if options.text is not None:
        probe = replace(probe, data=f"{probe.data}, what stands in for an input drawn from it")
    return read(probe, by=by, draws=options.draws or 4, layer=options.layer)  # type: ignore[arg-type]


INSTRUMENT = Instrument("influence", Options, inspect)
