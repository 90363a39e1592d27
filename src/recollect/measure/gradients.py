"""Gradients during training: with the initial weights of a run, its snapshots, and its best weights."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..core import state as states
from ..core.chart import Chart, Line
from ..core.contract import ContractError
from ..core.inspection import Instrument, Probe, Reading, Request
from ..core.settings import option
from ..core.task import LoadedRun
from ..training import checkpoint, optim
from ..training.folder import RunFolder
from . import gradient_flow
from .inputs import counted
from .probes import probe_of


def stages(run: LoadedRun[Any, Any], initial: bool = True) -> dict[str, dict[str, torch.Tensor]]:
    """The weights of a run in the order of its training, by name; the first ones are drawn anew by its seed."""
    folder, found = RunFolder(run.path), {}
    if initial and run.draw_initial is not None:
        found["initial"] = checkpoint.weights(run.draw_initial())
    for step in folder.snapshot_steps(1 << 62):
        found[f"step {step:,}"] = checkpoint.read_tensors(folder.snapshot(step))[0]
    best = {name: tensor.clone() for name, tensor in checkpoint.weights(run.model).items()}
    same = [name for name, own in found.items() if all(torch.equal(own[part], best[part].cpu()) for part in best)]
    return {name: own for name, own in found.items() if name not in same} | {"trained": best}


def clipping(run: LoadedRun[Any, Any], model: nn.Module) -> dict[str, float | str | None]:
    """The norm of the gradient of the first training batch, before and after it is clipped as the run clips."""
    settings = run.config.train
    batch = next(run.task.batches("train", settings.seed))
    model = copy.deepcopy(model).train()  # a copy: norms over batches learn as they read
    carry = None
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        for part in run.task.backward_parts(batch):
            loss = run.task.loss(model, part, carry)
            loss.value.backward()
            carry = states.detach(loss.carry)
    before = float(optim.clip(model, settings))
    after = float(nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))
    return {"clip": settings.clip, "by": settings.clip_by, "before": before, "after": after}


def read(run: LoadedRun[Any, Any], probe: Probe, *, initial: bool = True, clips: bool = True) -> Reading:
    """The flow of gradients, the spectrum of the state's Jacobian and what clipping does, stage by stage.

    With `clips` a batch of the run's training data is needed.
    """
    if counted(probe.model):
        raise ContractError(
            "gradients: expected a model that was trained, found one that counts; ask for influence or horizon"
        )
    model = run.model
    flows: dict[str, gradient_flow.Flow] = {}
    spectra: dict[str, gradient_flow.Spectrum] = {}
    clipped: dict[str, Any] = {}
    why = None
    for name, weights in stages(run, initial).items():  # the trained ones come last, and stay
        checkpoint.load_weights(model, weights, run.path)
        flows[name] = gradient_flow.summarise(gradient_flow.flow_of(probe))
        try:
            spectra[name] = gradient_flow.spectrum(probe)
        except ContractError as error:
            why = str(error)
        if clips:
            clipped[name] = clipping(run, model)
    figures: dict[str, Any] = {
        "data": probe.data,
        "flow": {name: vars(own) for name, own in flows.items()},
        "jacobian": {name: vars(own) for name, own in spectra.items()} or {"why": why},
        "clipping": clipped,
    }
    charts: list[Chart] = [gradient_flow.chart(flows, "gradient of the last output by distance of the input")]
    if spectra:
        charts.append(gradient_flow.spectrum_chart(spectra, "how much one step stretches the state"))
    charts += _norms(run, figures)
    summary = [f"{name}: {own.words}" for name, own in flows.items()]
    summary += [f"{name}: {own.words}" for name, own in spectra.items()] or [str(why)]
    summary += [f"{name}: {_clip_words(own)}" for name, own in clipped.items()]
    if "share_clipped" in figures:
        summary.append(f"in training {figures['share_clipped']:.0%} of the norms that were logged lay above the clip")
    return Reading(summary=summary, figures=figures, charts=charts)


def _clip_words(found: dict[str, Any]) -> str:
    if found["clip"] is None:
        return f"gradient of a training batch of norm {found['before']:.4g}, not clipped"
    how = "untouched by" if found["after"] > 0.999 * found["before"] else f"cut to {found['after']:.4g} by"
    return f"gradient of a training batch of norm {found['before']:.4g}, {how} clip={found['clip']:g} ({found['by']})"


def _norms(run: LoadedRun[Any, Any], figures: dict[str, Any]) -> list[Chart]:
    """The norms that the run logged, before clipping and after it."""
    logged = [(row["step"], row["norm"]) for row in RunFolder(run.path).metrics() if "norm" in row]
    figures["norms"] = logged
    if not logged:
        return []
    settings = run.config.train
    steps, norms = [step for step, _ in logged], [norm for _, norm in logged]
    lines = [Line(name="before clipping", x=steps, y=norms)]
    limit = settings.clip if settings.clip_by == "norm" else None
    if limit is not None:
        lines.append(Line(name="after clipping", x=steps, y=[min(norm, limit) for norm in norms]))
        cut = sum(norm > limit for norm in norms)
        figures["share_clipped"] = cut / len(norms)
    return [
        Chart(
            title="norm of the gradient in training",
            x="step",
            y="norm",
            lines=lines,
            log_y=True,
            level=limit,
            level_name="clip" if limit is not None else "",
        )
    ]


@dataclass(frozen=True, kw_only=True)
class Options(Request):
    initial: bool | None = option(None, "Of gradients and alignment: the first weights too (default: yes).")


def inspect(run: LoadedRun[Any, Any], options: Options) -> Reading:
    probe = probe_of(run, options, rows=16)
    clips = options.own_data and probe.missing is None  # they need the run's batches
    return read(run, probe, initial=options.initial is not False, clips=clips)


INSTRUMENT = Instrument("gradients", Options, inspect)
