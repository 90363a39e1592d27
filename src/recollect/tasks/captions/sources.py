"""Sources of pictures with captions: rendered scenes, a known set, or a folder; each picture with its split."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from ...core.limits import write_bytes
from ...data.files import DataError, walk
from ...data.known import CaptionSet, sets_of
from . import scenes
from .caption_files import Skipped, names_in, read_captions
from .picture_files import PictureError, read_picture
from .scenes import SPLITS
from .settings import COUNT

SHAPES = "shapes"  # the name of the rendered scenes
COUNTS = {"train": COUNT, "valid": 1_000, "test": 1_000}  # scenes
MOST_SCENES = 16 * 10**9  # bytes of their pixels in the cache
CAPTIONS = ("captions.tsv", "captions.txt", "captions.csv", "Flickr8k.token.txt", "Flickr8k.token.txt.gz")
LISTS = {"train": "*trainImages.txt", "valid": "*devImages.txt", "test": "*testImages.txt"}
SETS = sets_of(CaptionSet)


class Row(NamedTuple):
    """One picture with its captions, as it is read from its source."""

    split: str
    name: str
    image: np.ndarray
    captions: list[str]
    boxes: list[Any] | None = None
    named: list[Any] | None = None
    held_out: bool | None = None


class PictureSource(ABC):
    """A source of captioned pictures, read when the cache does not have them."""

    name: str
    paths: list[Path]
    mirrored = True
    whole = False  # whether every split is the whole source

    @abstractmethod
    def describe(self) -> list[Any]:
        """Whatever the pictures depend on beside the files at `paths`, as JSON."""

    @abstractmethod
    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[Row]:
        """Every picture; `hashes` are the sha256 of `paths`; what a reader should know is appended to `notes`."""


class Scenes(PictureSource):
    """Rendered scenes."""

    mirrored = False  # left would become right

    def __init__(self, count: int, seed: int, pixels: int, varied: bool, ordered: bool) -> None:
        self.name, self.paths = SHAPES, []
        if count < 12:
            raise DataError(f"expected at least 12 scenes, found count={count}")
        self.counts = {split: count * COUNTS[split] // COUNTS["train"] for split in SPLITS}
        if (size := sum(self.counts.values()) * pixels * pixels * 3) > MOST_SCENES:
            raise DataError(
                f"expected scenes of at most {write_bytes(MOST_SCENES)}, found {write_bytes(size)} of "
                f"count={count:,} and pixels={pixels}; lower one of them"
            )
        self.seed, self.pixels, self.varied, self.ordered = seed, pixels, varied, ordered

    def describe(self) -> list[Any]:
        import PIL

        # the vocabulary of scenes, and the versions that draw them
        kinds = [sorted(scenes.COLOURS.items()), scenes.SHAPES, sorted(scenes.SIZES.items()), sorted(scenes.HELD_OUT)]
        made = [scenes.SHARE, scenes.JITTER, scenes.NOISE, scenes.CLEAR, PIL.__version__, np.__version__]
        varied = ["varied", sorted(scenes.PURE.items()), scenes.GROUNDS] if self.varied else []
        return json.loads(
            json.dumps([SHAPES, self.counts, self.seed, *kinds, *made, *varied, *(["ordered"] if self.ordered else [])])
        )

    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[Row]:
        for split in SPLITS:
            for number in range(self.counts[split]):
                one = scenes.scene(split, number, self.seed, self.pixels, self.varied)  # type: ignore[arg-type]
                boxes, named = [list(thing.box) for thing in one.things], [list(words) for words in one.named]
                used = slice(1) if self.ordered else slice(None)  # the first begins with the left or upper thing
                captions = list(one.captions[used])
                yield Row(split, f"{split}-{number}", one.image, captions, boxes, named[used], one.held_out)


class KnownPictures(PictureSource):
    """A known set: for each split JPEG files packed in an array, a list of names, and a file of captions."""

    def __init__(self, name: str, pixels: int, files: dict[str, list[Path]]) -> None:
        self.name, self.pixels, self.files = name, pixels, files
        self.paths = list(dict.fromkeys(path for some in files.values() for path in some))

    def describe(self) -> list[Any]:
        return [self.name]

    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[Row]:
        skipped = Skipped()
        for split, (images, names, lines) in self.files.items():
            captions = read_captions(lines, skipped)
            listed = set(names_in(names))
            for name, content in packed(images):
                if name not in listed or not captions.get(name):
                    skipped.add("pictures without captions", name)
                    continue
                pixels, more = read_picture(content, self.pixels, name=f"{name} in {images}")
                notes += more
                yield Row(split, name, pixels, captions[name])
        notes += skipped.notes()


def packed(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files in an .npz with `jpeg` (end to end), `offsets` and `names`."""
    try:
        with np.load(path, allow_pickle=False) as found:
            content, offsets, names = found["jpeg"], found["offsets"], found["names"]
    except (OSError, KeyError, ValueError, EOFError, BadZipFile) as error:
        raise DataError(f"expected jpeg, offsets and names in {path}, found something else ({error})") from None
    good = content.dtype == np.uint8 and content.ndim == offsets.ndim == names.ndim == 1 and names.dtype.kind == "U"
    if not good or len(offsets) != len(names) + 1 or offsets[-1] != len(content) or (np.diff(offsets) < 0).any():
        raise DataError(f"expected pictures end to end, n + 1 offsets and n names in {path}, found others")
    for number, name in enumerate(names.tolist()):
        yield name, content[offsets[number] : offsets[number + 1]].tobytes()


