"""Pictures with captions, from a folder, the known set flickr8k or rendered scenes, as arrays ready to train on.

    read      any file that Pillow opens, as RGB on white, upright, its first frame, squashed to a square
    caption   lines `name TAB caption` or `name#i TAB caption`; letters made small, punctuation left out
    split     by the lists of the authors, or by a hash of the picture: no picture is in two parts
    keep      the pixels in the cache folder, memory-mapped, made anew when a source changes

One picture is in memory at a time. What cannot be used is counted and named.
"""

import csv
import hashlib
import io
import json
import os
import re
import tempfile
import unicodedata
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.files import sync_folder, write_aside
from . import known, scenes, shards
from .known import KnownFile, KnownSet
from .moses import Preparation
from .sides import Side
from .text import DataError, StrPath, chunks, walk
from .tokenize import Words

FORMAT = 1
SPLITS = ("train", "valid", "test")
SHAPES = "shapes"  # the name of the rendered scenes
PIXELS = 96
COUNTS = {"train": 12_000, "valid": 1_000, "test": 1_000}  # scenes
SHARE = 0.1  # of the pictures, for validation, and as much for the test
LONGEST = 40  # words of a caption that is trained on
MOST = 50_000_000  # pixels of a picture that is read whole
MANY = 5_000  # training captions from which on rare words are left out
CAPTIONS = ("captions.tsv", "captions.txt", "captions.csv", "Flickr8k.token.txt", "Flickr8k.token.txt.gz")
LISTS = {"train": "*trainImages.txt", "valid": "*devImages.txt", "test": "*testImages.txt"}
NAMED = 3  # of what was left out, so many are named
_NUMBERED = re.compile(r"#\d+$")


# ------------------------------------------------------------------------------------------------- one picture


class PictureError(DataError):
    """A file that cannot be read as a picture."""


def read_picture(
    source: StrPath | bytes, side: int, *, square: bool = True, name: str | None = None
) -> tuple[np.ndarray, list[str]]:
    """RGB of a picture (H W 3, uint8), and what should be known of how it was read.

    `square` squashes it to side × side; else it keeps its proportions and is made smaller where it is larger.
    `source` is a file, or its content.
    """
    from PIL import Image

    name = name or ("the picture" if isinstance(source, bytes) else str(source))
    if not isinstance(source, bytes):
        _refuse_no_file(Path(source))
    opened: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's doubts about a file are no errors, and its limit is ours below
            with Image.open(opened) as image:
                return _read(image, side, square, name)
    except PictureError:
        raise
    except Image.DecompressionBombError:
        raise PictureError(f"{name}: expected a picture of at most {MOST:,} pixels, found far more") from None
    except Image.UnidentifiedImageError:
        raise PictureError(f"{name}: expected a picture, found something that Pillow does not know as one") from None
    except MemoryError:
        raise PictureError(f"{name}: expected a picture that fits in memory, found a larger one") from None
    except Exception as error:  # a decoder may raise anything on bytes that are not what they say
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PictureError(
            f"{name}: expected a whole picture, found a damaged one ({reason}); get a new copy"
        ) from None


def _refuse_no_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise PictureError(f"{path}: expected a picture, found a folder")
        if not path.stat().st_size:
            raise PictureError(f"{path}: expected a picture, found an empty file")
    except OSError as error:
        raise PictureError(f"{path}: expected a picture, found {error.strerror or error}") from None


def _read(image: Any, side: int, square: bool, name: str) -> tuple[np.ndarray, list[str]]:
    from PIL import Image, ImageOps

    notes: list[str] = []
    if getattr(image, "is_animated", False):
        notes.append(f"{name}: an animation; its first frame is read")
    if image.size[0] * image.size[1] > MOST:
        image.draft("RGB", (2 * side, 2 * side))  # a JPEG can be decoded at an eighth of its size
        if image.size[0] * image.size[1] > MOST:
            width, height = image.size
            raise PictureError(
                f"{name}: expected a picture of at most {MOST:,} pixels, found {width:,} × {height:,}; make it smaller"
            )
        notes.append(f"{name}: very large; it is read at {image.size[0]:,} × {image.size[1]:,}")
    image.load()
    try:
        turned = ImageOps.exif_transpose(image)
    except Exception:  # the note about which way is up is damaged, the picture is not
        turned = image
    flat = on_white(turned)
    if square:
        small = flat.resize((side, side), Image.Resampling.BILINEAR)
    else:
        small = flat.copy()
        small.thumbnail((side, side), Image.Resampling.BILINEAR)
    return np.array(small), notes


