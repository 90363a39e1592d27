"""States of modules that were not written for the contract: any nesting of tensors, as a state of the contract.

Tensors are found in tuples, lists, dicts and plain objects (a Hugging Face cache is one). In the contract's form they
are batch first and grow along axis 1; the containers around them are kept beside, and made anew for each call.
"""

import copy
import enum
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

DEEPEST = 8  # containers within containers that are searched for tensors
Axes = tuple[int, ...] | None  # the order that puts rows first; None where a tensor has no axis of rows


@dataclass(frozen=True)
class Form:
    """What is around the tensors of a state: containers, plain values, the order of axes."""

    value: Any  # as the module left it
    paths: tuple[str, ...]  # such as `[0].keys`, one a tensor
    axes: tuple[Axes, ...]


class Held(NamedTuple):
    """A foreign state in the contract's form."""

    tensors: tuple[Tensor, ...]  # B …
    form: Form


def flatten(value: Any) -> list[tuple[str, Tensor]]:
    """The tensors in a nesting of containers, each with its path."""
    return list(_walk(value, "", 0))


def rebuild(value: Any, tensors: Iterator[Tensor], depth: int = 0) -> Any:
    """The same nesting made anew, with other tensors in the order of `flatten`."""
    if isinstance(value, Tensor):
        return next(tensors)
    if (found := _children(value, depth)) is None:
        return value
    parts = [rebuild(part, tensors, depth + 1) for _, part in found]
    if isinstance(value, tuple):
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return parts
    names = list(value) if isinstance(value, dict) else list(vars(value))
    if isinstance(value, dict):
        fresh = copy.copy(value)
        fresh.update(zip(names, parts, strict=True))
        return fresh
    fresh = copy.copy(value)
    fresh.__dict__.update(zip(names, parts, strict=True))
    return fresh


def hold(value: Any, axes: dict[str, Axes], rows: int) -> Held:
    """The contract's form of a state as a module left it; `axes` are those found by `find_axes`."""
    found = flatten(value)
    orders = tuple(axes.get(path, _guess(tensor, rows)) for path, tensor in found)
    tensors = tuple(
        tensor.expand(rows, *tensor.shape) if order is None else tensor.permute(order)
        for (_, tensor), order in zip(found, orders, strict=True)
    )
    return Held(tensors, Form(value, tuple(path for path, _ in found), orders))


def release(held: Held) -> Any:
    """The state as the module wants it: containers and tensors of its own, so that it cannot reach those kept."""
    tensors = [
        tensor[0].clone()
        if order is None
        else tensor.permute(_inverse(order)).clone(memory_format=torch.contiguous_format)
        for tensor, order in zip(held.tensors, held.form.axes, strict=True)
    ]
    return rebuild(held.form.value, iter(tensors))


def find_axes(state_after: Callable[[int, int], Any]) -> dict[str, Axes]:
    """The axes of each tensor in order (rows, growth, the rest), from states after calls of so many rows and steps."""
    base, wider, longer = (dict(flatten(state_after(*shape))) for shape in ((2, 3), (3, 3), (2, 4)))
    axes: dict[str, Axes] = {}
    for path, tensor in base.items():
        if path not in wider or path not in longer:
            continue
        order = [_changed(tensor, wider[path]), _changed(tensor, longer[path])]
        first = [axis for axis in order if axis is not None]
        if order[0] is None:
            axes[path] = None
        else:
            axes[path] = (*first, *(axis for axis in range(tensor.dim()) if axis not in first))
    return axes


def _changed(tensor: Tensor, other: Tensor) -> int | None:
    """The first axis of other length in `other`."""
    pairs = enumerate(zip(tensor.shape, other.shape, strict=False))
    return next((axis for axis, (a, b) in pairs if a != b), None)


def _guess(tensor: Tensor, rows: int) -> Axes:
    axis = next((axis for axis, length in enumerate(tensor.shape) if length == rows), None)
    return None if axis is None else (axis, *(other for other in range(tensor.dim()) if other != axis))


def _inverse(order: tuple[int, ...]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path or "state", value
    for name, part in _children(value, depth) or ():
        yield from _walk(part, path + name, depth + 1)


def _children(value: Any, depth: int) -> list[tuple[str, Any]] | None:
    """The parts of a container with their names; None for what is none, or holds no tensor."""
    if depth > DEEPEST or isinstance(value, Tensor):
        return None
    if isinstance(value, dict):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, tuple) and (fields := getattr(value, "_fields", None)):
        return [(f".{name}", part) for name, part in zip(fields, value, strict=True)]
    if isinstance(value, list | tuple):
        return [(f"[{i}]", part) for i, part in enumerate(value)]
    apart = (nn.Module, type, types.ModuleType, types.FunctionType, types.MethodType, enum.Enum)
    if isinstance(value, apart) or not hasattr(value, "__dict__"):
        return None
    parts = [(f".{name}", part) for name, part in vars(value).items()]
    return parts if any(True for name, part in parts for _ in _walk(part, name, depth + 1)) else None