class PictureFolder(PictureSource):
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
        skipped: Skipped,
        whole: bool,
    ) -> None:
        self.name = folder.absolute().name
        self.pixels, self.files, self.captions, self.split, self.skipped = pixels, files, captions, split, skipped
        self.about, self.whole = about, whole
        self.paths = [*lists, *files.values()]

    def describe(self) -> list[Any]:
        return self.about

    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[Row]:
        for name, path in self.files.items():
            split = self.split(name, hashes[str(path.absolute())])
            if split is None:
                self.skipped.add("pictures that are in none of the lists", name)
                continue
            try:
                pixels, more = read_picture(path, self.pixels)
            except PictureError as error:
                self.skipped.add("pictures that cannot be read", f"{name} ({str(error).partition(': ')[2]})")
                continue
            for note in more:
                self.skipped.add(note.partition(": ")[2], name)
            yield Row(split, name, pixels, self.captions[name])
        notes += self.skipped.notes()


def open_folder(folder: Path, pixels: int, share: float, whole: bool) -> PictureFolder:
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
    skipped = Skipped()
    captions = read_captions(lines, skipped)
    lists = {
        split: path for split, pattern in LISTS.items() for path in sorted(folder.glob(pattern))[:1] if path.is_file()
    }
    pictures = _pictures(folder, {lines, *lists.values()})
    files = {name: pictures[name] for name in captions if name in pictures}
    for name in captions:
        if name not in pictures:
            skipped.add("pictures that have captions, but are not there", name)
    used = set(files.values())
    for name, path in pictures.items():
        if path not in used and name == path.relative_to(folder).as_posix():
            skipped.add("files without captions", name)
    if not files:
        some = next(iter(captions), None)
        named = f"such as {some!r}, which is not in {folder}" if some else f"none that can be used in {lines}"
        raise DataError(f"expected captions that name pictures, found {named}; captions begin with a file's name")
    listed = {name: split for split, path in lists.items() for name in names_in(path)}

    def split(name: str, sha256: str) -> str | None:
        if whole:
            return "valid"
        if "train" in lists and "valid" in lists:
            return listed.get(name)
        place = int(sha256[:16], 16) / 2**64
        return "valid" if place < share else "test" if place < 2 * share else "train"

    about = ["folder", str(folder.absolute()), None if whole else share, whole]
    return PictureFolder(folder, pixels, files, captions, split, [lines, *lists.values()], about, skipped, whole)


def _pictures(folder: Path, others: set[Path]) -> dict[str, Path]:
    """Files by relative path, and by base name where that is unique."""
    paths = [path for path in walk(folder) if path not in others]
    found = {path.relative_to(folder).as_posix(): path for path in paths}
    bare: dict[str, list[Path]] = {}
    for path in paths:
        bare.setdefault(path.name, []).append(path)
    return found | {name: some[0] for name, some in bare.items() if len(some) == 1}
