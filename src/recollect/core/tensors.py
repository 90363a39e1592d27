"""Safetensors files: read where they are regular files that fit into memory; nothing in them is executed."""

import json
import os
from typing import Any

import torch
from torch import Tensor

from .files import FileError, open_regular
from .limits import check_fits

STATE = "state"  # the mark of a saved state, which has no note


def read_tensors(path: str | os.PathLike[str], what: str) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """The tensors of a safetensors file, and the note in JSON that recollect puts beside them (None: there is none).

    `what` names what the file should be, such as "a saved state". A file that is not there stays a FileNotFoundError.
    """
    from safetensors import SafetensorError, safe_open

    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
    check_fits(size, str(path), "use a machine with more memory")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get("recollect", STATE)
            note = None if text == STATE else json.loads(text)
            # Copies: the file's own memory is aligned by chance, and sums depend on alignment in their last bits.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except OSError as error:  # it does not name the file
        reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
        raise FileError(f"{path}: expected {what}, found a file that cannot be read ({reason})") from error
    # a TypeError comes from shapes beyond 2^63
    except (SafetensorError, ValueError, RecursionError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise FileError(f"{path}: expected {what}, found something else or a part of one ({reason})") from error
    if note is not None and not isinstance(note, dict):
        raise FileError(f"{path}: expected {what} with a note that is an object, found another")
    return tensors, note


HALVES = (torch.float16, torch.bfloat16)


def check_like(
    path: str | os.PathLike[str],
    what: str,
    found: dict[str, Tensor],
    wanted: dict[str, Tensor],
    *,
    halves: bool = False,
) -> None:
    """Refuse tensors that differ from those `wanted` in names, shapes or dtypes.

    With `halves` float16 and bfloat16 may stand for float32, which holds all of their numbers.
    """
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    if missing or extra:
        raise FileError(
            f"{path}: expected {what}; missing: {_some(missing)}; unknown: {_some(extra)} "
            f"({len(found):,} tensors where {len(wanted):,} are wanted)"
        )
    for name, own in wanted.items():
        got = found[name]
        same = got.dtype == own.dtype or (halves and own.dtype == torch.float32 and got.dtype in HALVES)
        if got.shape != own.shape or not same:
            raise FileError(f"{path}: expected {what}, {name} as {describe(own)}, found {describe(got)}")


def describe(tensor: Tensor) -> str:
    """float32 of (3, 4)."""
    return f"{name_of(tensor.dtype)} of {tuple(tensor.shape)}"


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _some(names: list[str]) -> str:
    """The first of some names, each cut where it is long."""
    shown = [name if len(name) <= 60 else f"{name[:57]}..." for name in names[:3]]
    return ", ".join(shown) + (" …" if len(names) > 3 else "") or "none"
