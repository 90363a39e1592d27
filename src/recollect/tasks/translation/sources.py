"""Sources of sentence pairs: two aligned files, columns of a table, a known set, numbers in words."""

import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from ...data.byte_files import StrPath, path_of
from ...data.encodings import ENCODING
from ...data.errors import DataError
from ...data.files import files, lines
from ...data.known import TextSet, TranslationSet, find_set, sets_of
from ...data.limits import SENTENCE
from ...data.moses import CODE
from . import numbers
from .settings import COUNT, HIGHEST

Given = Sequence[StrPath] | StrPath

LANGUAGES = {"eng": "en", "fra": "fr", "deu": "de", "cmn": "zh"}  # other names for those of the known sets
VALID_NAMES = ("val", "valid", "dev", "validation")


class Part(Protocol):
    """A source of sentence pairs that can be read repeatedly; None for a malformed line."""

    @property
    def paths(self) -> tuple[Path, ...]: ...
    def describe(self) -> list[Any]: ...
    def check(self) -> None: ...
    def __iter__(self) -> Iterator[tuple[str, str] | None]: ...


@dataclass(frozen=True)
class TwoFiles:
    """Two files aligned by line."""

    source: Path
    target: Path
    encoding: str | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.source, self.target

    def describe(self) -> list[Any]:
        return [*(str(path.absolute()) for path in self.paths), *([self.encoding] if self.encoding else [])]

    def check(self) -> None:
        first, second = (sum(1 for _ in _lines(path, self.encoding)) for path in self.paths)
        if first != second:
            raise DataError(
                f"expected as many lines in {self.source} as in {self.target}, found {first:,} and {second:,}; "
                "line i of one must be the translation of line i of the other"
            )

    def __iter__(self) -> Iterator[tuple[str, str] | None]:
        # not strict: files that change while they are read are refused at the end, by their stamps
        return zip(*(_lines(path, self.encoding) for path in self.paths), strict=False)


@dataclass(frozen=True)
class Table:
    """Two columns of a file separated by tabs."""

    path: Path
    columns: tuple[int, int]  # counted from 1
    encoding: str | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def describe(self) -> list[Any]:
        return [str(self.path.absolute()), *self.columns, *([self.encoding] if self.encoding else [])]

    def check(self) -> None:
        if min(self.columns) < 1:
            raise DataError(f"expected columns counted from 1, found {self.columns}")
        count = 0
        for pair in self:
            if pair is not None and any(pair):
                return
            count += 1
        raise DataError(
            f"expected text in columns {self.columns[0]} and {self.columns[1]} of {self.path}, parted by tabs, found "
            f"none in {count:,} lines; give such a file, two files, or a prefix with --pair"
        )

    def __iter__(self) -> Iterator[tuple[str, str] | None]:
        first, second = self.columns
        for line in _lines(self.path, self.encoding):
            cells = line.split("\t")
            if len(cells) >= max(self.columns):
                yield cells[first - 1], cells[second - 1]
            else:
                yield None if line.strip() else ("", "")


@dataclass(frozen=True)
class Numbers:
    """Generated pairs: a number written in words in two languages."""

    languages: tuple[str, str] = ("en", "fr")
    count: int = COUNT
    highest: int = HIGHEST
    seed: int = 0
    paths: tuple[Path, ...] = ()

    def describe(self) -> list[Any]:
        return ["numbers", *self.languages, self.count, self.highest, self.seed, version("num2words")]

    def check(self) -> None:
        pass  # what is generated is well formed

    def __iter__(self) -> Iterator[tuple[str, str] | None]:
        made = numbers.pairs(self.languages, self.count, self.seed, self.highest)
        return ((pair.source, pair.target) for pair in made)


