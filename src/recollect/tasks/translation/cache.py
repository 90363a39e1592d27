"""The cache of pairs: arrays of tokens and texts, memory-mapped, a record of all else; new when a source changes."""

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.files import sync_folder
from ...data import shards
from ...data.fingerprints import sha256_of
from ...data.sentences import Side, sides_from_json, sides_to_json
from .pairs import Pairs
from .plan import SPLITS

RECORD = "parallel.json"
_TOKENS, _BYTE, _PLACE = np.dtype("<i4"), np.dtype("u1"), np.dtype("<i8")
_ARRAYS = {
    "source": _TOKENS,
    "source_offsets": _PLACE,
    "target": _TOKENS,
    "target_offsets": _PLACE,
    "source_text": _BYTE,
    "source_text_offsets": _PLACE,
    "target_text": _BYTE,
    "target_text_offsets": _PLACE,
}


@dataclass(frozen=True)
class Kept:
    sides: tuple[Side, Side]
    splits: dict[str, Pairs]
    fingerprint: str
    notes: list[str]


class ArrayFile:
    """An array written piece by piece, and hashed meanwhile."""

    def __init__(self, place: Path, name: str, dtype: np.dtype[Any]) -> None:
        self.path, self.name, self.dtype = place / name, name, dtype
        self.count = 0
        self._last = 0
        self._digest = hashlib.sha256()

    def __enter__(self) -> "ArrayFile":
        self._file = self.path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def append(self, values: np.ndarray) -> None:
        data = np.ascontiguousarray(values, self.dtype).tobytes()
        self._digest.update(data)
        self._file.write(data)
        self.count += len(values)

    def append_ends(self, lengths: np.ndarray) -> None:
        """Where rows of these lengths end that follow those before."""
        if len(lengths):
            ends = self._last + np.cumsum(lengths)
            self._last = int(ends[-1])
            self.append(ends)

    def record(self) -> dict[str, Any]:
        sha256 = self._digest.hexdigest()
        return {
            "file": f"{self.name}-{sha256[:16]}.bin",
            "count": self.count,
            "sha256": sha256,
            "edges": shards.edges(self.path),
        }


def _file_name(split: str, name: str) -> str:
    return f"{split}-{name.replace('_', '-')}"


@contextlib.contextmanager
def arrays_of(place: Path, split: str) -> Iterator[dict[str, ArrayFile]]:
    """The arrays of a split by their names, to append to; written when this ends."""
    with contextlib.ExitStack() as stack:
        arrays = {
            name: stack.enter_context(ArrayFile(place, _file_name(split, name), dtype))
            for name, dtype in _ARRAYS.items()
        }
        for name in arrays:
            if name.endswith("_offsets"):
                arrays[name].append(np.zeros(1))
        yield arrays


def settle(folder: Path, place: Path, splits: dict[str, dict[str, Any]]) -> None:
    """Rename what was written into place; only the record that is written last makes it count."""
    for split, arrays in splits.items():
        for name, array in arrays.items():
            os.replace(place / _file_name(split, name), folder / array["file"])
    sync_folder(folder)


def keep(
    folder: Path,
    settings: dict[str, Any],
    origin: dict[str, Any],
    sides: tuple[Side, Side],
    splits: dict[str, dict[str, Any]],
    notes: list[str],
) -> None:
    """Write the record of arrays that have settled, and remove those of sources that have changed since."""
    shards.write_record(
        folder / RECORD,
        {
            "format": shards.FORMAT,
            "settings": settings,
            "sources": origin,
            "sides": sides_to_json(*sides),
            "splits": {split: splits[split] for split in SPLITS if split in splits},
            "notes": notes,
            "fingerprint": _fingerprint(sides_to_json(*sides), splits),
        },
    )
    _forget(folder, splits)


def recall(folder: Path, sources: shards.Sources, settings: dict[str, Any]) -> Kept | None:
    """The pairs kept in the cache, if they are whole and the sources are what they were."""
    found = shards.recalled(folder / RECORD, sources, settings)
    if found is None:
        return None
    record, hashed = found
    try:
        kept = Kept(
            sides_from_json(record["sides"]),
            {split: _open(folder, arrays) for split, arrays in record["splits"].items()},
            str(record["fingerprint"]),
            [str(note) for note in record["notes"]],
        )
        right = _fingerprint(record["sides"], record["splits"])
    except (OSError, KeyError, TypeError, AttributeError, ValueError):
        return None
    if kept.fingerprint != right or not {"train", "valid"} <= kept.splits.keys() <= set(SPLITS):
        return None
    if hashed:
        shards.write_record(folder / RECORD, record | {"sources": sources.record()})
    return kept


def _open(folder: Path, arrays: Mapping[str, Mapping[str, Any]]) -> Pairs:
    """The arrays of a split, mapped; ValueError if they are not what the record says, or do not fit together."""
    found: dict[str, np.ndarray] = {}
    for name, dtype in _ARRAYS.items():
        path, count = folder / arrays[name]["file"], arrays[name]["count"]
        if path.parent != folder or path.stat().st_size != count * dtype.itemsize:
            raise ValueError(name)
        if shards.edges(path) != arrays[name]["edges"]:
            raise ValueError(name)
        found[name] = np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))  # still mapped, faster to slice
    rows = {len(found[name]) for name in found if name.endswith("_offsets")}
    fit = all(found[f"{name}_offsets"][-1] == len(found[name]) for name in found if not name.endswith("_offsets"))
    if len(rows) != 1 or not fit:
        raise ValueError("offsets")
    return Pairs(**found)


def _fingerprint(sides: Any, splits: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    texts = {split: [arrays[name]["sha256"] for name in _ARRAYS if "_text" in name] for split, arrays in splits.items()}
    return sha256_of({"texts": texts, "sides": sides})


def _forget(folder: Path, splits: dict[str, dict[str, Any]]) -> None:
    """Remove the arrays of sources that have changed since."""
    current = {array["file"] for arrays in splits.values() for array in arrays.values()}
    for path in folder.glob("*.bin"):
        if path.name not in current:
            shards.remove(path)


def sweep(folder: Path) -> None:
    """Remove what crashes left."""
    for scratch in folder.glob(".scratch.*"):
        with contextlib.suppress(OSError):
            if time.time() - scratch.stat().st_mtime > shards.STALE:
                shutil.rmtree(scratch, ignore_errors=True)
