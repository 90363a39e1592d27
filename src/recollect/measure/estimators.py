"""Four ways to cut backpropagation through time, as estimators of the full gradient: bias² and variance over data."""

from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from ..core import bptt
from ..core.bptt import BpttName

GROUPS = 10


class Estimate(NamedTuple):
    """Of one estimator, relative to the squared length of the mean full gradient."""

    bias: float  # ‖mean of (estimate − full)‖², less what the noise of that mean adds to it on average
    variance: float  # mean of ‖estimate − its mean‖² over batches and draws
    error: float  # standard error of the bias, from groups of batches
    slope: float  # mean cosine to the full gradient of the same batch


def compare(
    model: Any, batches: list[tuple[Tensor, Tensor]], *, segment: int, cut: float, draws: int = 1, seed: int = 0
) -> dict[str, Estimate]:
    """Each estimator on the same batches (x, y: B T), with `draws` of its own noise for each of them.

    The bias is taken on paired differences to the full gradient of the same batch, so that the noise of the data
    does not enter it.
    """
    full = torch.stack([gradient(model, x, y, [bptt.Segment(x.shape[1], 0.0)]) for x, y in batches])
    scale = full.mean(dim=0).square().sum()
    found = {}
    for kind in get_args(BpttName):
        count = draws if kind in ("random", "unbiased") else 1
        rows = []
        for number, (x, y) in enumerate(batches):
            for draw in range(count):
                noise = torch.Generator().manual_seed(seed + number * draws + draw)
                rows.append(gradient(model, x, y, bptt.plan(kind, x.shape[1], segment, cut, noise)))
        estimates = torch.stack(rows)
        away = estimates - full.repeat_interleave(count, dim=0)
        parts = torch.stack([squared_mean(part) / scale for part in away.tensor_split(GROUPS)])
        found[kind] = Estimate(
            bias=float(squared_mean(away) / scale),
            variance=float(estimates.var(dim=0).sum() / scale),
            error=float(parts.std() / GROUPS**0.5),
            slope=float(torch.cosine_similarity(estimates, full.repeat_interleave(count, dim=0)).mean()),
        )
    return found


def squared_mean(rows: Tensor) -> Tensor:
    """‖E row‖² without the bias of ‖mean of rows‖², which is the variance divided by the number of rows."""
    return rows.mean(dim=0).square().sum() - rows.var(dim=0).sum() / len(rows)


def gradient(model: Any, x: Tensor, y: Tensor, segments: list[bptt.Segment]) -> Tensor:
    """The gradient of the mean loss, as one vector."""
    model.zero_grad(set_to_none=True)
    bptt.run(model, x, y, None, segments)[0].mean().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