@dataclass(frozen=True)
class Chained:
    """Sentences joined, one after the other, to texts whose numbers of source words are drawn evenly up to `words`.

    The sentences are gone through `rounds` times, each time with other draws. A text ends with the sentence that
    reaches the drawn number; one that would go beyond `words` begins the next text.
    """

    part: Part
    words: int
    rounds: int = 1

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.part.paths

    def describe(self) -> list[Any]:
        return ["chained", self.words, self.rounds, self.part.describe()]

    def check(self) -> None:
        self.part.check()

    def __iter__(self) -> Iterator[tuple[str, str] | None]:
        for number in range(self.rounds):
            draw = random.Random(number)
            wanted, held, words = draw.randint(1, self.words), [], 0
            for pair in self.part:
                if pair is None or not all(side.strip() for side in pair):
                    yield pair  # counted where it is used
                    continue
                own = len(pair[0].split())
                if held and words + own > self.words:
                    yield _joined(held)
                    wanted, held, words = draw.randint(1, self.words), [], 0
                held.append(pair)
                words += own
                if words >= wanted:
                    yield _joined(held)
                    wanted, held, words = draw.randint(1, self.words), [], 0
            if held:
                yield _joined(held)


def _joined(pairs: list[tuple[str, str]]) -> tuple[str, str]:
    first, second = (" ".join(side.strip() for side in sides) for sides in zip(*pairs, strict=True))
    return first, second


def _lines(path: Path, encoding: str | None) -> Iterator[str]:
    """The lines of a file. Only \\n ends one; a \\r at its end goes."""
    return (line.rstrip("\r") for line in lines(path, SENTENCE, encoding=encoding, flag=ENCODING))


@dataclass(frozen=True)
class PairSources:
    name: str
    languages: tuple[str, str] | None
    parts: dict[str, Part]
    notes: tuple[str, ...] = ()


def find_sources(
    data: Given | None,
    pair: str | None,
    given: Mapping[str, Given | None],
    columns: tuple[int, int],
    made: Numbers,
    data_dir: StrPath | None,
    cache: StrPath | None,
    encoding: str | None,
) -> PairSources:
    """The source of each split, from what was given on the command line."""
    languages = None if pair is None else _languages(pair)
    items = _items(data)
    if data is None:
        languages = languages or made.languages
        for language in languages:
            numbers.check(language)
        made = Numbers(languages, made.count, made.highest, made.seed)
        found = PairSources(f"numbers-{'-'.join(languages)}", languages, {"train": made})
    elif len(items) == 1 and str(items[0]) in sets_of(TextSet, TranslationSet):
        found = _known(str(items[0]), languages, data_dir, cache)
    else:
        named = [split for split, some in given.items() if some is not None]
        found = _local(items, languages, columns, named, encoding)
    parts = {
        split: _part(_items(some), languages or found.languages, columns, encoding)
        for split, some in given.items()
        if some is not None
    }
    return PairSources(found.name, found.languages, {**found.parts, **parts}, found.notes)


def _items(data: Given | None) -> list[StrPath]:
    return [] if data is None else [data] if isinstance(data, str | os.PathLike) else list(data)


def _languages(pair: str) -> tuple[str, str]:
    codes = pair.split("-")
    if len(codes) != 2 or not all(CODE.fullmatch(code) for code in codes):
        raise DataError(f"expected a pair of languages such as en-de, found {pair!r}; write pt_BR for a variety")
    return codes[0], codes[1]


def _known(
    name: str, languages: tuple[str, str] | None, data_dir: StrPath | None, cache: StrPath | None
) -> PairSources:
    found = find_set(name, TranslationSet)
    every = found.languages
    chosen = tuple(LANGUAGES.get(language, language) for language in languages or every[:2])
    parts: dict[str, Part] = {}
    for split, paths in found.find_pair(chosen, data_dir, cache).items():
        if len(paths) == 2:
            parts[split] = TwoFiles(paths[0], paths[1])
        else:
            parts[split] = Table(paths[0], (every.index(chosen[0]) + 1, every.index(chosen[1]) + 1))
    return PairSources(f"{name}-{'-'.join(chosen)}", (chosen[0], chosen[1]), parts)


