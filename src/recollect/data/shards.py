"""Shards: the tokens of a text, written once and memory-mapped ever after.

A shard is two files in a folder of the cache. `train-1a2b….bin` holds the tokens, little-endian and unsigned, one,
two or four bytes each, named after their hash. `train.json` says which of these files is the shard, from which sources
and by which tokeniser it was made, and how much it holds. The tokens are renamed into place first and the JSON last,
so that at any moment either the old shard is there or the new one. Whatever does not fit what the JSON says, or what
the sources are now, is made anew.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import sync_folder, write_aside
from .files import DataError, some_of
from .tokenizers.base import smallest

FORMAT = 1
EDGE = 1 << 20  # bytes at either end of a shard that are checked when it is opened
RACY = 2_000_000_000  # ns: a file this young when it was read may have changed since within one tick of its clock
STALE = 86_400  # s: a half-written file this old was left by a crash


class Sources:
    """The files that something is made of, as they are now. Hashes are taken once, and only where they are needed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = [path.absolute() for path in paths]
        self.looked = time.time_ns()
        self._stamps = self._look()
        self._hashes: dict[Path, str] = {}

    def some(self, paths: Sequence[Path]) -> "Sources":
        """Some of these files, as they were when these were looked at."""
        part = copy(self)  # hashes are shared
        stamps = dict(zip(self.paths, self._stamps, strict=True))
        part.paths = [path.absolute() for path in paths]
        part._stamps = [stamps[path] for path in part.paths]
        return part

    def _look(self) -> list[tuple[int, int]]:
        try:
            found = [path.stat() for path in self.paths]
        except OSError as error:
            raise DataError(f"expected a readable file, found {error.strerror}: {error.filename}") from None
        return [(stat.st_size, stat.st_mtime_ns) for stat in found]

    def _hash(self, path: Path) -> str:
        if path not in self._hashes:
            try:
                with path.open("rb") as file:
                    self._hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise DataError(f"cannot read {path}: {error.strerror or error}") from None
        return self._hashes[path]

    def record(self) -> dict[str, Any]:
        """What `match` compares with, later."""
        files = [
            {"path": str(path), "size": size, "mtime_ns": mtime, "sha256": self._hash(path)}
            for path, (size, mtime) in zip(self.paths, self._stamps, strict=True)
        ]
        return {"looked_ns": self.looked, "files": files}

    def match(self, record: Any) -> tuple[bool, bool]:
        """Whether the files are still those of `record`, and whether it took their hashes to know."""
        hashed = False
        try:
            if [file["path"] for file in record["files"]] != [str(path) for path in self.paths]:
                return False, False
            for path, (size, mtime), file in zip(self.paths, self._stamps, record["files"], strict=True):
                if file["size"] != size:
                    return False, hashed
                if file["mtime_ns"] != mtime or mtime > record["looked_ns"] - RACY:
                    hashed = True
                    if self._hash(path) != file["sha256"]:
                        return False, hashed
        except (KeyError, TypeError):
            return False, False
        return True, hashed

    def settle(self) -> None:
        """Refuse to go on if a file changed while it was being read."""
        for path, before, after in zip(self.paths, self._stamps, self._look(), strict=True):
            if before != after:
                raise DataError(
                    f"expected files that stay as they are, found that {path} changed meanwhile; run it again"
                )


@dataclass(frozen=True)
class Shard:
    """The tokens of one part of a text, and what is known of that text."""

    tokens: np.memmap[Any, np.dtype[Any]]
    text_bytes: int  # of the text as UTF-8
    text_sha256: str  # of the same
    unknown: int  # tokens that are <unk>


