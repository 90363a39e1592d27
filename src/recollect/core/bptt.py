"""Truncated backpropagation through time: four ways to divide a window into segments.

full        through the whole window
truncated   the window is cut into equal segments; the state goes on, its gradient does not
random      the same with segments of random length (still biased: every cut loses what lay before it)
unbiased    at each boundary of an equal grid the state is cut off with probability c, else its gradient
            is scaled by 1/(1 − c), so that on average nothing is lost (Tallec & Ollivier 2017)

No gradient crosses a cut, so what lies between two of them is gone back through before the next part is read: memory
is that of the longest part, not of the window.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import state as states
from .settings import BpttName


class Segment(NamedTuple):
    """A run of steps, and by how much the gradient into the state before it is scaled (0: cut off)."""

    steps: int
    factor: float


def plan(
    kind: BpttName, steps: int, length: int, cut: float, generator: torch.Generator | None = None
) -> list[Segment]:
    """The segments of a window of `steps`. `length` is (on average) that of a segment; `full` draws nothing."""
    if kind == "full" or length >= steps:
        return [Segment(steps, 0.0)]
    if kind == "random":
        lengths: list[int] = []
        while sum(lengths) < steps:
            drawn = int(torch.randint(1, 2 * length, (), generator=generator))
            lengths.append(min(drawn, steps - sum(lengths)))
        return [Segment(n, 0.0) for n in lengths]
    lengths = [length] * (steps // length) + ([steps % length] if steps % length else [])
    if kind == "truncated":
        return [Segment(n, 0.0) for n in lengths]
    drawn = torch.rand(len(lengths), generator=generator)
    return [Segment(n, 0.0 if u < cut else 1 / (1 - cut)) for n, u in zip(lengths, drawn.tolist(), strict=True)]


def between_cuts(segments: Sequence[Segment]) -> list[tuple[Segment, ...]]:
    """The segments in parts that no gradient leaves: each begins with a cut, and holds no other."""
    parts: list[list[Segment]] = []
    for segment in segments:
        if segment.factor == 0 or not parts:
            parts.append([])
        parts[-1].append(segment)
    return [tuple(part) for part in parts]


def run(
    model: Any, x: Tensor, y: Tensor, state: Any, segments: Sequence[Segment], **options: Any
) -> tuple[Tensor, Any]:
    """The losses (B T) of a window read segment by segment, and the state after it."""
    losses, state = _read(model, x, y, state, segments, options)
    return torch.cat(losses, dim=1), state


def mean(
    model: Any, x: Tensor, y: Tensor, state: Any, segments: Sequence[Segment], **options: Any
) -> tuple[Tensor, Any]:
    """The mean of the losses that `run` gives, from a model whose `nll` has `reduction="mean"`, which costs less."""
    means, state = _read(model, x, y, state, segments, options | {"reduction": "mean"})
    weighted = [mean * (steps / x.shape[1]) for mean, (steps, _) in zip(means, segments, strict=True)]
    return sum(weighted[1:], weighted[0]), state


def _read(
    model: Any, x: Tensor, y: Tensor, state: Any, segments: Sequence[Segment], options: dict[str, Any]
) -> tuple[list[Tensor], Any]:
    """The output of the model's `nll` for each segment, and the state after the last."""
    found = []
    start = 0
    for i, (steps, factor) in enumerate(segments):
        if i and state is not None:
            state = scale_gradient(state, factor)
        part = slice(start, start + steps)
        loss, state = model.nll(x[:, part], y[:, part], state, **options)
        found.append(loss)
        start += steps
    return found, state


def scale_gradient(state: Any, factor: float) -> Any:
    """The same values; gradients into them are multiplied by `factor`."""
    if factor == 0:
        return states.detach(state)
    if factor == 1:
        return state
    return states.map(lambda t: t.detach() + factor * (t - t.detach()) if t.is_floating_point() else t, state)
