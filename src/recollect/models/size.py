"""How large a model is, and the width at which it has a given size."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import nn

from ..core.contract import ContractError

C = TypeVar("C")
NEAR = 0.02  # of the parameters asked for: near enough
EVEN = 128  # from this width on, other widths are multiples of eight too, as a GPU likes them


def parameters(model: nn.Module) -> int:
    """Trainable parameters, tied weights once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def solve(build: Callable[[int], nn.Module], params: int, *, grain: int = 1, what: str = "the model") -> int:
    """The width, in steps of `grain`, at which `build(width)` has the number of parameters nearest to `params`."""

    def count(units: int) -> int:
        with torch.device("meta"):
            return parameters(build(units * grain))

    if count(1) > params:
        raise ContractError(f"params: expected at least {count(1):,} for {what}, found {params:,}")
    low, high = 1, 2
    while count(high) < params:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < params else (low, middle)
    return min((low, high), key=lambda units: abs(count(units) - params)) * grain


def fit(config: C, params: int, *, grain: int, what: str, feeds: bool) -> C:
    """The same model with the number of parameters nearest to `params`.

    Widths come in steps of `grain`, so that heads are equally wide; where the model `feeds` each token through
    networks of its own whose width is open, theirs makes up for what is missing.
    """
    given: Any = config
    width = solve(lambda width: replace(given, width=width).build(), params, grain=grain, what=what)
    given = replace(given, width=width)
    with torch.device("meta"):
        missing = abs(parameters(given.build()) - params) / params
    if not feeds or given.hidden is not None or missing <= NEAR:
        return given
    even = 8 if width >= EVEN else 1
    hidden = solve(lambda hidden: replace(given, hidden=hidden).build(), params, grain=even, what=what)
    return replace(given, hidden=hidden)