def find(folder: Path, name: str, sources: Sources, made_by: dict[str, Any]) -> Shard | None:
    """The shard, if it is whole and made of these sources as they are now, by what `made_by` says."""
    record = read_record(folder / f"{name}.json")
    if record is None or record.get("made_by") != made_by:
        return None
    same, hashed = sources.match(record.get("sources"))
    if not same:
        return None
    try:
        file, count = record["file"], record["count"]
        shard = Path(folder, file)
        dtype = np.dtype(record["dtype"])
        good = (
            shard.parent == folder
            and dtype in (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"))
            and count > 0
            and shard.stat().st_size == count * dtype.itemsize
            and edges(shard) == record["edges"]
        )
        if not good:
            return None
        found = Shard(
            np.memmap(shard, dtype, mode="r", shape=(count,)),
            int(record["text_bytes"]),
            str(record["text_sha256"]),
            int(record["unknown"]),
        )
    except (OSError, KeyError, TypeError, ValueError):
        return None
    if hashed:  # so that the next time the stamps suffice
        write_record(folder / f"{name}.json", record | {"sources": sources.record()})
    return found


def make(
    folder: Path,
    name: str,
    sources: Sources,
    made_by: dict[str, Any],
    batches: Iterable[np.ndarray],
    measure: "Measure",
    size: int,
    unknown: int | None,
) -> Shard:
    """Write the tokens of `batches` as the shard `name`. `measure` has watched the text by the time they end."""
    dtype = smallest(size)
    count = unknowns = 0
    digest = hashlib.sha256()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder, name)
        handle, part = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                for batch in batches:
                    tokens = np.ascontiguousarray(batch, dtype)
                    data = tokens.tobytes()
                    digest.update(data)
                    file.write(data)
                    count += len(tokens)
                    if unknown is not None:
                        unknowns += int(np.count_nonzero(tokens == unknown))
                file.flush()
                os.fsync(file.fileno())
            if not count:
                raise DataError(f"expected text for the {name} part, found only blanks in {some_of(sources.paths, 3)}")
            origin = sources.record()
            sources.settle()  # after the hashes, so that they are those of what was read
            shard = folder / f"{name}-{digest.hexdigest()[:16]}.bin"
            os.replace(part, shard)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
        sync_folder(folder)
    except OSError as error:
        raise _unwritable(folder, error) from None
    record = {
        "format": FORMAT,
        "sources": origin,
        "made_by": made_by,
        "file": shard.name,
        "dtype": dtype.str,
        "count": count,
        "edges": edges(shard),
        "text_bytes": measure.bytes,
        "text_sha256": measure.sha256,
        "unknown": unknowns,
    }
    write_record(folder / f"{name}.json", record)
    for old in folder.glob(f"{name}-*.bin"):
        if old != shard:
            remove(old)
    found = find(folder, name, sources, made_by)
    if found is None:
        raise DataError(f"expected the shard just written in {folder}, found another; run one at a time")
    return found


class Measure:
    """Passes a text on and counts it: its length and hash as UTF-8."""

    def __init__(self) -> None:
        self.bytes = 0
        self._digest = hashlib.sha256()

    def watch(self, chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            data = chunk.encode()
            self.bytes += len(data)
            self._digest.update(data)
            yield chunk

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def read_record(path: Path) -> dict[str, Any] | None:
    """A JSON object of this format, or None for anything else."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("format") == FORMAT else None


def recalled(path: Path, sources: "Sources", settings: Any) -> tuple[dict[str, Any], bool] | None:
    """The record of a cache made with these settings from these sources, or None for anything else.

    And whether the sources had to be hashed to tell: then it should be written anew, so that their stamps suffice.
    """
    record = read_record(path)
    if record is None or record.get("settings") != settings:
        return None
    same, hashed = sources.match(record.get("sources"))
    return (record, hashed) if same else None


def write_record(path: Path, record: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, json.dumps(record).encode())
    except OSError as error:
        raise _unwritable(path.parent, error) from None


def edges(path: Path) -> str:
    """A hash of a file's first and last megabyte: enough to know a foreign file, cheap for any size."""
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(EDGE))
        file.seek(max(path.stat().st_size - EDGE, 0))
        digest.update(file.read(EDGE))
    return digest.hexdigest()


def _sweep(folder: Path, name: str) -> None:
    """Remove what crashes left."""
    for part in folder.glob(f".{name}.*.part"):
        try:
            old = time.time() - part.stat().st_mtime > STALE
        except OSError:
            continue
        if old:
            remove(part)


def remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # another process has it mapped (Windows), or took it away


def _unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"expected to write token files to {folder}, found: {error.strerror or error}; make room there, "
        "or name another place with RECOLLECT_CACHE"
    )
