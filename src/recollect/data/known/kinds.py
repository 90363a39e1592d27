"""Kinds of known sets: one class for each, with the task that it is for and how its files are read."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from ...core.files import read_file
from ..errors import Unreachable
from ..files import DataError, StrPath
from ..sound.listing import Recording, find_recordings, label_by_name
from .download import KnownFile, data_folders, find_files


@dataclass(frozen=True, kw_only=True)
class KnownSet:
    """A public set: its files by split (`train`, and `valid` and `test` where its authors made them)."""

    task: ClassVar[str]
    noun: ClassVar[str]  # the kind of set, for messages

    name: str
    about: str
    licence: str
    splits: dict[str, tuple[KnownFile, ...]]
    origin: str = ""  # where files without an address come from

    def find(self, data_dir: StrPath | None = None, cache: StrPath | None = None) -> dict[str, list[Path]]:
        """Paths of the files by split, verified, downloaded if they are not on this machine."""
        return find_files(self.splits, data_dir, cache, self.origin)


class TextSet(KnownSet):
    """A text for language models."""

    task, noun = "text", "a text"


@dataclass(frozen=True, kw_only=True)
class TranslationSet(KnownSet):
    """Sentence pairs: in each split a file for each language, aligned by line, or one table with a column for each."""

    task, noun = "translation", "a set for translation"

    languages: tuple[str, ...]

    def find_pair(
        self, languages: Sequence[str], data_dir: StrPath | None = None, cache: StrPath | None = None
    ) -> dict[str, list[Path]]:
        """Paths by split: the files of `languages` in this order, or the table that has all of them."""
        for language in languages:
            if language not in self.languages:
                raise DataError(
                    f"expected languages of {self.name} ({', '.join(self.languages)}), found {language!r}; "
                    f"name a pair of them, such as {'-'.join(self.languages[:2])}"
                )
        order = [self.languages.index(language) for language in languages]
        wanted = {
            split: files if len(files) == 1 else [files[i] for i in order] for split, files in self.splits.items()
        }
        return find_files(wanted, data_dir, cache, self.origin)


@dataclass(frozen=True, kw_only=True)
class SeriesSet(KnownSet):
    """A table of time series, one file: the steps of a season, and the rows of train, valid and test in the papers."""

    task, noun = "series", "a set of series"

    period: int
    rows: tuple[int, int, int] | None = None  # None: split by shares


class CaptionSet(KnownSet):
    """Images with captions: in each split an .npz of JPEG files, a list of their names, and a file of captions."""

    task, noun = "captions", "a set of pictures with captions"


@dataclass(frozen=True, kw_only=True)
class LabelSet(KnownSet):
    """Labelled examples: in each split an IDX file of images and one of labels, or a table of text and label."""

    task, noun = "labels", "a set for labels"

    form: Literal["idx", "table"]


MOST_BYTES = 1 << 26  # of one recording of a known set


@dataclass(frozen=True, kw_only=True)
class SoundSet(KnownSet):
    """Labelled recordings: a folder of so many, named by `pattern`, of which `split` says by the take where it belongs.

    `size` is the bytes of all, `sha256` that of the lines `name sha256`, sorted, over all of them. `held` says what is
    held for validation.
    """

    task, noun = "labels", "a set of recordings"

    folder: str
    count: int
    size: int
    sha256: str
    pattern: str
    split: Callable[[int], str]
    held: str
    splits: dict[str, tuple[KnownFile, ...]] = field(default_factory=lambda: {"train": ()})

    def recordings(self, data_dir: StrPath | None = None, cache: StrPath | None = None) -> list[Recording]:
        """The recordings with label, speaker and split; a folder that is not as it was published is refused."""
        folder = self.find_folder(data_dir, cache)
        skipped: list[tuple[Path, str]] = []
        found = list(label_by_name(folder, find_recordings(folder), self.pattern, skipped))
        digest = hashlib.sha256()
        for own in sorted(found):
            content = read_file(own.path, MOST_BYTES)
            digest.update(f"{own.name} {hashlib.sha256(content).hexdigest()}\n".encode())
        if len(found) != self.count or digest.hexdigest() != self.sha256:
            raise DataError(
                f"expected the {self.count:,} recordings of {self.name} in {folder} ({self.sha256[:12]}…), found "
                f"{len(found):,} ({digest.hexdigest()[:12]}…); put {self.origin} there, or name the folder with --data "
                f"and --set pattern={self.pattern}"
            )
        return [own._replace(split=self.split(int(own.take))) for own in found]

    def find_folder(self, data_dir: StrPath | None = None, cache: StrPath | None = None) -> Path:
        """The folder in the data folder, or in the cache."""
        folders = data_folders(data_dir, cache)
        for folder in folders:
            if (folder / self.folder).is_dir():
                return folder / self.folder
        raise Unreachable(
            f"expected {self.folder} in the data folder, found none, and it has no address to download (it is "
            f"{self.origin}); put it by hand at {' or '.join(str(folder / self.folder) for folder in folders)}, or "
            "name the folder that holds it with --data-dir"
        )
