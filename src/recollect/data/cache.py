"""The cache of encoded data: arrays in files, memory-mapped, and a JSON record of all else.

An entry is a record `NAME.json` and array files `NAME-ARRAY-HASH.bin` in one folder. The record holds the settings and
the source files that the entry was made from, and type, shape and hash of each array. An entry that does not match its
settings, its sources as they are now or the hashes in its record is not loaded, so that it is made again. It is
written to a temporary folder; arrays are renamed into place first and the record last, so that at any moment the old
entry or the new one is whole. Of two processes that need the same entry one makes it, and the other waits.

Of an array the first and last megabyte are hashed when it is opened. What was altered between them is not noticed by
its hash; whoever uses numbers as indices checks that they are (`decode` of `Entry.load_or_make`).
"""

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypedDict, TypeVar

import numpy as np

from ..core import typed
from ..core.files import FileError, locked, open_regular, read_json, sync_folder, write_aside
from .byte_files import StrPath, path_of
from .errors import DataError

T = TypeVar("T")

FORMAT = 2
EDGE = 1 << 20  # bytes at either end of an array file that are hashed when it is opened
RACY = 2_000_000_000  # ns: a file this young when it was read may have changed since within one tick of its clock
STALE = 86_400  # s: temporary files this old were left by a crash, where no lock tells
MOST_RECORD = 1 << 30  # bytes of a record


class ArrayRecord(TypedDict):
    """An array as its entry's record describes it."""

    dtype: str
    shape: list[int]
    sha256: str
    edges: str


class Record(TypedDict):
    """What the JSON file of an entry holds."""

    format: int
    settings: Any
    sources: Any
    arrays: dict[str, ArrayRecord]
    content: dict[str, Any]
    sha256: str


def cache_folder(cache: StrPath | None = None) -> Path:
    """The folder of downloads and of encoded data: `cache`, else RECOLLECT_CACHE, else ~/.cache/recollect."""
    return path_of(cache or os.environ.get("RECOLLECT_CACHE") or "~/.cache/recollect")


def name_folder(name: str, settings: Any) -> str:
    """A readable folder name that ends in a hash of the settings."""
    slug = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:40]
    return f"{slug}-{hash_json(settings)[:16]}"


def hash_json(value: Any) -> str:
    """sha256 of a value as JSON, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class Sources:
    """The files that an entry is made of: size and time stamp at this moment, sha256 computed once where needed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = [path.absolute() for path in paths]
        self.stamped = time.time_ns()
        self._stamps = self._stat()
        self._hashes: dict[Path, str] = {}

    def subset(self, paths: Sequence[Path]) -> "Sources":
        """Some of these files, with the same stamps and hashes."""
        part = copy(self)
        stamps = dict(zip(self.paths, self._stamps, strict=True))
        part.paths = [path.absolute() for path in paths]
        part._stamps = [stamps[path] for path in part.paths]
        return part

    def _stat(self) -> list[tuple[int, int]]:
        try:
            found = [path.stat() for path in self.paths]
        except OSError as error:
            raise DataError(f"expected a readable file, found {error.strerror}: {error.filename}") from None
        return [(stat.st_size, stat.st_mtime_ns) for stat in found]

    def _hash(self, path: Path) -> str:
        if path not in self._hashes:
            try:
                with open_regular(path) as file:
                    self._hashes[path] = _hash(file)
            except FileError as error:
                raise DataError(str(error)) from None
            except OSError as error:
                raise DataError(f"cannot read {path}: {error.strerror or error}") from None
        return self._hashes[path]

    def record(self) -> dict[str, Any]:
        """Path, size, time stamp and hash of each file, as JSON: what `match` compares with."""
        files = [
            {"path": str(path), "size": size, "mtime_ns": mtime, "sha256": self._hash(path)}
            for path, (size, mtime) in zip(self.paths, self._stamps, strict=True)
        ]
        return {"stamped_ns": self.stamped, "files": files}

    def match(self, record: Any) -> tuple[bool, bool]:
        """Whether the files are those of `record`, and whether hashes were needed to decide."""
        hashed = False
        try:
            if [file["path"] for file in record["files"]] != [str(path) for path in self.paths]:
                return False, False
            for path, (size, mtime), file in zip(self.paths, self._stamps, record["files"], strict=True):
                if file["size"] != size:
                    return False, hashed
                if file["mtime_ns"] != mtime or mtime > record["stamped_ns"] - RACY:
                    hashed = True
                    if self._hash(path) != file["sha256"]:
                        return False, hashed
        except (KeyError, TypeError, ValueError):
            return False, False
        return True, hashed

    def refuse_changes(self) -> None:
        """Refuse to go on if a file changed while it was read."""
        for path, before, after in zip(self.paths, self._stamps, self._stat(), strict=True):
            if before != after:
                raise DataError(
                    f"expected files that stay as they are, found that {path} changed meanwhile; run it again"
                )