def on_white(image: Any) -> Any:
    """RGB of an image of any mode; what is transparent shows white."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    return image.convert("RGB")


def _eight_bits(values: np.ndarray) -> np.ndarray:
    """Grey of 16 bits, of 32 bits or as fractions, on the scale from 0 to 255."""
    values = np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    highest = float(values.max(initial=0))
    scale = 255 if highest <= 1 else 1 if highest <= 255 else 255 / max(highest, 65_535)
    return np.clip(np.rint(values * scale), 0, 255).astype(np.uint8)


# ------------------------------------------------------------------------------------------------- captions


class _Table(dict[int, str | None]):
    """For `str.translate`: signs become blanks, but for those inside words."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kept = character in "'-" or unicodedata.category(character)[0] not in "PSCZ"
        self[code] = found = "'" if character == "’" else character if kept else " "
        return found


_PLAIN = _Table()


def plain(caption: str) -> str:
    """A caption as it is learned and compared: letters made small, only words, a blank between them."""
    words = unicodedata.normalize("NFC", caption.lower()).translate(_PLAIN).split()
    return " ".join(word for word in (word.strip("'-") or word for word in words) if any(map(str.isalnum, word)))


@dataclass(frozen=True, eq=False)
class Kept:
    """What a run must keep of its data: how captions become numbers, and the size of pictures."""

    side: Side
    pixels: int

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "pixels": self.pixels, "captions": self.side.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> "Kept":
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise DataError(f"expected format {FORMAT} of the words of captions, found something else")
        pixels = data.get("pixels")
        if not isinstance(pixels, int) or isinstance(pixels, bool) or not 2 <= pixels <= 4096:
            raise DataError(f"expected pixels from 2 to 4096 beside the words of captions, found {pixels!r}")
        return cls(Side.from_json(data.get("captions")), pixels)


def save_kept(kept: Kept, path: Path) -> None:
    write_aside(path, json.dumps(kept.to_json(), ensure_ascii=False).encode())


def load_kept(path: Path) -> Kept:
    try:
        return Kept.from_json(json.loads(path.read_bytes()))
    except OSError as error:
        raise DataError(f"expected the words of captions at {path}, found {error.strerror or error}") from None
    except DataError as error:
        raise DataError(f"{error} ({path})") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected JSON in {path}, found something else ({error}); copy it anew") from None


# ------------------------------------------------------------------------------------------------- many pictures


@dataclass(frozen=True, eq=False)
class Part:
    """The pictures of one split, with their captions, one or several each."""

    images: np.ndarray  # N P P 3, uint8
    names: list[str]  # N
    captions: list[list[str]]  # N, plain
    tokens: np.ndarray  # int32, of all captions end to end
    offsets: np.ndarray  # C + 1, where each caption begins
    first: np.ndarray  # N + 1, the first caption of each picture
    boxes: np.ndarray | None = None  # N M 4: left, top, right, bottom of each thing, in pixels
    named: np.ndarray | None = None  # as tokens: the thing that a word names, or -1
    held_out: np.ndarray | None = None  # N, whether it shows a combination that training never does

    def __len__(self) -> int:
        return len(self.names)

    def tokens_of(self, caption: int) -> np.ndarray:
        return self.tokens[self.offsets[caption] : self.offsets[caption + 1]]

    def named_of(self, caption: int) -> np.ndarray:
        assert self.named is not None
        return self.named[self.offsets[caption] : self.offsets[caption + 1]]


@dataclass(frozen=True, eq=False)
class Captioned:
    """Pictures with captions by split, and what is known of them."""

    name: str
    side: Side
    pixels: int
    train: Part
    valid: Part
    test: Part | None
    fingerprint: str  # over pixels, captions and words: the same wherever the files lie
    notes: list[str]
    mirrored: bool = True  # whether the captions of a picture are those of its mirror image too


def _flickr8k(name: str, size: int, sha256: str, text_sha256: str | None = None) -> KnownFile:
    return KnownFile(path=f"flickr8k/{name}", sha256=sha256, text_sha256=text_sha256 or sha256, size=size)


