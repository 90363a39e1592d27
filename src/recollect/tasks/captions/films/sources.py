"""Sources of films with captions: rendered ones, or a folder; each film with its split."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....core.limits import write_bytes
from ....data.files import DataError, walk
from ..caption_files import Skipped, read_captions
from ..picture_files import PictureError
from ..scenes import FINE, JITTER, NOISE, SPLITS
from . import scenes
from .film_files import list_frames, read_film
from .settings import COUNT

MOVING = "moving"  # the name of the rendered films
COUNTS = {"train": COUNT, "valid": COUNT // 12, "test": COUNT // 6}  # films
MOST_FRAMES = 16 * 10**9  # bytes of their frames in the cache
CAPTIONS = ("captions.tsv", "captions.txt", "captions.csv")


class Row(NamedTuple):
    """One film with its captions, as it is read from its source."""

    split: str
    name: str
    frames: np.ndarray  # T P P 3, uint8
    captions: list[str]
    events: int | None = None
    held_out: bool | None = None


class FilmSource(ABC):
    """A source of captioned films, read when the cache does not have them."""

    name: str
    paths: list[Path]
    whole = False  # whether every split is the whole source

    @abstractmethod
    def describe(self) -> list[Any]:
        """Whatever the films depend on beside the files at `paths`, as JSON."""

    @abstractmethod
    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[Row]:
        """Every film; `hashes` are the sha256 of `paths`; what a reader should know is appended to `notes`."""


class Moving(FilmSource):
    """Rendered films."""

    def __init__(self, count: int, seed: int, pixels: int, events: int, varied: bool) -> None:
        self.name, self.paths = MOVING, []
        if count < 12:
            raise DataError(f"expected at least 12 films, found count={count}")
        self.counts = {split: count * COUNTS[split] // COUNTS["train"] for split in SPLITS}
        frames = scenes.frames_of(max(scenes.TESTED, events), varied) * sum(self.counts.values())
        if (size := frames * pixels * pixels * 3) > MOST_FRAMES:
            raise DataError(
                f"expected films of at most {write_bytes(MOST_FRAMES)}, found up to {write_bytes(size)} of "
                f"count={count:,} and pixels={pixels}; lower one of them"
            )
        self.seed, self.pixels, self.events, self.varied = seed, pixels, events, varied

    def describe(self) -> list[Any]:
        import PIL

        # the vocabulary of films, and the versions that draw them
        kinds = [scenes.COLOURS, scenes.SHAPES, scenes.KINDS, sorted(scenes.HELD_OUT), self.events, scenes.TESTED]
        sizes = [scenes.STEPS, scenes.RADII, scenes.WAY, scenes.APART, scenes.ABOUT, scenes.SWING, scenes.THREE]
        made = [scenes.SHARE, FINE, JITTER, NOISE, PIL.__version__, np.__version__]
        ways = [scenes.VARIED_STEPS, scenes.REST, scenes.PERIODS, scenes.SCALES, scenes.WAYS]
        varied = ["varied", ways, sorted(scenes.PURE.items()), scenes.GROUNDS] if self.varied else []
        return json.loads(json.dumps([MOVING, self.counts, self.seed, *kinds, *sizes, *made, *varied]))

    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[Row]:
        for split in SPLITS:
            for number in range(self.counts[split]):
                one = scenes.film(split, number, self.seed, self.pixels, self.events, self.varied)  # type: ignore[arg-type]
                yield Row(split, f"{split}-{number}", one.frames, [one.caption], one.events, one.held_out)


class FilmFolder(FilmSource):
    """A folder of films, each a file or a folder of frames, and a file of captions."""

    def __init__(self, folder: Path, pixels: int, frames: int, share: float, whole: bool) -> None:
        self.name = folder.absolute().name
        self.pixels, self.frames, self.share, self.whole = pixels, frames, share, whole
        if not folder.is_dir():
            found = "a file" if folder.exists() else "none"
            raise DataError(f"expected a folder of films or {MOVING}, found {found} at {folder}; name one")
        lines = next((folder / name for name in CAPTIONS if (folder / name).is_file()), None)
        if lines is None:
            raise DataError(
                f"expected captions in {folder} ({', '.join(CAPTIONS)}), found none; write a line `name TAB caption` "
                "for each film into captions.tsv"
            )
        self.skipped = Skipped()
        self.captions = read_captions(lines, self.skipped)
        every = [path for path in walk(folder) if path != lines]
        self.files: dict[str, list[Path]] = {}  # of each film: one file, or its frames
        beneath = {path.relative_to(folder).as_posix(): path for path in every}
        for name in self.captions:
            path = folder / name
            if name.rstrip("/") in beneath:
                self.files[name] = [beneath[name.rstrip("/")]]
            elif name and path.is_dir() and folder.absolute() in path.absolute().parents and ".." not in path.parts:
                if own := list_frames(path):
                    self.files[name] = own
                else:
                    self.skipped.add("folders without a picture", name)
            else:
                self.skipped.add("films that have captions, but are not there", name)
        used = {path for own in self.files.values() for path in own}
        for name, path in beneath.items():
            if path not in used:
                self.skipped.add("files without captions", name)
        if not self.files:
            some = next(iter(self.captions), None)
            named = f"such as {some!r}, which is not in {folder}" if some else f"none that can be used in {lines}"
            raise DataError(f"expected captions that name films, found {named}; captions begin with a file's name")
        self.paths = [lines, *sorted(used)]
        self.folder = folder

    def describe(self) -> list[Any]:
        return ["folder", str(self.folder.absolute()), self.frames, None if self.whole else self.share, self.whole]

    def rows(self, hashes: Mapping[str, str], notes: list[str]) -> Iterator[Row]:
        for name, paths in self.files.items():
            split = "valid" if self.whole else self.split(hashes[str(paths[0].absolute())])
            one_file = len(paths) == 1 and paths[0].relative_to(self.folder).as_posix() == name.rstrip("/")
            try:
                frames, more = read_film(paths[0] if one_file else paths, self.pixels, self.frames)
            except PictureError as error:
                self.skipped.add("films that cannot be read", f"{name} ({str(error).partition(': ')[2]})")
                continue
            for note in more:
                self.skipped.add(note.partition(": ")[2], name)
            yield Row(split, name, frames, self.captions[name])
        notes += self.skipped.notes()

    def split(self, sha256: str) -> str:
        place = int(sha256[:16], 16) / 2**64
        return "valid" if place < self.share else "test" if place < 2 * self.share else "train"
