"""Where two computations that should agree part: the innermost submodule with equal inputs and unequal outputs.

Hooks record inputs and outputs of every submodule. Children end before their parents, so the first call to end that got
the same and gave something else is the innermost place; a difference made in a parent's own forward is the parent's.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..core.contract import Layer
from ..core.laws import judge
from . import foreign

Key = tuple[str, int, str, int]  # module, its how manieth call, "in" or "out", which tensor
Axes = dict[Key, tuple[int | None, int | None]]  # the axis of rows and that of steps
Align = Callable[[Tensor, Tensor, int | None, int | None], tuple[Tensor, Tensor] | None]


class Call(NamedTuple):
    """One call of a submodule."""

    name: str
    earlier: int  # how many calls of it came before
    inputs: list[Tensor]
    outputs: list[Tensor]
    arguments: tuple[Any, ...]


class Place(NamedTuple):
    """A submodule as it is told to the user."""

    name: str  # as in named_modules, "" for the whole
    module: nn.Module | None
    arguments: tuple[Any, ...] = ()  # of its call

    def __str__(self) -> str:
        if self.module is None:
            return "the function itself"
        described = " ".join(str(self.module).split())
        if len(described) > 100 or next(self.module.children(), None) is not None:
            described = type(self.module).__name__
        return f"{self.name} ({described})" if self.name else f"forward of {type(self.module).__name__} itself"


def root_of(layer: Layer[Any]) -> nn.Module | None:
    """The module that the user wrote; None for a function."""
    own = layer._modules.get("target", layer) if hasattr(layer, "target") else layer
    return own if isinstance(own, nn.Module) and (own is not layer or not hasattr(layer, "target")) else None


@contextlib.contextmanager
def recorded(root: nn.Module) -> Iterator[list[Call]]:
    """The calls of all submodules meanwhile, in the order in which they end."""
    calls: list[Call] = []
    counts: dict[str, int] = {}
    open_calls: list[tuple[list[Tensor], tuple[Any, ...]]] = []

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        open_calls.append((copies((args, kwargs)), tuple(args)))

    def after(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            inputs, arguments = open_calls.pop()
            counts[name] = counts.get(name, -1) + 1
            calls.append(Call(name, counts[name], inputs, copies(result), arguments))

        return hook

    handles = []
    for name, module in root.named_modules():
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after(name), with_kwargs=True))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def copies(value: Any) -> list[Tensor]:
    """The tensors within, copied: they may be written to later."""
    return [tensor.detach().clone() for _, tensor in foreign.flatten(value)]


def record(root: nn.Module, run: Callable[[], Any]) -> list[Call]:
    """The calls of all submodules during one run."""
    with torch.no_grad(), recorded(root) as calls:
        run()
    return calls


def find_axes(root: nn.Module, run: Callable[[int, int], Any], rows: int, steps: int) -> Axes:
    """Which axis of each recorded tensor counts rows and which steps: those that change when these do."""
    shapes = [
        _shapes(record(root, lambda b=b, t=t: run(b, t)))
        for b, t in ((rows, steps), (rows + 1, steps), (rows, steps + 1))
    ]
    base, wider, longer = shapes
    return {key: (_changed(shape, wider.get(key)), _changed(shape, longer.get(key))) for key, shape in base.items()}


def find_split(a: list[Call], b: list[Call], axes: Axes, align: Align, tolerance: float) -> Call | None:
    """The innermost call whose inputs agree in both runs and whose outputs do not."""
    others = {(call.name, call.earlier): call for call in b}

    def agree(call: Call, other: Call, kind: str) -> bool | None:
        mine, theirs = (call.inputs, other.inputs) if kind == "in" else (call.outputs, other.outputs)
        verdicts = []
        for index, (left, right) in enumerate(zip(mine, theirs, strict=False)):
            pair = align(left, right, *axes.get((call.name, call.earlier, kind, index), (None, None)))
            if pair is not None and pair[0].shape == pair[1].shape:
                verdicts.append(_close(*pair, tolerance))
        return all(verdicts) if verdicts else None

    for call in a:
        other = others.get((call.name, call.earlier))
        if other is not None and agree(call, other, "in") is not False and agree(call, other, "out") is False:
            return call
    return None


def find_writer(root: nn.Module, tensors: list[Tensor], run: Callable[[], Any]) -> str | None:
    """The innermost submodule during whose call one of the tensors was written to; None where none was."""
    open_versions: list[list[int]] = []
    writers: list[str] = []

    def before(module: nn.Module, args: Any) -> None:
        open_versions.append([tensor._version for tensor in tensors])

    def after(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, result: Any) -> None:
            if open_versions.pop() != [tensor._version for tensor in tensors]:
                writers.append(name)

        return hook

    handles = [module.register_forward_pre_hook(before) for module in root.modules()]
    handles += [module.register_forward_hook(after(name)) for name, module in root.named_modules()]
    try:
        with torch.no_grad():
            run()
    finally:
        for handle in handles:
            handle.remove()
    return next(iter(writers), None)


def find_part(root: nn.Module, broken: Callable[[Layer[Any]], float]) -> str | None:
    """The innermost layer within a layer that breaks a law on its own."""
    found = None
    for name, part in root.named_modules():  # parents before their children
        if isinstance(part, Layer) and name and isinstance(judge("part", part, lambda p=part: broken(p)), Exception):
            found = name
    return found


def _shapes(calls: list[Call]) -> dict[Key, torch.Size]:
    return {
        (call.name, call.earlier, kind, index): tensor.shape
        for call in calls
        for kind, tensors in (("in", call.inputs), ("out", call.outputs))
        for index, tensor in enumerate(tensors)
    }


def _changed(shape: torch.Size, other: torch.Size | None) -> int | None:
    if other is None or len(other) != len(shape):
        return None
    return next((axis for axis, (a, b) in enumerate(zip(shape, other, strict=True)) if a != b), None)


def _close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    a, b = a.double(), b.double()
    if not a.numel():
        return True
    scale = max(float(a.abs().max()), float(b.abs().max()))
    return bool(((a - b).abs() <= tolerance * scale).all()) or torch.equal(a, b)
