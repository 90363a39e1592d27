"""What can be done with any state: one function each, whatever the layer.

A state is a NamedTuple of tensors, or of further states (a stack's state is a tuple of its layers').
Two conventions make the functions below possible:

- every tensor is batch first;
- what grows grows along axis 1, oldest first, and slots that hold nothing hold zeros at the end.

A field called `clock` (B, int64) counts the steps that each row has seen. Fields that never change while
decoding are listed in the NamedTuple's attribute `constant`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from .errors import RecollectError
from .files import FileError, write_aside
from .tensors import STATE, read_tensors

S = TypeVar("S")


class StateError(RecollectError):
    """A state that cannot be joined, saved or loaded as asked."""


def map(function: Callable[..., Any], state: S, *others: Any) -> S:
    """Apply `function` to each tensor of `state` (and the matching ones of `others`)."""
    if isinstance(state, Tensor):
        return function(state, *others)
    if not isinstance(state, tuple):
        return state
    parts = [map(function, part, *(other[i] for other in others)) for i, part in enumerate(state)]
    return rebuild(state, parts)


def rebuild(state: Any, parts: Sequence[Any]) -> Any:
    """A state of the same type as `state` with other parts."""
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def named(state: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Each tensor of a state with its path: `h`, `0.keys`, …"""
    if isinstance(state, Tensor):
        yield prefix, state
    elif isinstance(state, tuple):
        names = getattr(state, "_fields", [str(i) for i in range(len(state))])
        for name, part in zip(names, state, strict=True):
            yield from named(part, f"{prefix}.{name}" if prefix else name)


def leaves(state: Any) -> list[Tensor]:
    """The tensors of a state, in a fixed order."""
    found: list[Tensor] = []
    _collect(state, found)
    return found


def _collect(state: Any, found: list[Tensor]) -> None:
    if isinstance(state, Tensor):
        found.append(state)
    elif isinstance(state, tuple):
        for part in state:
            _collect(part, found)


def batch(state: Any) -> int | None:
    """How many rows a state has; None for a state without tensors."""
    return next((len(tensor) for tensor in leaves(state)), None)


def detach(state: S) -> S:
    """The same state, cut off from the computation that led to it."""
    return map(Tensor.detach, state)


def move(state: S, *, device: Any = None, dtype: torch.dtype | None = None) -> S:
    """The state on another device, and its floating tensors in another dtype."""

    def to(tensor: Tensor) -> Tensor:
        return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)

    return map(to, state)


def select(state: S, rows: Tensor, *, constant: bool = True) -> S:
    """The state of `rows` (B' indices; repeats and any order allowed).

    With `constant=False` the fields that never change while decoding are left as they are: right where
    rows only trade places with rows of the same source, as in beam search.
    """
    if isinstance(state, Tensor):
        return _select_rows(state, rows)  # type: ignore[return-value]
    if not isinstance(state, tuple):
        return state
    unchanged = () if constant else getattr(state, "constant", ())
    names = getattr(state, "_fields", range(len(state)))
    parts = [
        part if name in unchanged else select(part, rows, constant=constant)
        for name, part in zip(names, state, strict=True)
    ]
    return rebuild(state, parts)


def _select_rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """Rows of a tensor, which keeps the order of its axes in memory: a cache lies as attention reads it fastest."""
    order = _memory_order(tensor)
    if order is None:
        return tensor.index_select(0, rows)
    return tensor.permute(order).index_select(0, rows).permute([order.index(axis) for axis in range(tensor.dim())])


def _memory_order(tensor: Tensor) -> list[int] | None:
    """The axes as they lie in memory, rows first; None where they lie in their own order, or with gaps."""
    if tensor.is_contiguous():
        return None
    order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
    return order if order[0] == 0 and tensor.permute(order).is_contiguous() else None


def join(states: Sequence[S]) -> S:
    """The rows of several states in one batch. Rows that have seen less get empty slots at the end."""
    if not states:
        raise StateError("join: expected at least one state, found none")
    first = states[0]
    if isinstance(first, Tensor):
        return _join_tensors(states)  # type: ignore[arg-type,return-value]
    if not isinstance(first, tuple):
        return first
    if any(type(other) is not type(first) or len(other) != len(first) for other in states):  # type: ignore[arg-type]
        raise StateError("join: expected states of one layer, found states of different layers")
    return rebuild(first, [join(parts) for parts in zip(*states, strict=True)])  # type: ignore[call-overload]


def _join_tensors(tensors: Sequence[Tensor]) -> Tensor:
    shapes = [tensor.shape for tensor in tensors]
    if any(len(shape) != len(shapes[0]) or shape[2:] != shapes[0][2:] for shape in shapes):
        raise StateError(f"join: expected rows of one width, found shapes {[tuple(s) for s in shapes]}")
    return torch.cat([fit(tensor, max(s[1] for s in shapes)) if tensor.dim() > 1 else tensor for tensor in tensors])


def fit(tensor: Tensor, slots: int) -> Tensor:
    """The tensor with `slots` slots along axis 1, the new ones empty; its axes lie in memory as they did."""
    missing = slots - tensor.shape[1]
    if missing == 0:
        return tensor
    order = _memory_order(tensor)
    if order is None:
        return torch.cat([tensor, tensor.new_zeros(tensor.shape[0], missing, *tensor.shape[2:])], dim=1)
    along, laid = order.index(1), tensor.permute(order)
    empty = [missing if axis == along else size for axis, size in enumerate(laid.shape)]
    wide = torch.cat([laid, laid.new_zeros(empty)], dim=along)
    return wide.permute([order.index(axis) for axis in range(tensor.dim())])


