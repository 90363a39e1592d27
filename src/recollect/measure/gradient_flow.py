"""Gradient flow: from an output back to earlier inputs, and from a state to the one before it.

    flow        ‖∂y_T/∂x_{T−k}‖ against k: the Frobenius norm of the Jacobian, exact for few outputs, else estimated
    jacobian    ∂h_t/∂h_{t−1} of a state that does not grow, and its spectrum

A factor for each step back is fitted to the flow. One rule, whatever the length of the input: a gradient vanishes where
that factor leaves less than a tenth of it over 32 steps (less than 0.931 a step), and explodes where it makes more than
ten times as much (more than 1.075 a step).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core.chart import Chart, Line
from ..core.contract import ContractError, Memory
from ..core.inspection import Probe, changing_tensors, slope
from .inputs import traced

EXACT = 32  # outputs up to which each has its own backward pass
PROBES = 32  # random directions in their place: the norm's mean square over them is the Frobenius norm's
LARGEST = 2048  # numbers of a state whose Jacobian is written out
RULE = 32  # steps over which a gradient is judged, however many were looked at
TENFOLD = 10.0  # times less: it vanishes; times more: it explodes
NOTHING = 1e-300  # gradients below it are no gradients


@dataclass(frozen=True, kw_only=True)
class Flow:
    """‖∂y_T/∂x_{T−k}‖ for k = 0 … T−1, over rows; `factor` is what each step back multiplies it by."""

    mean: list[float]
    low: list[float]
    high: list[float]
    factor: float | None
    reach: int  # the largest k with any gradient at all
    verdict: str  # vanishing, exploding, carried or cut off
    words: str


def flow(model: Any, x: Tensor, memory: Memory | None = None, *, seed: int = 0) -> Tensor:
    """B T: ‖∂y_T/∂x_{T−k}‖ at k, for any model or layer; x: B T tokens, or B T D numbers."""

    def last(x: Tensor) -> Tensor:
        return model(x, model.initial_state(len(x), memory=memory))[0][:, -1]

    return norms(last, model, x, seed)


def flow_of(probe: Probe, seed: int = 0) -> Tensor:
    """The same of the last outputs of a probe: log-probabilities, or numbers."""
    exact = probe.double()
    return norms(lambda x: exact.last(x).flatten(1), exact.model, exact.x, seed)


@torch.enable_grad()
def norms(call: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor, seed: int = 0) -> Tensor:
    """B T, newest first: the Frobenius norm of ∂y/∂x_{T−k}, for y = call(x): B V."""
    y, (seen,) = traced(call, model, x)
    if y.shape[1] <= EXACT:
        directions = torch.eye(y.shape[1], dtype=y.dtype)[:, None].expand(-1, len(y), -1)
    else:
        noise = torch.Generator().manual_seed(seed)
        directions = torch.randn(PROBES, *y.shape, generator=noise, dtype=torch.float64) / math.sqrt(PROBES)
    total = torch.zeros(seen.shape[:2], dtype=torch.float64)
    for direction in directions.to(y):
        (found,) = torch.autograd.grad((y * direction).sum(), seen, retain_graph=True, materialize_grads=True)
        total += found.flatten(2).square().sum(dim=-1).double().cpu()
    return total.sqrt().flip(1)


def summarise(found: Tensor) -> Flow:
    """Of flows of rows (B T): their mean and range, and what happens to a gradient, in words."""
    mean = found.mean(dim=0)
    there = [k for k, value in enumerate(mean.tolist()) if value > NOTHING]
    reach = max(there, default=-1)
    last = len(mean) - 1
    fitted = [k for k in there if k > 0]
    each = slope([float(k) for k in fitted], [math.log(float(mean[k])) for k in fitted])
    factor = math.exp(each) if math.isfinite(each) else None
    verdict, words = _name(factor, reach, last)
    return Flow(
        mean=mean.tolist(),
        low=found.amin(dim=0).tolist(),
        high=found.amax(dim=0).tolist(),
        factor=factor,
        reach=reach,
        verdict=verdict,
        words=words,
    )


def _name(factor: float | None, reach: int, last: int) -> tuple[str, str]:
    if reach < last:
        return "cut off", f"cut off: no gradient at all from more than {max(reach, 0)} steps back"
    if factor is None:
        return "carried", "too short to tell: give at least three steps"
    over = factor**RULE
    each = f"× {factor:.3f} a step, fitted over {last} steps, makes × {over:.2g} over {RULE}"
    if over < 1 / TENFOLD:
        return "vanishing", f"vanishing, less than a tenth over {RULE} steps: {each}"
    if over > TENFOLD:
        return "exploding", f"exploding, more than ten times as much over {RULE} steps: {each}"
    return "carried", f"carried, between a tenth and ten times as much over {RULE} steps: {each}"


def chart(flows: dict[str, Flow], title: str) -> Chart:
    lines = [
        Line(name=name, x=list(range(len(own.mean))), y=_drawn(own.mean), low=_drawn(own.low), high=_drawn(own.high))
        for name, own in flows.items()
    ]
    return Chart(
        title=title, x="steps between the input and the output", y="size of the gradient", lines=lines, log_y=True
    )


def _drawn(values: Sequence[float]) -> list[float | None]:
    """What a logarithmic axis can show."""
    return [value if value > NOTHING else None for value in values]


def jacobian(layer: Any, x: Tensor, state: Any) -> Tensor:
    """N N: ∂(state after x)/∂(state), of one row; x: 1 1 (tokens) or 1 1 D, N numbers in the state.

    Rows do not touch each other, so one backward pass over N copies of the row gives every line of it.
    """
    shapes = [tensor.shape for _, tensor in changing_tensors(state)]
    with torch.no_grad():
        _, after = layer(x, state)
    if shapes != [tensor.shape for _, tensor in changing_tensors(after)]:
        raise ContractError("jacobian: expected a state of fixed size, found one that grows with each step")
    size = sum(shape.numel() for shape in shapes)
    if not 0 < size <= LARGEST:
        raise ContractError(f"jacobian: expected a state of 1 to {LARGEST:,} numbers, found {size:,}")
    copies = torch.zeros(size, dtype=torch.int64, device=x.device)
    wide = states.select(state, copies)
    wide = states.map(lambda t: t.detach().clone().requires_grad_() if t.is_floating_point() else t, wide)
    with torch.enable_grad():
        _, after = layer(x[copies], wide)
        inputs, outputs = [t for _, t in changing_tensors(wide)], [t for _, t in changing_tensors(after)]
        flat = torch.cat([t.reshape(size, -1) for t in outputs], dim=1)  # N N, every row the same
        found = torch.autograd.grad(flat.diagonal().sum(), inputs, materialize_grads=True)
    return torch.cat([t.reshape(size, -1) for t in found], dim=1).detach()


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Of ∂h_t/∂h_{t−1} at some steps: the largest singular values, and the largest of the eigenvalues' sizes."""

    size: int
    steps: list[int]
    singular: list[list[float]]  # of each step, falling
    radius: list[float]

    @property
    def words(self) -> str:
        mean = sum(self.radius) / len(self.radius)
        top = [own[0] for own in self.singular]
        return (
            f"∂h_t/∂h_{{t−1}} of {self.size} numbers: spectral radius {mean:.3f} "
            f"({min(self.radius):.3f} to {max(self.radius):.3f} over {len(self.steps)} steps), "
            f"largest singular value {sum(top) / len(top):.3f}"
        )


