"""Known public sets, by name: where they come from, what they must hash to, under which licence.

A set is looked for in `data_dir` (or RECOLLECT_DATA), then in the cache folder (RECOLLECT_CACHE, else
~/.cache/recollect), and downloaded into the latter if it is in neither.
"""

import contextlib
import difflib
import gzip
import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..core.files import sync_folder
from .text import DataError, StrPath

TIMEOUT = 30  # seconds without a byte


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    """A file of a set. It may lie there packed (`.gz`) or not: what counts is its text."""

    path: str  # in the data folder
    sha256: str  # of the file as it lies in the data folder
    text_sha256: str  # of its text, which is the same file where it is not packed
    size: int  # of its text, in bytes
    address: str | None = None  # of the text, not packed

    @property
    def places(self) -> list[str]:
        plain = self.path.removesuffix(".gz")
        return list(dict.fromkeys([self.path, plain, plain + ".gz"]))


@dataclass(frozen=True, kw_only=True)
class KnownSet:
    """A public set: its files by split (`train`, and `valid` and `test` where its authors made them)."""

    name: str
    about: str
    licence: str
    splits: dict[str, tuple[KnownFile, ...]]


def _plain(path: str, sha256: str, size: int, address: str | None) -> KnownFile:
    return KnownFile(path=path, sha256=sha256, text_sha256=sha256, size=size, address=address)


_WIKITEXT = "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/"

KNOWN: dict[str, KnownSet] = {
    "tinyshakespeare": KnownSet(
        name="tinyshakespeare",
        about="1,115,394 characters of Shakespeare's plays, 65 symbols",
        licence="text in the public domain",
        splits={
            "train": (
                _plain(
                    "tinyshakespeare/input.txt",
                    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                    1_115_394,
                    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
                ),
            )
        },
    ),
    "timemachine": KnownSet(
        name="timemachine",
        about="The Time Machine by H. G. Wells, as Dive into Deep Learning uses it",
        licence="text in the public domain",
        splits={
            "train": (
                _plain(
                    "timemachine/timemachine.txt",
                    "8424dbd9532ac81f7e5f0b6add90e6952baea29158309d7d1bf3884f4e12c516",
                    178_979,
                    "http://d2l-data.s3-accelerate.amazonaws.com/timemachine.txt",
                ),
            )
        },
    ),
    "wikitext2": KnownSet(
        name="wikitext2",
        about="WikiText-2: articles as words, rare ones as <unk>; 2,088,628 / 217,646 / 245,569 tokens",
        licence="CC BY-SA",
        splits={
            "train": (
                KnownFile(
                    path="wikitext2/train.txt.gz",
                    sha256="0c202e0b5d919429261b7291d9b5998f0db680c0a6700c0ff2a886d0abe055d4",
                    text_sha256="9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
                    size=10_797_148,
                    address=_WIKITEXT + "train.txt",
                ),
            ),
            "valid": (
                KnownFile(
                    path="wikitext2/valid.txt.gz",
                    sha256="3ac34ae2b6509075d52302c50a04a8a1970739ffe1a904f2cd374fefbea3cbf2",
                    text_sha256="f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                    size=1_121_681,
                    address=_WIKITEXT + "valid.txt",
                ),
            ),
            "test": (
                KnownFile(
                    path="wikitext2/test.txt.gz",
                    sha256="a2b26b5d2619cc1f6cd34c8e116a451aed09af51479346aadfbf508ceb8b192e",
                    text_sha256="d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
                    size=1_256_449,
                    address=_WIKITEXT + "test.txt",
                ),
            ),
        },
    ),
    "tang": KnownSet(
        name="tang",
        about="14,008 poems of the Tang, one a line, title：text, in traditional characters",
        licence="collection MIT; poems in the public domain",
        splits={
            "train": (
                KnownFile(
                    path="tang_poems/poems.txt.gz",
                    sha256="7b4cf7b99a5711bcd02a73a10ba5d4483cf2e8554388a7623ce726df9a54ccf9",
                    text_sha256="f32acc77be7cc3df1b879133ef60fae132e2dc40113863225f8969a838b36f21",
                    size=3_215_296,
                ),
            )
        },
    ),
}


def cache_folder(cache: StrPath | None = None) -> Path:
    """Where downloads and token files are kept."""
    return Path(cache or os.environ.get("RECOLLECT_CACHE") or "~/.cache/recollect").expanduser()


def find(name: str, data_dir: StrPath | None = None, cache: StrPath | None = None) -> dict[str, list[Path]]:
    """The files of a known set by split, downloaded if they are not on this machine; each is what it should be."""
    if name not in KNOWN:
        near = difflib.get_close_matches(name, KNOWN, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise DataError(f"expected a known set ({', '.join(KNOWN)}), found {name!r}{meant}")
    own = data_dir or os.environ.get("RECOLLECT_DATA")
    if own and not Path(own).expanduser().is_dir():
        raise DataError(f"expected a folder of data, found none at {own}; see --data-dir and RECOLLECT_DATA")
    folders = [Path(own).expanduser()] if own else []
    folders.append(cache_folder(cache))
    return {split: [_find(file, folders) for file in files] for split, files in KNOWN[name].splits.items()}


def _find(file: KnownFile, folders: list[Path]) -> Path:
    for folder in folders:
        for place in file.places:
            path = folder / place
            if path.is_file():
                _check(file, path)
                return path
    return _download(file, folders)


def _check(file: KnownFile, path: Path) -> None:
    try:
        with path.open("rb") as raw:
            found = hashlib.file_digest(raw, "sha256").hexdigest()
        if found in (file.sha256, file.text_sha256):
            return
        if path.suffix == ".gz":
            with gzip.open(path) as unpacked:
                found = hashlib.file_digest(unpacked, "sha256").hexdigest()
            if found == file.text_sha256:
                return
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; put a new copy there, or remove it") from None
    raise DataError(
        f"expected sha256 {file.text_sha256[:12]}… for the text of {path}, found {found[:12]}…; "
        "put the right file there, or remove it"
    )


def _download(file: KnownFile, folders: list[Path]) -> Path:
    """Fetch to a name aside, check, rename: the file is there whole and right, or it is not there."""
    plain = file.places[1] if file.path.endswith(".gz") else file.path
    target = folders[-1] / plain
    by_hand = f"put it by hand at {' or '.join(str(folder / file.path) for folder in folders)}"
    if file.address is None:
        raise DataError(
            f"expected {file.path} in the data folder, found none, and it has no address to download; {by_hand}"
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
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        if isinstance(error, DataError):
            raise
        raise DataError(f"expected to download {file.address}, found: {error}; {by_hand}") from None
    finally:
        with contextlib.suppress(OSError):
            Path(part).unlink(missing_ok=True)
    sync_folder(target.parent)
    return target


def _fetch(file: KnownFile, out: IO[bytes]) -> tuple[str, int]:
    """Copy what the address gives, and no more than a byte beyond what is expected; its hash and size."""
    assert file.address is not None
    digest = hashlib.sha256()
    size = 0
    with urllib.request.urlopen(file.address, timeout=TIMEOUT) as answer:
        while block := answer.read(min(1 << 18, file.size + 1 - size)):
            digest.update(block)
            out.write(block)
            size += len(block)
    return digest.hexdigest(), size