_FLICKR8K = _flickr8k(
    "Flickr8k.token.txt.gz",
    2_974_628,
    "fee3312b032ac2de9ee66c637ecea8c0cbd99832a6c6fdc30d132423fdb1e1d2",
    "58394263a018834e603d1cde7512cf34a752fbf2f40535f4aaa2eda77e0ed4a3",
)
SETS: dict[str, KnownSet] = {  # of each part: pictures, names, captions
    "flickr8k": KnownSet(
        name="flickr8k",
        about="photographs at 96 pixels, squashed to squares, with five captions each; 6,000 / 1,000 (dev)",
        licence="Flickr terms, research only",
        splits={
            "train": (
                _flickr8k(
                    "images96_train.npz",
                    18_700_652,
                    "7b6a099c5bbb5e451d9e2bd8cdc4252e5258cb79eed4dc310820b293b7ed1c00",
                ),
                _flickr8k(
                    "Flickr_8k.trainImages.txt",
                    154_678,
                    "e330ddd5156a4c2d2e2b67bc587e70e588f2d132bd8a10dc54dcb71e58115d8e",
                ),
                _FLICKR8K,
            ),
            "valid": (
                _flickr8k(
                    "images96_dev.npz",
                    3_129_565,
                    "43addf1dda6c93e51a8ed6eba4b9e962a4ed270246525531bde99b671f8a1802",
                ),
                _flickr8k(
                    "Flickr_8k.devImages.txt",
                    25_801,
                    "18ba829f47f6df1cb830bf7f0506e2ddf333818925299babbd1bbcaf50fdc504",
                ),
                _FLICKR8K,
            ),
        },
    ),
}


def load(
    data: Sequence[StrPath] = (),
    *,
    pixels: int | None = None,
    least: int | None = None,
    longest: int = LONGEST,
    share: float = SHARE,
    count: int = COUNTS["train"],
    whole: bool = False,
    seed: int = 0,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    kept: Kept | None = None,
) -> Captioned:
    """Read pictures with captions.

    `data` is a folder with pictures and a file of captions (one of `CAPTIONS`), the name of a known set, or `shapes`
    (also where it is empty) for `count` rendered scenes and a twelfth of that for each other part. A folder is split
    by Flickr's lists where they lie in it, else `share` of its pictures are for validation and as many for the test;
    with `whole` each part is all of it. Pictures are squashed to `pixels` × `pixels`. Words seen fewer than `least`
    times in training are unknown (default: 1, and 5 where captions are many); training leaves out captions of more
    than `longest` words. `kept` is what a run already has, used as it is.
    """
    if len(data) > 1:
        raise DataError(f"expected one folder or set of pictures, found {len(data)} names; name one")
    name = str(data[0]) if data else SHAPES
    own = pixels or (scenes.PIXELS if name == SHAPES else PIXELS)
    size = kept.pixels if kept is not None else own
    if not 0 < share < 0.5:
        raise DataError(f"expected a share between 0 and 0.5 for each of validation and test, found {share}")
    work: _Work
    if name == SHAPES:
        work = _Scenes(count, seed, size)
    elif name in SETS:
        work = _Known(name, size, known.find_files(SETS[name].splits, data_dir, cache))
    else:
        work = _folder(Path(name).expanduser(), size, share, whole)
    settings = {"format": FORMAT, "pixels": size, "work": work.describe()}
    slug = "".join(c if c.isalnum() or c in "-_." else "_" for c in work.name)[:40]
    place = known.cache_folder(cache) / "pictures" / f"{slug}-{_sha256(settings)[:16]}"
    sources = shards.Sources(work.paths)
    found = _recall(place, sources, settings, size) or _make(place, sources, settings, work, size)
    return _assemble(work, found, size, least, longest, kept)


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# --------------------------------------------------------------------------------------- where pictures come from


class _Row(NamedTuple):
    """One picture on its way to the cache."""

    split: str
    name: str
    image: np.ndarray
    captions: list[str]
    boxes: list[Any] | None = None
    named: list[Any] | None = None
    held_out: bool | None = None


class _Work(ABC):
    """What pictures are made of: read once, when the cache has none of them."""

    name: str
    paths: list[Path]
    mirrored = True
    whole = False  # whether each part is all of it

    @abstractmethod
    def describe(self) -> list[Any]:
        """What the pictures depend on, apart from the files at `paths`."""

    @abstractmethod
    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[_Row]:
        """Every picture; `hashes` are those of `paths`."""