def nbytes(state: Any) -> int:
    """Bytes that the state keeps alive: whole storages, each once, not only the parts in view."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in leaves(state)}
    return sum(storages.values())


def save(state: Any, path: str | os.PathLike[str]) -> None:
    """Write a state to a safetensors file, whole or not at all."""
    from safetensors.torch import save as to_bytes

    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in named(state)}
    write_aside(path, to_bytes(tensors, metadata={"recollect": STATE}))


def load(path: str | os.PathLike[str], like: S) -> S:
    """Read a state back; `like` is any state of the same layer (`layer.initial_state(1)` will do).

    The number of rows and slots comes from the file, everything else must match `like`; the tensors come
    back on the device of `like`.
    """
    found = read(path)
    _check_leaves(found, like, str(path))
    return _rebuild_from(found, like)


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a saved state by their names."""
    try:
        return read_tensors(path, "a saved state (safetensors)")[0]
    except FileError as error:
        raise StateError(str(error)) from error


def restore(found: dict[str, Tensor], layer: Any, where: str, steps: Sequence[int] | None = None) -> Any:
    """A layer's state out of tensors by name, checked against what the layer itself declares; else a StateError.

    `layer` is anything with `initial_state`: rows, slots and clocks must be such as it has after some steps; `steps`
    is how many each row has seen, where that is known. `where` names the place of the state in messages.
    """
    with torch.no_grad():
        like = layer.initial_state(1)
        _check_leaves(found, like, where)
        rows = {name: len(tensor) for name, tensor in found.items()}
        wrong = set(rows.values()) - ({len(steps)} if steps is not None else {max(rows.values(), default=0)} - {0})
        if wrong:
            counts = ", ".join(f"{count} in {name}" for name, count in _extremes(rows))
            wanted = "one number of rows, at least 1" if steps is None else f"{len(steps)} rows"
            raise StateError(f"{where}: expected a state of {wanted}, found {counts}")
        slots = _check_slots(found, layer, like, where)
    _check_clocks(found, layer, like, slots, where, steps)
    state = _rebuild_from(found, like)
    problem = getattr(layer, "diagnose_state", lambda state: None)(state)
    if problem:
        raise StateError(f"{where}: {problem}")
    return state


def _check_leaves(found: dict[str, Tensor], like: Any, where: str) -> None:
    """Refuse tensors that differ from a state of the layer in more than rows and slots."""
    wanted = dict(named(like))
    if set(found) != set(wanted):
        raise StateError(
            f"{where}: expected the tensors {_list(sorted(wanted))}, found {_list(sorted(found)) or 'none'}; "
            "load a state with the layer that made it"
        )
    for name, tensor in wanted.items():
        got = found[name]
        if got.dtype != tensor.dtype or got.dim() != tensor.dim() or got.shape[2:] != tensor.shape[2:]:
            raise StateError(
                f"{where}: expected {name} like {tuple(tensor.shape)} {tensor.dtype} but for rows and slots, "
                f"found {tuple(got.shape)} {got.dtype}"
            )


def _check_slots(found: dict[str, Tensor], layer: Any, like: Any, where: str) -> int | None:
    """Refuse slots other than the layer makes; returns the capacity that they amount to, None where nothing grows."""
    one = dict(named(layer.initial_state(1, capacity=1)))
    empty = {name for name, tensor in named(like) if tensor.dim() > 1 and not tensor.shape[1]}
    growing = [name for name in empty if one[name].shape[1]]  # the others say nothing of how they grow
    capacity = max((found[name].shape[1] for name in growing), default=None)
    full = dict(named(layer.initial_state(1, capacity=capacity))) if capacity is not None else dict(named(like))
    for name, tensor in full.items():
        got, free = found[name], name in empty and name not in growing
        if tensor.dim() > 1 and not free and got.shape[1] != tensor.shape[1]:
            raise StateError(
                f"{where}: expected {tensor.shape[1]} slots in {name} as its layer and its neighbours have, "
                f"found {got.shape[1]}"
            )
    return capacity


def _check_clocks(
    found: dict[str, Tensor], layer: Any, like: Any, slots: int | None, where: str, steps: Sequence[int] | None
) -> None:
    """Refuse clocks that disagree with each other, with the steps that were seen or with the slots that there are."""
    clocks = {name: found[name].tolist() for name, _ in named(like) if name.split(".")[-1] == "clock"}
    expected = next(iter(clocks.values()), None) if steps is None else list(steps)
    for name, clock in clocks.items():
        if clock != expected or min(clock) < 0:
            raise StateError(f"{where}: expected {name} to count the steps of each row, found {_list(clock)}")
    if slots is None or not clocks or expected is None or max(expected) <= slots:
        return
    more = dict(named(layer.initial_state(1, capacity=slots + 1)))
    if any(more[name].shape != tensor.shape for name, tensor in named(layer.initial_state(1, capacity=slots))):
        raise StateError(f"{where}: expected slots for the {max(expected):,} steps that it has seen, found {slots:,}")


def _extremes(rows: dict[str, int]) -> list[tuple[str, int]]:
    """The tensors with the fewest and the most rows."""
    ranked = sorted(rows.items(), key=lambda item: item[1])
    return [(name, count) for name, count in dict([ranked[0], ranked[-1]]).items()]


def _list(values: Any, most: int = 8) -> str:
    """The first values, separated by commas."""
    shown = [str(value)[:40] for value in list(values)[:most]]
    return ", ".join(shown) + (", …" if len(values) > most else "")


def _rebuild_from(found: dict[str, Tensor], like: S) -> S:
    values = iter(found[name].to(tensor.device) for name, tensor in named(like))
    return map(lambda _: next(values), like)
