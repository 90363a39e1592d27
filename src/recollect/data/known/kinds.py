"""Kinds of known sets: one class for each, with the task that it is for and how its files are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from ..files import DataError, StrPath
from .download import KnownFile, find_files


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
