"""How far back a model makes use of its input: by gradient, and by what it loses when it is given less.

by gradient    the distance within which 95 % of ‖∂y_T/∂x_{T−k}‖, summed over k, lies
by ablation    the fewest inputs k with which the loss is as good as that with all of them: the model is given the
               last k alone, from an empty state (a forecaster: its oldest one repeated in place of those before).
               As good is what is worse by at most 1 % of the loss with all of them, or of what they save against
               the worst k, whichever is more: of a loss near 0 alone, 1 % would be nothing
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.chart import Chart, Line
from ..core.inspection import Instrument, Probe, Reading, Request
from ..core.task import LoadedRun
from . import gradient_flow
from .inputs import counted
from .probes import probe_of

SHARE, CLOSE = 0.95, 0.01
TOGETHER = 16_384  # steps that go through a model at once


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """`reach` inputs are what a model makes use of; `lengths` and `curve` are what that was read off."""

    reach: int
    lengths: list[int]
    curve: list[float]  # by gradient: the share of influence up to there; by ablation: the loss


def by_gradient(found: Tensor) -> Horizon:
    """From the flow of rows (B T, at k steps back)."""
    mean = found.double().mean(dim=0)
    shares = mean.cumsum(dim=0) / mean.sum().clamp(min=torch.finfo(mean.dtype).tiny)
    lengths = list(range(1, len(mean) + 1))
    inside = [k for k, share in zip(lengths, shares.tolist(), strict=True) if share >= SHARE]
    return Horizon(reach=inside[0] if inside else 0, lengths=lengths, curve=shares.tolist())


@torch.no_grad()
def by_ablation(probe: Probe) -> Horizon:
    """Over all rows of a probe, each judged by what comes after its last step."""
    whole = probe.x.shape[1]
    lengths = [*(2**i for i in range(whole.bit_length()) if 2**i < whole), whole]
    curve = [float(_losses(probe, k).mean()) for k in lengths]
    return Horizon(reach=enough(lengths, curve), lengths=lengths, curve=curve)


def enough(lengths: list[int], curve: list[float]) -> int:
    """The first of the lengths whose loss is as good as the last one's."""
    whole = curve[-1]
    close = CLOSE * max(whole, max(curve) - whole)
    return next((k for k, loss in zip(lengths, curve, strict=True) if loss <= whole + close), lengths[-1])


def _losses(probe: Probe, k: int) -> Tensor:
    """B: the loss of each row's last answer, given its last k inputs."""
    rows = torch.arange(len(probe.x), device=probe.x.device)
    found = []
    for some in rows.split(max(1, TOGETHER // probe.x.shape[1])):
        predicted = probe.last(probe.x[some, -k:], some)
        found.append(probe.losses(predicted.double(), _double(probe.last_targets[some])))
    return torch.cat(found)


def _double(y: Tensor) -> Tensor:
    return y.double() if y.is_floating_point() else y


def read(probe: Probe, rows: int = 16) -> Reading:
    """Both, one number and a curve each; gradients are taken over the first `rows`."""
    ablated = by_ablation(probe)
    unit = "nats" if probe.categorical else "squared error"
    figures: dict[str, Any] = {"data": probe.data, "ablation": vars(ablated)}
    whole = ablated.lengths[-1]
    summary = [
        f"by ablation: {ablated.reach} of {whole} inputs; with them the loss is {_at(ablated):.4f} {unit}, "
        f"with all {ablated.curve[-1]:.4f}, with the last one alone {ablated.curve[0]:.4f}"
    ]
    charts = [
        Chart(
            title="loss when only the last inputs are given",
            x="inputs given",
            y=f"loss of the last output, {unit}",
            lines=[Line(name="the last k inputs alone", x=ablated.lengths, y=ablated.curve)],
            log_x=True,
            level=ablated.curve[-1],
            level_name="all inputs",
        )
    ]
    if counted(probe.model):
        summary.append("by gradient: not here, since what was counted has no gradient")
    else:
        smooth = by_gradient(gradient_flow.flow_of(probe.first(rows)))
        figures["gradient"] = vars(smooth)
        summary.append(f"by gradient: {smooth.reach} of {whole} inputs hold {SHARE:.0%} of the influence")
        charts.append(
            Chart(
                title="share of the gradient within the last inputs",
                x="inputs back",
                y="share",
                lines=[Line(name="gradient up to here", x=smooth.lengths, y=smooth.curve)],
                level=SHARE,
                level_name=f"{SHARE:.0%} of it",
            )
        )
    return Reading(summary=summary, figures=figures, charts=charts)


def _at(found: Horizon) -> float:
    return found.curve[found.lengths.index(found.reach)]


def inspect(run: LoadedRun[Any, Any], options: Request) -> Reading:
    return read(probe_of(run, options, rows=256))


INSTRUMENT = Instrument("horizon", Request, inspect)
