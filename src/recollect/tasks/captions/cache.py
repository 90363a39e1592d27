"""The cache of pictures: pixels in .npy files, memory-mapped, and a record of all else; new when a source changes."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ...core.files import sync_folder
from ...data import shards
from ...data.files import DataError
from .sources import Row, Work


class _Images:
    """An .npy file written picture by picture, and hashed meanwhile."""

    def __init__(self, path: Path, pixels: int) -> None:
        self.path, self.pixels, self.count = path, pixels, 0
        self.rows: dict[str, list[Any]] = {name: [] for name in ("names", "captions", "boxes", "named", "held_out")}
        self._digest = hashlib.sha256()
        self._file = path.open("wb")
        self._header()

    def _header(self) -> None:
        """numpy leaves room in it for the first axis to grow."""
        shape = (self.count, self.pixels, self.pixels, 3)
        about = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, about)

    def add(self, row: Row) -> None:
        content = np.ascontiguousarray(row.image, np.uint8).tobytes()
        self._digest.update(content)
        self._file.write(content)
        self.count += 1
        for name, value in (("names", row.name), ("captions", row.captions), ("boxes", row.boxes)):
            self.rows[name].append(value)
        self.rows["named"].append(row.named)
        self.rows["held_out"].append(row.held_out)

    def close(self) -> None:
        before = self._file.tell()
        self._file.seek(0)
        self._header()
        if self._file.tell() + self.count * self.pixels**2 * 3 != before:
            raise DataError(f"expected room in the head of {self.path}, found too little; is numpy older than 1.23?")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def record(self) -> dict[str, Any]:
        return {"count": self.count, "sha256": self._digest.hexdigest(), "edges": shards.edges(self.path)} | self.rows


def make(place: Path, sources: shards.Sources, settings: Any, work: Work, pixels: int) -> dict[str, Any]:
    """Read every picture, and keep it."""
    notes: list[str] = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        origin = sources.record()
        hashes = {file["path"]: file["sha256"] for file in origin["files"]}
        with tempfile.TemporaryDirectory(prefix=".scratch.", dir=place) as scratch:
            written: dict[str, _Images] = {}
            for row in work.rows(hashes, notes):
                if row.split not in written:
                    written[row.split] = _Images(Path(scratch, row.split), pixels)
                written[row.split].add(row)
            splits: dict[str, dict[str, Any]] = {}
            for split, images in written.items():
                images.close()
                splits[split] = images.record()
                splits[split]["file"] = f"{split}-{splits[split]['sha256'][:16]}.npy"
            sources.settle()  # so that the hashes are those of what was read
            for split, images in written.items():
                os.replace(images.path, place / splits[split]["file"])
        sync_folder(place)
    except OSError as error:
        raise DataError(
            f"expected to write pictures to {place}, found: {error.strerror or error}; make room there, or name "
            "another place with RECOLLECT_CACHE"
        ) from None
    record = {"format": shards.FORMAT, "settings": settings, "sources": origin, "splits": splits, "notes": notes}
    shards.write_record(place / "pictures.json", record)
    current = {split["file"] for split in splits.values()}
    for old in place.glob("*.npy"):
        if old.name not in current:
            shards.remove(old)
    found = recall(place, sources, settings, pixels)
    if found is None:
        raise DataError(f"expected the pictures just written in {place}, found others; run one at a time")
    return found


def recall(place: Path, sources: shards.Sources, settings: Any, pixels: int) -> dict[str, Any] | None:
    """What the cache has, if it is whole and the sources are what they were; `images` are mapped."""
    found = shards.recalled(place / "pictures.json", sources, settings)
    if found is None:
        return None
    record, hashed = found
    try:
        for split in record["splits"].values():
            path = place / split["file"]
            if path.parent != place or shards.edges(path) != split["edges"]:
                return None
            split["images"] = np.load(path, mmap_mode="r", allow_pickle=False)
            count = split["count"]
            if split["images"].shape != (count, pixels, pixels, 3) or split["images"].dtype != np.uint8:
                return None
            if any(len(split[name]) != count for name in ("names", "captions", "boxes", "named", "held_out")):
                return None
    except (OSError, KeyError, TypeError, AttributeError, ValueError):
        return None
    if hashed:
        plain_splits = {
            name: {key: value for key, value in split.items() if key != "images"}
            for name, split in record["splits"].items()
        }
        shards.write_record(place / "pictures.json", record | {"sources": sources.record(), "splits": plain_splits})
    return record
