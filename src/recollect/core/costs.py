"""Declared costs held to what is counted step by step: FLOPs by torch's counter, bytes of state as they are stored."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import state as states
from .comparison import LawBroken
from .contract import ContractError, Cost, Layer, Memory, name_of
from .flops import Counter

COST_SHARE = 0.01  # of the counted FLOPs, by which those declared may differ


@dataclass
class Called:
    """What the calls of a layer inside a model were counted to cost."""

    calls: int = 0
    flops: int = 0
    state_bytes: int = 0
    before: int = 0  # FLOPs of the whole when the last call began


def check_flops(layer: Layer[Any], x: Tensor, memory: Memory | None, share: float) -> float:
    """The difference between declared and counted FLOPs, as a share of those counted; refused beyond `share`."""
    counted = _count(layer, x, memory, {})
    return _compare(layer, x, _declare(layer, x, memory)._replace(state_bytes=counted.state_bytes), counted, share)


def check_cost(layer: Layer[Any], x: Tensor, memory: Memory | None, share: float = COST_SHARE) -> float:
    """The same of a whole model and of every layer inside it, the bytes of state too.

    A layer may be wrong where its model is right within the share: a large vocabulary outweighs a small layer.
    """
    inside = {part: Called() for part in layer.modules() if isinstance(part, Layer) and part is not layer}
    counted = _count(layer, x, memory, inside)
    errors = [
        _compare(part, x, part.cost(len(x), x.shape[1]), Cost(found.flops, found.state_bytes), share)
        for part, found in reversed(inside.items())  # the inner ones first
        if found.calls == x.shape[1] and not _reads_memory(part)
    ]
    return max([*errors, _compare(layer, x, _declare(layer, x, memory), counted, share)])


def _count(layer: Layer[Any], x: Tensor, memory: Memory | None, inside: dict[Layer[Any], Called]) -> Cost:
    """What a layer executes over x, one step after the other from the initial state, and the bytes it ends with."""
    with Counter() as counter, ExitStack() as hooks, torch.no_grad():
        for part, found in inside.items():
            for handle in _watch(part, found, counter):
                hooks.callback(handle.remove)
        state = layer.initial_state(len(x), memory=memory, like=x if x.is_floating_point() else None)
        for t in range(x.shape[1]):
            _, state = layer(x[:, t : t + 1], state)
    return Cost(counter.flops, states.nbytes(state))


def _watch(part: Layer[Any], found: Called, counter: Counter) -> tuple[Any, Any]:
    """Hooks that add up what the calls of a layer cost."""

    def begin(*_: Any) -> None:
        found.before = counter.flops

    def end(module: Any, given: Any, result: tuple[Tensor, Any]) -> None:
        found.calls += 1
        found.flops += counter.flops - found.before
        found.state_bytes = states.nbytes(result[1])

    return part.register_forward_pre_hook(begin), part.register_forward_hook(end)


def _declare(layer: Layer[Any], x: Tensor, memory: Memory | None) -> Cost:
    return layer.cost(len(x), x.shape[1], 0 if memory is None else memory.values.shape[1])


def _compare(layer: Layer[Any], x: Tensor, declared: Cost, counted: Cost, share: float) -> float:
    over = f"{x.shape[1]} steps with {len(x)} rows"
    if declared.state_bytes != counted.state_bytes:
        raise LawBroken(
            f"Cost law broken by {name_of(layer)}: {declared.state_bytes:,} bytes of state declared after {over}, "
            f"{counted.state_bytes:,} counted"
        )
    error = abs(declared.flops - counted.flops) / max(counted.flops, 1)
    if not error <= share:
        raise LawBroken(
            f"Cost law broken by {name_of(layer)}: {declared.flops:,} FLOPs declared for {over}, {counted.flops:,} "
            f"counted step by step, allowed {share:.0%} apart"
        )
    return error


def _reads_memory(layer: Layer[Any]) -> bool:
    try:
        layer.initial_state(1)
    except ContractError:
        return True
    return False