class ArrayWriter:
    """An array written to a file piece by piece along its first axis, and hashed meanwhile."""

    def __init__(self, path: Path, dtype: np.dtype[Any], row: tuple[int, ...]) -> None:
        self.path, self.dtype, self.row, self.count = path, dtype, row, 0
        self._digest = hashlib.sha256()
        self._file = path.open("wb")

    def append(self, values: np.ndarray) -> None:
        data = np.ascontiguousarray(values, self.dtype).tobytes()
        self._digest.update(data)
        self._file.write(data)
        self.count += len(values)

    def sync(self) -> ArrayRecord:
        """Force the file to disk; type, shape and hashes of the array, as JSON."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return {
            "dtype": self.dtype.str,
            "shape": [self.count, *self.row],
            "sha256": self._digest.hexdigest(),
            "edges": self._edges(),
        }

    def _edges(self) -> str:
        with self.path.open("rb") as file:
            return hash_edges(file)

    def close(self) -> None:
        self._file.close()


@dataclass
class EntryWriter:
    """An entry in the making: arrays in a temporary `folder`, and `content`, the rest as JSON."""

    folder: Path
    content: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, ArrayWriter] = field(default_factory=dict)

    def __enter__(self) -> "EntryWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for array in self.arrays.values():
            array.close()

    def add_array(self, name: str, dtype: np.dtype[Any], row: tuple[int, ...] = ()) -> ArrayWriter:
        """A new array; `row` is the shape of one element along its first axis."""
        self.arrays[name] = ArrayWriter(self.folder / f"{name}.array", dtype, row)
        return self.arrays[name]

    def remove_arrays(self, prefix: str) -> None:
        """Take back the arrays with such names."""
        for name in [name for name in self.arrays if name.startswith(prefix)]:
            self.arrays.pop(name).close()


@dataclass(frozen=True)
class Loaded:
    """A loaded entry: arrays, mapped read-only, with the sha256 of each, and the rest."""

    arrays: dict[str, np.memmap[Any, np.dtype[Any]]]
    hashes: dict[str, str]
    content: dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One entry of the cache; `noun` names its files in messages."""

    folder: Path
    name: str
    sources: Sources
    settings: Any
    noun: str = "token files"

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.json"

    def load_or_make(self, decode: Callable[[Loaded], T], make: Callable[[EntryWriter], None]) -> T:
        """What `decode` makes of the entry, which `make` writes where the cache does not have it.

        `decode` refuses content that it cannot use with a ValueError. A process that makes the entry is waited for.
        """
        found = self._decoded(decode)
        if found is not None:
            return found
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None
        with locked(self.folder, wait=True) as alone:
            found = self._decoded(decode)  # another process may have made it meanwhile
            if found is None:
                with self.write(alone) as writer:
                    make(writer)
                found = decode(self.load_written())
        return found

    def _decoded(self, decode: Callable[[Loaded], T]) -> T | None:
        found = self.load()
        try:
            return None if found is None else decode(found)
        except (KeyError, ValueError):  # altered, or of another version
            return None

    def load(self) -> Loaded | None:
        """The entry, if it is whole and was made from these sources with these settings."""
        try:
            record = typed.read(read_json(self.path, MOST_RECORD), Record)
            arrays, content = record["arrays"], record["content"]
            wanted = [FORMAT, self.settings, hash_json([arrays, content])]
            if [record["format"], record["settings"], record["sha256"]] != wanted:
                return None
            mapped = {name: self._map(name, about) for name, about in arrays.items()}
        except (OSError, ValueError):
            return None
        same, hashed = self.sources.match(record["sources"])
        if not same:
            return None
        if hashed:
            self._renew_stamps(record)
        return Loaded(mapped, {name: about["sha256"] for name, about in arrays.items()}, content)

    def _renew_stamps(self, record: dict[str, Any]) -> None:
        """Write the record with new stamps of its sources, so that they need no hash the next time.

        Left to the next time where another process holds the folder. A folder that cannot be written can be read all
        the same.
        """
        with contextlib.suppress(DataError, FileError), locked(self.folder, wait=False) as alone:
            self._remove_leftovers(0 if alone else STALE)  # a process killed here left an entry that is whole
            self._write_record(record | {"sources": self.sources.record()})

    def _array_path(self, name: str, about: ArrayRecord) -> Path:
        return self.folder / f"{self.name}-{name}-{about['sha256'][:16]}.bin"

    def _map(self, name: str, about: ArrayRecord) -> np.memmap[Any, np.dtype[Any]]:
        """An array of whole numbers, read-only; a ValueError where the record does not fit its file."""
        fits = re.fullmatch(r"[|<][iu][1248]", about["dtype"]) and min(about["shape"], default=-1) >= 0
        if not fits or not re.fullmatch(r"[\w-]+", name) or not re.fullmatch(r"[0-9a-f]{64}", about["sha256"]):
            raise ValueError(name)
        dtype, shape = np.dtype(about["dtype"]), tuple(about["shape"])
        with open_regular(self._array_path(name, about)) as file:
            size = os.fstat(file.fileno()).st_size
            if size != math.prod(shape) * dtype.itemsize or hash_edges(file) != about["edges"]:
                raise ValueError(name)
            return np.memmap(file, dtype, mode="r", shape=shape)

    @contextlib.contextmanager
    def write(self, alone: bool = False) -> Iterator[EntryWriter]:
        """Make the entry anew: it is in place when the block ends, and the old one untouched if the block fails.

        `alone`: the folder's lock is held, so that no other process writes there.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers(0 if alone else STALE)
            with tempfile.TemporaryDirectory(prefix=f".{self.name}.", suffix=".part", dir=self.folder) as place:
                with EntryWriter(Path(place)) as writer:
                    yield writer
                    arrays = {name: array.sync() for name, array in writer.arrays.items()}
                origin = self.sources.record()
                self.sources.refuse_changes()  # after the hashes, so that they are those of what was read
                current = {self._array_path(name, about) for name, about in arrays.items()}
                for name, array in writer.arrays.items():
                    os.replace(array.path, self._array_path(name, arrays[name]))
            sync_folder(self.folder)
        except OSError as error:
            raise self._unwritable(error) from None
        self._write_record(
            {
                "format": FORMAT,
                "settings": self.settings,
                "sources": origin,
                "arrays": arrays,
                "content": writer.content,
                "sha256": hash_json([arrays, writer.content]),
            }
        )
        for old in {*self.folder.glob(f"{self.name}-*.bin")} - current:
            with contextlib.suppress(OSError):  # another process has it mapped (Windows), or removed it
                old.unlink(missing_ok=True)

    def load_written(self) -> Loaded:
        """The entry that was just written."""
        found = self.load()
        if found is None:
            raise DataError(f"expected the {self.noun} just written in {self.folder}, found others; run one at a time")
        return found

    def _write_record(self, record: dict[str, Any]) -> None:
        try:
            write_aside(self.path, json.dumps(record).encode())
        except OSError as error:
            raise self._unwritable(error) from None

    def _remove_leftovers(self, age: float) -> None:
        """Remove temporary files that crashes left and that are so many seconds old."""
        for part in self.folder.glob(f".{self.name}.*.part"):
            with contextlib.suppress(OSError):
                newest = max(path.stat().st_mtime for path in (part, *part.rglob("*")))
                if not age or time.time() - newest > age:
                    shutil.rmtree(part) if part.is_dir() else part.unlink()

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(
            f"expected to write {self.noun} to {self.folder}, found: {error.strerror or error}; make room there, "
            "or name another place with RECOLLECT_CACHE"
        )


def _hash(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(EDGE):
        digest.update(block)
    return digest.hexdigest()


def hash_edges(file: BinaryIO) -> str:
    """sha256 of a file's first and last megabyte: enough to recognise another file, at any size."""
    digest = hashlib.sha256(file.read(EDGE))
    file.seek(max(os.fstat(file.fileno()).st_size - EDGE, 0))
    digest.update(file.read(EDGE))
    return digest.hexdigest()