def _local(
    items: list[StrPath],
    languages: tuple[str, str] | None,
    columns: tuple[int, int],
    given: Sequence[str],
    encoding: str | None,
) -> PairSources:
    """Pairs in files, and the files beside them for the splits that are not `given`."""
    paths = [path_of(item) for item in items]
    if len(paths) == 1 and languages and paths[0].is_dir() and _of_prefix(paths[0] / "train", languages):
        paths = [paths[0] / "train"]
    parts: dict[str, Part] = {"train": _part(paths, languages, columns, encoding)}
    notes: list[str] = []
    name = paths[0].absolute().name.removesuffix(".gz")
    if len(paths) == 2:
        languages = languages or _ends(paths)
        name = name.partition(".")[0] or name
    elif len(parts["train"].paths) == 1:
        name = name.rpartition(".")[0] or name
    elif languages and name == "train":
        name = paths[0].absolute().parent.name or name
        for split, prefixes in _beside(paths[0], languages).items():
            if prefixes and split not in given:
                parts[split] = _part(prefixes[:1], languages, columns, encoding)
                others = ", ".join(path.name for path in prefixes[1:])
                unused = f"; not used: {others}" if others else ""
                notes.append(f"{split}: {prefixes[0].name}, found beside train{unused}")
    return PairSources(f"{name}-{'-'.join(languages)}" if languages else name, languages, parts, tuple(notes))


def _ends(paths: Sequence[Path]) -> tuple[str, str] | None:
    """The languages in the names of two files: text.en.gz, text.de.gz."""
    first, second = (path.name.removesuffix(".gz").rpartition(".")[2] for path in paths)
    alike = first == second  # text.en and text.de, not en.txt and de.txt
    return None if alike or not all(re.fullmatch("[a-z]{2}", end) for end in (first, second)) else (first, second)


def _beside(prefix: Path, languages: tuple[str, str]) -> dict[str, list[Path]]:
    """Prefixes of the other splits in the same folder, the likeliest first."""
    end = f".{languages[0]}"
    names = {path.name.removesuffix(".gz") for path in prefix.absolute().parent.iterdir()}
    tests = sorted(name.removesuffix(end) for name in names if name.startswith("test") and name.endswith(end))
    return {
        split: [path for path in map(prefix.with_name, some) if len(_of_prefix(path, languages)) == 2]
        for split, some in (("valid", VALID_NAMES), ("test", tests))
    }


def _of_prefix(prefix: Path, languages: tuple[str, str]) -> list[Path]:
    """The files PREFIX.LANGUAGE that exist, packed or not."""
    found: list[Path] = []
    for language in languages:
        both = [prefix.with_name(f"{prefix.name}.{language}{end}") for end in ("", ".gz")]
        found += [path for path in both if path.is_file()][:1]
    return found


def _part(
    items: Sequence[StrPath], languages: tuple[str, str] | None, columns: tuple[int, int], encoding: str | None
) -> Part:
    paths = [path_of(item) for item in items]
    if len(paths) == 2:
        return TwoFiles(_file(paths[0]), _file(paths[1]), encoding)
    if len(paths) != 1:
        raise DataError(f"expected a prefix, a table or two files, found {len(paths)} names; name one or two")
    path = paths[0]
    two = _of_prefix(path, languages) if languages and path.name else []
    if len(two) == 2:
        return TwoFiles(two[0], two[1], encoding)
    if not path.exists():
        folder = path.absolute().parent
        ends = sorted(p.name for p in folder.iterdir() if p.name.startswith(f"{path.name}.")) if folder.is_dir() else []
        if ends:
            wanted = " and ".join(f"{path.name}.{code}" for code in languages or ("SOURCE", "TARGET"))
            there = dict.fromkeys(end.removeprefix(f"{path.name}.").removesuffix(".gz") for end in ends)
            pair = "-".join(there) if len(there) == 2 and all(map(CODE.fullmatch, there)) else "en-de"
            raise DataError(
                f"expected {wanted} (or .gz) in {folder}, found {', '.join(ends[:8])}; name the pair, as --pair {pair}"
            )
    return Table(_file(path), columns, encoding)


def _file(path: Path) -> Path:
    if path.is_dir():
        raise DataError(f"expected a file, found the folder {path}; name a prefix in it, a table or two files")
    try:
        (found,) = files([path])
    except DataError as error:
        raise DataError(f"{error}; known sets are {', '.join(sets_of(TranslationSet))}") from None
    return found
