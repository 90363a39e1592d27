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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..core.files import sync_folder
from .files import DataError, StrPath, Unreachable

TIMEOUT = 30  # seconds without a byte


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    """A file of a set. It may lie there packed (`.gz`) or not: what counts is its text."""

    path: str  # in the data folder
    sha256: str  # of the file as it lies in the data folder
    text_sha256: str  # of its text, which is the same file where it is not packed
    size: int  # of its text, in bytes
    address: str | None = None  # of the text, or, if it ends in .gz, of the text packed

    @property
    def places(self) -> list[str]:
        plain = self.path.removesuffix(".gz")
        return list(dict.fromkeys([self.path, plain, plain + ".gz"]))


@dataclass(frozen=True, kw_only=True)
class KnownSet:
    """A public set: its files by split (`train`, and `valid` and `test` where its authors made them).

    A set for translation names its `languages`: each split has a file for each of them, in this order, aligned line
    by line; or it has a single file, of which they are the columns.
    """

    name: str
    about: str
    licence: str
    splits: dict[str, tuple[KnownFile, ...]]
    languages: tuple[str, ...] = ()


def _plain(path: str, sha256: str, size: int, address: str | None) -> KnownFile:
    return KnownFile(path=path, sha256=sha256, text_sha256=sha256, size=size, address=address)


def _multi30k(name: str, sha256: str, text_sha256: str, size: int) -> KnownFile:
    address = f"https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/{name}.gz"
    return KnownFile(path=f"multi30k/{name}.gz", sha256=sha256, text_sha256=text_sha256, size=size, address=address)


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
    "multi30k": KnownSet(
        name="multi30k",
        about="descriptions of pictures in English, German and French; 29,000 / 1,014 / 1,000 (test_2016_flickr)",
        licence="non-commercial research",
        languages=("en", "de", "fr"),
        splits={
            "train": (
                _multi30k(
                    "train.en",
                    "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
                    "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
                    1_801_238,
                ),
                _multi30k(
                    "train.de",
                    "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
                    "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
                    2_110_398,
                ),
                _multi30k(
                    "train.fr",
                    "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
                    "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
                    2_111_303,
                ),
            ),
            "valid": (
                _multi30k(
                    "val.en",
                    "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
                    "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
                    63_297,
                ),
                _multi30k(
                    "val.de",
                    "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
                    "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
                    75_981,
                ),
                _multi30k(
                    "val.fr",
                    "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
                    "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
                    73_924,
                ),
            ),
            "test": (
                _multi30k(
                    "test_2016_flickr.en",
                    "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
                    "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
                    62_076,
                ),
                _multi30k(
                    "test_2016_flickr.de",
                    "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
                    "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
                    70_649,
                ),
                _multi30k(
                    "test_2016_flickr.fr",
                    "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
                    "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
                    72_261,
                ),
            ),
        },
    ),
    "tatoeba-fra": KnownSet(
        name="tatoeba-fra",
        about="167,130 pairs of short sentences, English and French, from Tatoeba by way of manythings.org",
        licence="CC BY 2.0",
        languages=("en", "fr"),
        splits={
            "train": (
                KnownFile(
                    path="tatoeba_eng_fra/fra.txt.gz",
                    sha256="3f7ce9b82d57439edff14f487e2ef9fd52ad72757a838857f153fa4668dd6066",
                    text_sha256="0bb85dbaa1c896844649094d7eaf2e34bee34e84fe362b26ce7e8f2e12aae104",
                    size=11_669_748,
                ),
            )
        },
    ),
    "tatoeba-cmn": KnownSet(
        name="tatoeba-cmn",
        about="29,155 pairs of short sentences, English and Chinese, from Tatoeba by way of manythings.org",
        licence="CC BY 2.0, attribution in each line",
        languages=("en", "zh"),
        splits={
            "train": (
                KnownFile(
                    path="tatoeba_eng_cmn/cmn.txt.gz",
                    sha256="0350a4a8aef14475fc09e49ba5cb9ecd7cbbae9afa99d92ebe16978f6eeb7752",
                    text_sha256="aa264a2447b26ab7c9d413f8321f9e2a779fd134b5118306b6e26a3499b3926e",
                    size=4_151_383,
                ),
            )
        },
    ),
}


def cache_folder(cache: StrPath | None = None) -> Path:
    """Where downloads and token files are kept."""
    return Path(cache or os.environ.get("RECOLLECT_CACHE") or "~/.cache/recollect").expanduser()


def names(translation: bool = False) -> list[str]:
    """The known texts, or the known sets for translation."""
    return [name for name, found in KNOWN.items() if bool(found.languages) == translation]


def find(
    name: str,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    languages: Sequence[str] | None = None,
) -> dict[str, list[Path]]:
    """The files of a known set by split, downloaded if they are not on this machine; each is what it should be.

    With `languages` a set for translation is meant: the files of these, in this order, or the one that holds all.
    """
    if name not in KNOWN:
        near = difflib.get_close_matches(name, KNOWN, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise DataError(
            f"expected a known set ({', '.join(names(translation=languages is not None))}), found {name!r}{meant}"
        )
    return find_files(_wanted(KNOWN[name], languages), data_dir, cache)


def find_files(
    wanted: Mapping[str, Sequence[KnownFile]], data_dir: StrPath | None = None, cache: StrPath | None = None
) -> dict[str, list[Path]]:
    """Known files by split, each where it lies: in the folder of data, or in the cache, downloaded if need be."""
    own = data_dir or os.environ.get("RECOLLECT_DATA")
    if own and not Path(own).expanduser().is_dir():
        raise DataError(f"expected a folder of data, found none at {own}; see --data-dir and RECOLLECT_DATA")
    folders = [Path(own).expanduser()] if own else []
    folders.append(cache_folder(cache))
    return {split: [_locate(file, folders) for file in files] for split, files in wanted.items()}


def _wanted(found: KnownSet, languages: Sequence[str] | None) -> dict[str, tuple[KnownFile, ...]]:
    """The files of a set by split that a text, or the translation between `languages`, is made of."""
    if languages is None:
        if found.languages:
            raise DataError(
                f"expected a text, found {found.name!r}, a set for translation ({', '.join(found.languages)}); "
                f"use it with the task translation, or name one of {', '.join(names())}"
            )
        return found.splits
    if not found.languages:
        raise DataError(
            f"expected a set for translation, found {found.name!r}, a text; "
            f"use it with the task text, or name one of {', '.join(names(translation=True))}"
        )
    for language in languages:
        if language not in found.languages:
            raise DataError(
                f"expected languages of {found.name} ({', '.join(found.languages)}), found {language!r}; "
                f"name a pair of them, such as {'-'.join(found.languages[:2])}"
            )
    order = [found.languages.index(language) for language in languages]
    return {
        split: files if len(files) == 1 else tuple(files[i] for i in order) for split, files in found.splits.items()
    }


def _locate(file: KnownFile, folders: list[Path]) -> Path:
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
    """Copy the text that the address gives, and no more than a byte beyond what is expected; its hash and size."""
    assert file.address is not None
    unpack = zlib.decompressobj(wbits=31) if file.address.endswith(".gz") else None  # 31: gzip
    digest = hashlib.sha256()
    size = 0
    with urllib.request.urlopen(file.address, timeout=TIMEOUT) as answer:
        while (left := file.size + 1 - size) and (block := answer.read(1 << 18 if unpack else min(1 << 18, left))):
            text = unpack.decompress(block, left) if unpack else block
            digest.update(text)
            out.write(text)
            size += len(text)
    return digest.hexdigest(), size
