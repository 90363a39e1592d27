"""How large a model is, and the width at which it has a given size."""

from collections.abc import Callable

import torch
from torch import nn

from ..core.contract import ContractError


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
