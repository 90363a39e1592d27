"""What can be done with any state: one function each, whatever the layer.

A state is a NamedTuple of tensors, or of further states (a stack's state is a tuple of its layers').
Two conventions make the functions below possible:

- every tensor is batch first;
- what grows grows along axis 1, oldest first, and slots that hold nothing hold zeros at the end.

Fields that never change while decoding are listed in the NamedTuple's attribute `constant`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from .files import write_aside

S = TypeVar("S")


class StateError(ValueError):
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
        return state.index_select(0, rows)  # type: ignore[return-value]
    if not isinstance(state, tuple):
        return state
    unchanged = () if constant else getattr(state, "constant", ())
    names = getattr(state, "_fields", range(len(state)))
    parts = [
        part if name in unchanged else select(part, rows, constant=constant)
        for name, part in zip(names, state, strict=True)
    ]
    return rebuild(state, parts)


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
    """The tensor with `slots` slots along axis 1, the new ones empty."""
    missing = slots - tensor.shape[1]
    if missing == 0:
        return tensor
    return torch.cat([tensor, tensor.new_zeros(tensor.shape[0], missing, *tensor.shape[2:])], dim=1)


def nbytes(state: Any) -> int:
    """Bytes that the state keeps alive: whole storages, each once, not only the parts in view."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in leaves(state)}
    return sum(storages.values())


def save(state: Any, path: str | os.PathLike[str]) -> None:
    """Write a state to a safetensors file, whole or not at all."""
    from safetensors.torch import save as to_bytes

    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in named(state)}
    write_aside(path, to_bytes(tensors, metadata={"recollect": "state"}))


def load(path: str | os.PathLike[str], like: S) -> S:
    """Read a state back; `like` is any state of the same layer (`layer.initial_state(1)` will do).

    The number of rows and slots comes from the file, everything else must match `like`; the tensors come
    back on the device of `like`.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    path = Path(path)
    try:
        found = from_bytes(path.read_bytes())
    except (SafetensorError, ValueError, KeyError) as error:
        raise StateError(f"{path}: expected a saved state (safetensors), found something else: {error}") from error
    wanted = dict(named(like))
    if set(found) != set(wanted):
        raise StateError(
            f"{path}: expected the tensors {', '.join(sorted(wanted))}, found {', '.join(sorted(found)) or 'none'}; "
            "load a state with the layer that made it"
        )
    for name, tensor in wanted.items():
        got = found[name]
        if got.dtype != tensor.dtype or got.dim() != tensor.dim() or got.shape[2:] != tensor.shape[2:]:
            raise StateError(
                f"{path}: expected {name} like {tuple(tensor.shape)} {tensor.dtype} but for rows and slots, "
                f"found {tuple(got.shape)} {got.dtype}"
            )
    # cloned: tensors inside a file lie at odd addresses, where kernels may round otherwise
    values = iter(found[name].clone().to(tensor.device) for name, tensor in named(like))
    return map(lambda _: next(values), like)