def spectrum(probe: Probe, places: int = 8, count: int = 16) -> Spectrum:
    """Along the first row, at evenly spread steps (fewer, where the state is large)."""
    stepper, x, state = probe.first().double().stepping()
    x, state = x[:1], states.select(state, torch.zeros(1, dtype=torch.int64, device=x.device))
    size = sum(tensor.numel() for _, tensor in changing_tensors(state))
    places = max(2, places) if size <= 256 else 2
    wanted = sorted({round(i * (x.shape[1] - 1) / max(1, places - 1)) for i in range(places)})
    singular, radius = [], []
    for t in range(x.shape[1]):
        if t in wanted:
            found = jacobian(stepper, x[:, t : t + 1], state)
            singular.append(torch.linalg.svdvals(found)[:count].tolist())
            radius.append(float(torch.linalg.eigvals(found).abs().max()))
        with torch.no_grad():
            _, state = stepper(x[:, t : t + 1], state)
    return Spectrum(size=size, steps=wanted, singular=singular, radius=radius)


def spectrum_chart(found: dict[str, Spectrum], title: str) -> Chart:
    lines = []
    for name, own in found.items():
        columns = list(zip(*own.singular, strict=True))
        lines.append(
            Line(
                name=name,
                x=list(range(1, len(columns) + 1)),
                y=[sum(column) / len(column) for column in columns],
                low=[min(column) for column in columns],
                high=[max(column) for column in columns],
            )
        )
    return Chart(
        title=title,
        x="rank of the singular value",
        y="singular value of one step (mean and range over steps)",
        lines=lines,
        level=1.0,
        level_name="keeps its length",
    )
