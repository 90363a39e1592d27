"""What is measured of a layer: influence of inputs on outputs, chains of operations, bytes kept, time, growth."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.functional import jacobian
from torch.autograd.graph import saved_tensors_hooks

from ...core.contract import Config, Example, Layer
from ...core.laws import LawBroken
from ...layers import LINEAGE


def outputs(layer: Layer[Any]) -> Callable[[Tensor], Tensor]:
    """The layer as a function of a whole sequence, from a fresh state."""
    return lambda x: layer(x, layer.initial_state(len(x), like=x))[0]


def slopes(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """∂y/∂x of one row (x: 1 T D → y: 1 T W), as T W T D."""
    found = jacobian(function, x)
    assert isinstance(found, Tensor)
    return found[0, :, :, 0]


def influence(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """T T: ‖∂y_t/∂x_s‖, outputs by inputs."""
    return slopes(function, x).square().sum(dim=(1, 3)).sqrt()


def depth(y: Tensor) -> int:
    """The longest chain of operations, each waiting for the one before, that led to y."""
    longest: dict[Any, int] = {}
    open_nodes: list[Any] = [y.grad_fn]
    while open_nodes:
        node = open_nodes[-1]
        before = [other for other, _ in node.next_functions if other is not None]
        waiting = [other for other in before if other not in longest]
        if waiting:
            open_nodes.extend(waiting)
            continue
        longest[node] = 1 + max((longest[other] for other in before), default=0)
        open_nodes.pop()
    return longest[y.grad_fn]


def kept_bytes(function: Callable[[], Any], but: Iterable[Tensor] = ()) -> int:
    """Bytes that a forward pass keeps for its backward pass: whole storages, each once, those of `but` not at all."""
    held: list[Tensor] = []  # alive until all are counted, so that no address is used twice

    def note(tensor: Tensor) -> Tensor:
        held.append(tensor)
        return tensor

    with torch.enable_grad(), saved_tensors_hooks(note, lambda tensor: tensor):
        result = function()
    given = {tensor.untyped_storage().data_ptr() for tensor in but}
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
    del result
    return sum(size for address, size in sizes.items() if address not in given)


class _Alive:
    """The storages that autograd keeps at this time, and the most bytes that they had."""

    def __init__(self) -> None:
        self.tensors: Counter[int] = Counter()  # by the address of their storage
        self.bytes = self.most = 0

    def add(self, address: int, size: int) -> None:
        self.bytes += 0 if self.tensors[address] else size
        self.tensors[address] += 1
        self.most = max(self.most, self.bytes)

    def remove(self, address: int, size: int) -> None:
        self.tensors[address] -= 1
        self.bytes -= 0 if self.tensors[address] else size


class _Kept:
    """A tensor that autograd keeps, counted until it lets go of it."""

    def __init__(self, tensor: Tensor, alive: _Alive) -> None:
        self.tensor, self.alive = tensor, alive
        self.place = tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()
        alive.add(*self.place)

    def __del__(self) -> None:
        self.alive.remove(*self.place)


def peak_kept_bytes(function: Callable[[], Any], but: Iterable[Tensor] = ()) -> int:
    """The most bytes that wait for a backward pass at any time while `function` runs, counted as in `kept_bytes`."""
    alive = _Alive()
    given = {tensor.untyped_storage().data_ptr() for tensor in but}

    def note(tensor: Tensor) -> Tensor | _Kept:
        return tensor if tensor.untyped_storage().data_ptr() in given else _Kept(tensor, alive)

    with torch.enable_grad(), saved_tensors_hooks(note, lambda kept: kept.tensor if type(kept) is _Kept else kept):
        function()
    return alive.most


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The slope of the least-squares line, and the share of y's variance that the line explains."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    line = np.polyfit(a, b, 1)
    rest, total = ((b - np.polyval(line, a)) ** 2).sum(), ((b - b.mean()) ** 2).sum()
    return float(line[0]), float(1 - rest / total) if total else 1.0


def exponent(lengths: Sequence[int], cost: Sequence[float]) -> float:
    """p of the best fit cost ~ length^p."""
    return slope(np.log(lengths).tolist(), np.log(cost).tolist())[0]


def seconds(function: Callable[[], Any], device: str, repeats: int = 7) -> float:
    """The time of the fastest of a few calls, since whatever else the machine does only adds to it."""

    def once() -> float:
        started = time.perf_counter()
        function()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.perf_counter() - started

    return min(once() for _ in range(repeats))


@torch.no_grad()
def forward_seconds(config: Config, batch: int, lengths: Sequence[int], device: str) -> list[float]:
    """Seconds of a layer's forward pass over random inputs of each length."""
    forward = outputs(config.build().to(device))
    inputs = [torch.randn(batch, n, config.dim, device=device) for n in lengths]
    return [seconds(partial(forward, x), device) for x in inputs]


def breaks(law: Callable[..., Any], *args: Any, **options: Any) -> bool:
    """Whether a check of a law fails."""
    try:
        law(*args, **options)
    except LawBroken:
        return True
    return False


def law_breakers(law: Callable[[Layer[Any], Example], Any], steps: int) -> tuple[int, list[str]]:
    """How many settings of the lineage's layers were put to a law, over so many steps, and those that broke it."""
    torch.manual_seed(0)
    broken, count = [], 0
    for name, kind in LINEAGE.items():
        for config in kind.variants():
            example = config.example(2, steps)
            layer = config.build().double().eval()
            count += 1
            if breaks(law, layer, example):
                broken.append(name)
    return count, broken