class _Scenes(_Work):
    """Rendered scenes."""

    mirrored = False  # left would become right

    def __init__(self, count: int, seed: int, pixels: int) -> None:
        self.name, self.paths = SHAPES, []
        if count < 12:
            raise DataError(f"expected at least 12 scenes, found count={count}")
        self.counts = {split: count * COUNTS[split] // COUNTS["train"] for split in SPLITS}
        self.seed, self.pixels = seed, pixels

    def describe(self) -> list[Any]:
        import PIL

        # whatever a scene depends on: what can be drawn, and who draws it
        kinds = [sorted(scenes.COLOURS.items()), scenes.SHAPES, sorted(scenes.SIZES.items()), sorted(scenes.HELD_OUT)]
        made = [scenes.SHARE, scenes.JITTER, scenes.NOISE, scenes.CLEAR, PIL.__version__, np.__version__]
        return json.loads(json.dumps([SHAPES, self.counts, self.seed, *kinds, *made]))

    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[_Row]:
        for split in SPLITS:
            for number in range(self.counts[split]):
                one = scenes.scene(split, number, self.seed, self.pixels)  # type: ignore[arg-type]
                boxes, named = [list(thing.box) for thing in one.things], [list(words) for words in one.named]
                yield _Row(split, f"{split}-{number}", one.image, list(one.captions), boxes, named, one.held_out)


class _Known(_Work):
    """A known set: pictures end to end in one array, names, and lines of captions."""

    def __init__(self, name: str, pixels: int, files: dict[str, list[Path]]) -> None:
        self.name, self.pixels, self.files = name, pixels, files
        self.paths = list(dict.fromkeys(path for some in files.values() for path in some))

    def describe(self) -> list[Any]:
        return [self.name]

    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[_Row]:
        left = _LeftOut()
        for split, (images, names, lines) in self.files.items():
            captions = read_captions(lines, left)
            listed = set(_names(names))
            for name, content in packed(images):
                if name not in listed or not captions.get(name):
                    left.add("pictures without captions", name)
                    continue
                pixels, said = read_picture(content, self.pixels, name=f"{name} in {images}")
                notes += said
                yield _Row(split, name, pixels, captions[name])
        notes += left.told()


def packed(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and files of an npz that holds them end to end: `jpeg`, `offsets`, `names`."""
    try:
        with np.load(path, allow_pickle=False) as found:
            content, offsets, names = found["jpeg"], found["offsets"], found["names"]
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise DataError(f"expected jpeg, offsets and names in {path}, found something else ({error})") from None
    good = content.dtype == np.uint8 and content.ndim == offsets.ndim == names.ndim == 1 and names.dtype.kind == "U"
    if not good or len(offsets) != len(names) + 1 or offsets[-1] != len(content) or (np.diff(offsets) < 0).any():
        raise DataError(f"expected pictures end to end, n + 1 offsets and n names in {path}, found others")
    for number, name in enumerate(names.tolist()):
        yield name, content[offsets[number] : offsets[number + 1]].tobytes()


class _Folder(_Work):
    """A folder of pictures and a file of captions."""

    def __init__(
        self,
        folder: Path,
        pixels: int,
        files: dict[str, Path],
        captions: dict[str, list[str]],
        split: Callable[[str, str], str | None],
        lists: Sequence[Path],
        about: list[Any],
        left: "_LeftOut",
        whole: bool,
    ) -> None:
        self.name = folder.absolute().name
        self.pixels, self.files, self.captions, self.split, self.left = pixels, files, captions, split, left
        self.about, self.whole = about, whole
        self.paths = [*lists, *files.values()]

    def describe(self) -> list[Any]:
        return self.about

    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[_Row]:
        for name, path in self.files.items():
            split = self.split(name, hashes[str(path.absolute())])
            if split is None:
                self.left.add("pictures that are in none of the lists", name)
                continue
            try:
                pixels, said = read_picture(path, self.pixels)
            except PictureError as error:
                self.left.add("pictures that cannot be read", f"{name} ({str(error).partition(': ')[2]})")
                continue
            for note in said:
                self.left.add(note.partition(": ")[2], name)
            yield _Row(split, name, pixels, self.captions[name])
        notes += self.left.told()


@dataclass
class _LeftOut:
    """What could not be used, by reason: how much, and the first few by name."""

    found: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, name: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(some := self.found.setdefault(reason, [])) < NAMED and name not in some:
            some.append(name)

    def told(self) -> list[str]:
        return [
            f"{self.counts[reason]:,} {reason}: {', '.join(some)}{', …' if self.counts[reason] > len(some) else ''}"
            for reason, some in self.found.items()
        ]


def _folder(folder: Path, pixels: int, share: float, whole: bool) -> _Folder:
    """The pictures of a folder that have captions, and how they are split."""
    if not folder.is_dir():
        found = "a file" if folder.exists() else "none"
        raise DataError(
            f"expected a folder of pictures, {', '.join(SETS)} or {SHAPES}, found {found} at {folder}; name one"
        )
    lines = next((folder / name for name in CAPTIONS if (folder / name).is_file()), None)
    if lines is None:
        raise DataError(
            f"expected captions in {folder} ({', '.join(CAPTIONS)}), found none; write a line `name TAB caption` for "
            "each into captions.tsv"
        )
    left = _LeftOut()
    captions = read_captions(lines, left)
    lists = {
        split: path for split, pattern in LISTS.items() for path in sorted(folder.glob(pattern))[:1] if path.is_file()
    }
    pictures = _pictures(folder, {lines, *lists.values()})
    files = {name: pictures[name] for name in captions if name in pictures}
    for name in captions:
        if name not in pictures:
            left.add("pictures that have captions, but are not there", name)
    used = set(files.values())
    for name, path in pictures.items():
        if path not in used and name == path.relative_to(folder).as_posix():
            left.add("files without captions", name)
    if not files:
        some = next(iter(captions), None)
        told = f"such as {some!r}, which is not in {folder}" if some else f"none that can be used in {lines}"
        raise DataError(f"expected captions that name pictures, found {told}; captions begin with a file's name")
    listed = {name: split for split, path in lists.items() for name in _names(path)}

    def split(name: str, sha256: str) -> str | None:
        if whole:
            return "valid"
        if "train" in lists and "valid" in lists:
            return listed.get(name)
        place = int(sha256[:16], 16) / 2**64
        return "valid" if place < share else "test" if place < 2 * share else "train"

    about = ["folder", str(folder.absolute()), None if whole else share, whole]
    return _Folder(folder, pixels, files, captions, split, [lines, *lists.values()], about, left, whole)


def _pictures(folder: Path, others: set[Path]) -> dict[str, Path]:
    """Files by their place in the folder, and by their bare name where only one has it."""
    paths = [path for path in walk(folder) if path not in others]
    found = {path.relative_to(folder).as_posix(): path for path in paths}
    bare: dict[str, list[Path]] = {}
    for path in paths:
        bare.setdefault(path.name, []).append(path)
    return found | {name: some[0] for name, some in bare.items() if len(some) == 1}


def read_captions(path: Path, left: _LeftOut | None = None) -> dict[str, list[str]]:
    """The captions of each picture, plain, in the order of the file; `left` hears of what could not be used."""
    left = _LeftOut() if left is None else left
    found: dict[str, list[str]] = {}
    for number, (name, caption) in enumerate(_captions(path), 1):
        if name is None:
            if caption.strip():
                left.add("lines that are no `name TAB caption`", f"line {number:,} of {path.name}")
        elif words := plain(caption):
            if words not in (known_ones := found.setdefault(_NUMBERED.sub("", name), [])):
                known_ones.append(words)
        else:
            left.add("captions without a word", f"line {number:,} of {path.name}")
    return found


def _captions(path: Path) -> Iterator[tuple[str | None, str]]:
    """Name and caption of each line; no name where a line is something else."""
    lines = _lines(path)
    first = next(lines, "")
    if re.fullmatch(r"\s*image(_name)?\s*,\s*caption\s*", first):  # as Kaggle's copies of Flickr8k and Flickr30k
        for row in csv.reader(lines):
            yield (row[0].strip(), ",".join(row[1:])) if len(row) > 1 else (None, ",".join(row))
        return
    for line in (first, *lines):
        name, tab, caption = line.partition("\t")
        yield (name.strip(), caption) if tab and name.strip() else (None, line)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text; only \\n ends one."""
    rest = ""
    for chunk in chunks(path):
        *whole, rest = (rest + chunk).split("\n")
        yield from (line.rstrip("\r") for line in whole)
    if rest:
        yield rest.rstrip("\r")


def _names(path: Path) -> Iterator[str]:
    return (line.strip() for line in _lines(path) if line.strip())


# ------------------------------------------------------------------------------------------------------ the cache


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

    def add(self, row: _Row) -> None:
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


def _make(place: Path, sources: shards.Sources, settings: Any, work: _Work, pixels: int) -> dict[str, Any]:
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
    found = _recall(place, sources, settings, pixels)
    if found is None:
        raise DataError(f"expected the pictures just written in {place}, found others; run one at a time")
    return found


def _recall(place: Path, sources: shards.Sources, settings: Any, pixels: int) -> dict[str, Any] | None:
    """What the cache has, if it is whole and the sources are what they were; `images` are mapped."""
    record = shards.read_record(place / "pictures.json")
    if record is None or record.get("settings") != settings:
        return None
    same, hashed = sources.match(record.get("sources"))
    if not same:
        return None
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
    if hashed:  # so that the next time the stamps suffice
        plain_splits = {
            name: {key: value for key, value in split.items() if key != "images"}
            for name, split in record["splits"].items()
        }
        shards.write_record(place / "pictures.json", record | {"sources": sources.record(), "splits": plain_splits})
    return record


# ------------------------------------------------------------------------------------------- from rows to tokens


def _assemble(
    work: _Work, found: dict[str, Any], pixels: int, least: int | None, longest: int, kept: Kept | None
) -> Captioned:
    """Words from the training captions, and tokens of all."""
    splits: dict[str, dict[str, Any]] = found["splits"]
    notes: list[str] = list(found["notes"])
    if work.whole:
        splits = {split: splits["valid"] for split in SPLITS if "valid" in splits}
    for split in ("train", "valid"):
        if split not in splits:
            total = sum(part["count"] for part in splits.values())
            some = f"{total:,} pictures in all" if total else "; ".join(notes) or "no picture that can be read"
            raise DataError(
                f"expected pictures for the {split} part of {work.name}, found none ({some}); give more pictures, "
                "another share, or lists of each part"
            )
    if kept is None:
        side = Side(Preparation("captions", lower=True), words_of(splits["train"]["captions"], least))
    else:
        side = kept.side
    parts = {name: _part(split, side, longest if name == "train" else None, notes) for name, split in splits.items()}
    for name, part in parts.items():
        if side.unknown is not None and (share := float((part.tokens == side.unknown).mean())):
            notes.append(f"{name}: {100 * share:.3g} % of the words are unknown")
    about = [[name, split["sha256"], split["names"], split["captions"]] for name, split in sorted(splits.items())]
    return Captioned(
        name=work.name,
        side=side,
        pixels=pixels,
        train=parts["train"],
        valid=parts["valid"],
        test=parts.get("test"),
        fingerprint=_sha256([pixels, about, side.to_json()]),
        notes=notes,
        mirrored=work.mirrored,
    )


def words_of(captions: Iterable[Sequence[str]], least: int | None = None) -> Words:
    """The words that occur at least so often, the most frequent first."""
    lines = [f"{caption}\n" for some in captions for caption in some]
    least = (5 if len(lines) >= MANY else 1) if least is None else least
    every = Words.train(lines)
    counts = np.zeros(every.size, np.int64)
    for line in lines:
        np.add.at(counts, every.encode(line[:-1]), 1)
    often = int(np.count_nonzero(counts[2:] >= least))
    if not often:
        raise DataError(f"expected words that occur at least {least} times in training, found none; lower least")
    return Words(every.words[: 2 + often], spaceless=every.spaceless)


def _part(split: dict[str, Any], side: Side, longest: int | None, notes: list[str]) -> Part:
    """The captions of a split as tokens; with `longest`, without those that are longer."""
    tokens, named, first, texts, rows, long = [], [], [0], [], [], 0
    total = 0
    for row, captions in enumerate(split["captions"]):
        some: list[str] = []
        for number, caption in enumerate(captions):
            ids = side.encode(caption)
            if longest is not None and len(ids) > longest:
                long += 1
                continue
            tokens.append(ids)
            some.append(caption)
            if split["named"][row] is not None:
                named.append(split["named"][row][number])
        if not some:
            continue
        total += len(some)
        rows.append(row)
        texts.append(some)
        first.append(total)
    if long:
        notes.append(f"train: {long:,} captions of more than {longest} words are left out")
    if not rows:
        raise DataError(f"expected captions of at most {longest} words in training, found none; allow longer ones")
    every = len(rows) == split["count"]
    images = split["images"] if every else split["images"][rows]
    scenic = bool(named)
    return Part(
        images=images,
        names=[split["names"][row] for row in rows],
        captions=texts,
        tokens=np.concatenate(tokens).astype(np.int32),
        offsets=np.cumsum([0, *map(len, tokens)]),
        first=np.array(first),
        boxes=np.array([split["boxes"][row] for row in rows]) if scenic else None,
        named=np.concatenate([np.array(some, np.int8) for some in named]) if scenic else None,
        held_out=np.array([split["held_out"][row] for row in rows], bool) if scenic else None,
    )
