"""Two ways to make a training step cheaper: compiled, and captured as a CUDA graph; or the first and then the second.

Compiling merges a Transformer's many small operations. A graph, replayed, costs the GPU's time and no longer that of
its launches, which bind small models: an LSTM over 256 steps, TTT's mini-batches. A captured step reads its batch from
fixed places in memory, so there is one graph for each shape of batch; beyond LIMIT shapes a step runs as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core.task import Loss

LIMIT = 32
COUNTS = ("number", "tokens")  # fields of a batch that no operation depends on
WARM_UPS = 3  # runs before a capture: libraries choose their kernels and set up what cannot be captured


class Compiled:
    """`loss_of(model, batch, carry)`, compiled: once for each kind of carry, and anew only where shapes differ.

    A number that changes with each batch would be a constant to the compiler, so steps that are `alike` never see it.
    """

    def __init__(self, loss_of: Callable[[nn.Module, Any, Any], Loss], alike: bool) -> None:
        def run(model: nn.Module, batch: Any, carry: Any) -> tuple[Tensor, int, Any, Tensor | int | None]:
            loss = loss_of(model, batch, carry)
            return loss.value, loss.tokens, loss.carry, loss.terms

        self.run = torch.compile(run)
        self.alike = alike

    def __call__(self, model: nn.Module, batch: Any, carry: Any) -> Loss:
        value, tokens, carried, terms = self.run(model, without_counts(batch) if self.alike else batch, carry)
        return Loss(value, getattr(batch, "tokens", tokens), carried, terms)


class CapturedStep(NamedTuple):
    """A graph with the places that it reads from and writes to, and the parameters that its loss depends on."""

    graph: Any
    batch: Any
    carry: Any
    loss: Loss
    reached: list[nn.Parameter]


class Captured:
    """`step(batch, carry)` leaves gradients behind; so does a call of this, from a graph where it can.

    As in a plain step, a parameter that a loss does not depend on keeps the gradient that it had, be it None: zeros
    would let an optimiser decay it.
    """

    def __init__(self, step: Callable[[Any, Any], Loss], parameters: Sequence[nn.Parameter]) -> None:
        self.step = step
        self.places = {parameter: torch.zeros_like(parameter) for parameter in parameters}  # of gradients, for graphs
        self.captured: dict[Any, CapturedStep] = {}
        self.pool: Any = None  # of memory, shared by all graphs, since only one runs at a time

    def __call__(self, batch: Any, carry: Any) -> Loss:
        key = shape_of(batch), shape_of(carry)
        if key not in self.captured:
            if len(self.captured) >= LIMIT:
                return self.step(batch, carry)
            self.captured[key] = self.capture(batch, carry)
        captured = self.captured[key]
        fill(captured.batch, batch)
        fill(captured.carry, carry)
        self.take_places(captured.reached)
        captured.graph.replay()
        return replace(captured.loss, tokens=getattr(batch, "tokens", captured.loss.tokens))

    def take_places(self, parameters: Sequence[nn.Parameter]) -> None:
        """Let gradients lie where a graph adds to them, with what they are so far."""
        fresh = [self.places[parameter] for parameter in parameters if parameter.grad is None]
        if fresh:
            torch._foreach_zero_(fresh)  # pyright: ignore[reportPrivateImportUsage]
        for parameter in parameters:
            place = self.places[parameter]
            if parameter.grad is not None and parameter.grad is not place:
                place.copy_(parameter.grad)
            parameter.grad = place

    def capture(self, batch: Any, carry: Any) -> CapturedStep:
        before = [parameter.grad for parameter in self.places]
        for parameter in self.places:
            parameter.grad = None
        batch, carry = states.map(torch.clone, batch), states.map(torch.clone, carry)
        self.warm_up(batch, carry)
        reached = [parameter for parameter in self.places if parameter.grad is not None]
        for parameter in reached:
            parameter.grad = self.places[parameter]
        graph, loss = self.record(batch, carry)
        for parameter, gradient in zip(self.places, before, strict=True):
            parameter.grad = gradient
        carried = None if loss.carry is None else states.detach(loss.carry)
        return CapturedStep(graph, batch, carry, Loss(loss.value.detach(), loss.tokens, carried), reached)

    def warm_up(self, batch: Any, carry: Any) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                self.step(batch, carry)
        torch.cuda.current_stream().wait_stream(stream)

    def record(self, batch: Any, carry: Any) -> tuple[Any, Loss]:
        """The graph of a step; nothing is computed yet."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            loss = self.step(batch, carry)
        self.pool = graph.pool()
        return graph, loss


def shape_of(tree: Any) -> tuple:
    """What must be the same for a graph to serve: the shapes of tensors, and all else but a batch's counts."""
    if isinstance(tree, Tensor):
        return tree.dtype, *tree.shape
    if isinstance(tree, tuple):
        names = getattr(tree, "_fields", range(len(tree)))
        return tuple(shape_of(part) for name, part in zip(names, tree, strict=True) if name not in COUNTS)
    return (tree,)


def without_counts(batch: Any) -> Any:
    return batch._replace(**dict.fromkeys(set(COUNTS) & set(batch._fields), 0))


def fill(places: Any, values: Any) -> None:
    """Copy the tensors of one tree into those of another."""
    for place, value in zip(states.leaves(places), states.leaves(values), strict=True):
        place.copy_(value)
