"""Files of known hash: found on this machine or downloaded, and verified.

A file is searched in `data_dir` (or RECOLLECT_DATA), then in the cache folder (RECOLLECT_CACHE, else
~/.cache/recollect), and downloaded into the latter if it is in neither.
"""

import contextlib
import gzip
import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ...core.files import open_regular, sync_folder
from ..byte_files import BLOCK, StrPath, path_of
from ..cache import cache_folder
from ..errors import DataError, Unreachable

TIMEOUT = 30  # seconds without a byte


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    """A public file and the sha256 of its content. Packed (`.gz`) or not: its text is what is compared."""

    path: str  # in the data folder
    sha256: str  # of the file as it lies in the data folder
    text_sha256: str  # of its text, which is the same file where it is not packed
    size: int  # of its text, in bytes
    address: str | None = None  # of the text, or, if it ends in .gz, of the text packed

    @property
    def places(self) -> list[str]:
        plain = self.path.removesuffix(".gz")
        return list(dict.fromkeys([self.path, plain, plain + ".gz"]))


def find_files(
    wanted: Mapping[str, Sequence[KnownFile]],
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    origin: str = "",
) -> dict[str, list[Path]]:
    """Paths of known files by split, verified; a file that is in neither folder is downloaded into the cache.

    `origin` says where files without an address come from.
    """
    folders = data_folders(data_dir, cache)
    return {split: [_locate(file, folders, origin) for file in files] for split, files in wanted.items()}


def data_folders(data_dir: StrPath | None = None, cache: StrPath | None = None) -> list[Path]:
    """Where known sets are looked for: the data folder, where one is named, and the cache."""
    own = data_dir if data_dir is not None else os.environ.get("RECOLLECT_DATA") or None
    folders = [] if own is None else [path_of(own)]
    if folders and not folders[0].is_dir():
        raise DataError(f"expected a folder of data, found none at {own}; see --data-dir and RECOLLECT_DATA")
    return [*folders, cache_folder(cache)]


def _locate(file: KnownFile, folders: list[Path], origin: str) -> Path:
    """The path of a verified copy in the first folder that has one, else of a download."""
    for folder in folders:
        for place in file.places:
            path = folder / place
            if path.is_file():
                _check(file, path)
                return path
    return _download(file, folders, origin)


def _check(file: KnownFile, path: Path) -> None:
    """Refuse a copy with another hash than the file or its text."""
    try:
        with open_regular(path) as raw:
            found = _hash(raw, 2 * file.size + BLOCK)  # packed it is hardly larger than its text
        if found in (file.sha256, file.text_sha256):
            return
        if path.suffix == ".gz":
            with gzip.open(path) as unpacked:
                found = _hash(unpacked, file.size)
            if found == file.text_sha256:
                return
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; put a new copy there, or remove it") from None
    raise DataError(
        f"expected sha256 {file.text_sha256[:12]}… for the text of {path} ({file.size:,} bytes), found "
        f"{f'{found[:12]}…' if found else 'more bytes'}; put the right file there, or remove it"
    )


def _hash(file: Any, most: int) -> str | None:
    """sha256 of a file; None if it has more than `most` bytes."""
    digest, size = hashlib.sha256(), 0
    while block := file.read(BLOCK):
        digest.update(block)
        size += len(block)
        if size > most:
            return None
    return digest.hexdigest()


def _download(file: KnownFile, folders: list[Path], origin: str) -> Path:
    """Download to a temporary name, verify, rename: the file appears complete, or not at all."""
    plain = file.places[1] if file.path.endswith(".gz") else file.path
    target = folders[-1] / plain
    by_hand = f"put it by hand at {' or '.join(str(folder / file.path) for folder in folders)}"
    if file.address is None:
        source = f" (it is {origin})" if origin else ""
        raise Unreachable(
            f"expected {file.path} in the data folder, found none, and it has no address to download{source}; "
            f"{by_hand}, packed or not, or name the folder that holds it with --data-dir"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise DataError(f"cannot write to {target.parent}: {error.strerror or error}; set RECOLLECT_CACHE") from None
    try:
        with os.fdopen(handle, "wb") as out:
            found, size = _fetch(file, out)
            out.flush()
            os.fsync(out.fileno())
        if found != file.text_sha256:
            raise DataError(
                f"expected sha256 {file.text_sha256[:12]}… ({file.size:,} bytes) from {file.address}, "
                f"found {found[:12]}… ({size:,} bytes); {by_hand}"
            )
        os.replace(part, target)
    except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        if isinstance(error, DataError):
            raise
        raise Unreachable(f"expected to download {file.address}, found: {error}; {by_hand}") from None
    finally:
        with contextlib.suppress(OSError):
            Path(part).unlink(missing_ok=True)
    sync_folder(target.parent)
    return target


def _fetch(file: KnownFile, out: IO[bytes]) -> tuple[str, int]:
    """Copy the unpacked content of the address, at most one byte more than expected; return its hash and size."""
    assert file.address is not None
    unpack = zlib.decompressobj(wbits=31) if file.address.endswith(".gz") else None  # 31: gzip
    digest = hashlib.sha256()
    size = 0
    with urllib.request.urlopen(file.address, timeout=TIMEOUT) as answer:  # noqa: S310
        while (left := file.size + 1 - size) and (block := answer.read(1 << 18 if unpack else min(1 << 18, left))):
            text = unpack.decompress(block, left) if unpack else block
            digest.update(text)
            out.write(text)
            size += len(text)
    return digest.hexdigest(), size
