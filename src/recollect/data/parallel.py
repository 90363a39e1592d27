"""Pairs of sentences in two languages, from files, a known set or numbers in words, as tokens ready to train on.

    read      lines of two files, or columns of one; each line split at \\n alone; what cannot be used is counted
    split     by source sentence, where the authors made no split: no source of one part occurs in another
    prepare   each side by its Preparation, as it will be when a trained model translates
    tokenise  one vocabulary for both sides, or one for each, from the training part alone
    keep      tokens and texts in the cache folder, memory-mapped, made anew when a source changes

Nothing of this holds more than a few thousand lines at a time.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np

from ..core.files import sync_folder, write_aside
from . import known, numbers, shards, tokenize
from .moses import CODE, Preparation
from .text import DataError, StrPath, Text, chunks, files
from .tokenize import Chars, Tokenizer, UnknownCharacter, visible

FORMAT = 1
SIDES = ("source", "target")
SPLITS = ("train", "valid", "test")
SPECIALS = ("<pad>", "<begin>", "<end>")
LONGEST = 250  # tokens of a sentence that is trained on
SHARE = 0.05  # of the source sentences, for validation, and as much for the test
LINES = 4096  # taken together at a time, if they are no more than
BLOCK = 1 << 23  # bytes
LONGEST_LINE = 1 << 20  # characters; what is longer is no sentence
JOINED_LINE = 1 << 13  # characters of a line up to which it may be encoded together with others
LANGUAGES = {"eng": "en", "fra": "fr", "deu": "de", "cmn": "zh"}  # other names for those of the known sets
VALID_NAMES = ("val", "valid", "dev", "validation")
_BYTES = re.compile(r"<0x[0-9A-F]+>")

SideName = Literal["source", "target"]
Given = Sequence[StrPath] | StrPath


# ------------------------------------------------------------------------------------------------- one language


@dataclass(frozen=True, eq=False)
class Side:
    """One language of a pair: how its sentences become numbers, and numbers sentences.

    The tokeniser's numbers stay as they are; three more follow them: `pad`, `begin` and `end`.
    """

    preparation: Preparation
    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        return self.tokenizer.size + len(SPECIALS)

    @property
    def pad(self) -> int:
        return self.tokenizer.size

    @property
    def begin(self) -> int:
        return self.tokenizer.size + 1

    @property
    def end(self) -> int:
        return self.tokenizer.size + 2

    @property
    def unknown(self) -> int | None:
        return self.tokenizer.unknown

    def prepared(self, text: str) -> str:
        """The sentence as it is tokenised; what BLEU on tokenised text compares with."""
        return self.preparation.apply(text)

    def encode(self, text: str) -> np.ndarray:
        """The numbers of a sentence, without `begin` and `end`."""
        return self.tokenizer.encode(self.prepared(text)).astype(np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence that stands before the first `end`, as a reader would write it."""
        return self.preparation.undo(self.decode_prepared(ids))

    def decode_prepared(self, ids: Iterable[int]) -> str:
        """The same, still prepared: what is compared in BLEU on tokenised text."""
        kept: list[int] = []
        for number in _integers(ids):
            if number == self.end:
                break
            if number not in (self.pad, self.begin):
                kept.append(number)
        return self.tokenizer.decode(kept)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """A readable name for each number. A character that several tokens make up stands at the last of them."""
        found: list[str] = []
        streamer = self.tokenizer.streamer()
        for number in _integers(ids):
            if self.pad <= number < self.size:
                found.append(SPECIALS[number - self.pad])
                continue
            text, name = streamer.push(number), self.tokenizer.token(number)
            found.append(visible(text) if text and _BYTES.fullmatch(name) else name)
        return found

    def to_json(self) -> dict[str, Any]:
        return {"preparation": self.preparation.to_json(), "tokenizer": self.tokenizer.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> "Side":
        if not isinstance(data, Mapping):
            raise DataError(f"expected an object for each side of a pair, found {type(data).__name__}")
        if set(data) != {"preparation", "tokenizer"}:
            some = ", ".join(map(repr, list(data)[:5]))
            raise DataError(f"expected preparation and tokenizer for each side of a pair, found {some or 'nothing'}")
        return cls(Preparation.from_json(data["preparation"]), tokenize.from_json(data["tokenizer"]))


def _integers(ids: Iterable[int]) -> list[int]:
    return ids.tolist() if isinstance(ids, np.ndarray) else [int(number) for number in ids]


def sides_to_json(source: Side, target: Side) -> dict[str, Any]:
    """Both sides of a pair; a tokeniser that they share is there once."""
    joint = source.tokenizer is target.tokenizer
    second = target.to_json() | ({"tokenizer": None} if joint else {})
    return {"format": FORMAT, "joint": joint, "source": source.to_json(), "target": second}


def sides_from_json(data: Any) -> tuple[Side, Side]:
    if not isinstance(data, Mapping):
        raise DataError(f"expected an object with both sides of a pair, found {type(data).__name__}")
    if data.get("format") != FORMAT:
        raise DataError(f"expected format {FORMAT} of a pair's sides, found {data.get('format')!r}; upgrade recollect")
    joint, second = data.get("joint"), data.get("target")
    if not isinstance(joint, bool):
        raise DataError(f"expected 'joint' as bool in a pair's sides, found {type(joint).__name__}")
    source = Side.from_json(data.get("source"))
    if not joint:
        return source, Side.from_json(second)
    if (
        not isinstance(second, Mapping)
        or set(second) != {"preparation", "tokenizer"}
        or second["tokenizer"] is not None
    ):
        raise DataError(
            "expected a preparation and no tokenizer of its own for the target of joint sides, found others"
        )
    return source, Side(Preparation.from_json(second["preparation"]), source.tokenizer)


def save_sides(path: StrPath, source: Side, target: Side) -> None:
    write_aside(path, json.dumps(sides_to_json(source, target), ensure_ascii=False).encode())


def load_sides(path: StrPath) -> tuple[Side, Side]:
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"expected the tokenizers of a pair at {path}, found {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected JSON in {path}, found something else ({error}); copy it anew") from None
    try:
        return sides_from_json(data)
    except DataError as error:
        raise DataError(f"{error} ({path})") from None


# --------------------------------------------------------------------------------------------------- many pairs


class Texts:
    """Lines of text that lie end to end as bytes."""

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self._data, self._offsets = data, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> str:
        index = range(len(self))[index]
        return self._data[self._offsets[index] : self._offsets[index + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of one split: the tokens of each side end to end, where each sentence begins, and the raw lines."""

    source: np.ndarray  # int32
    source_offsets: np.ndarray  # int64, one more than there are pairs
    target: np.ndarray
    target_offsets: np.ndarray
    source_text: np.ndarray  # UTF-8
    source_text_offsets: np.ndarray
    target_text: np.ndarray
    target_text_offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    def source_of(self, index: int) -> np.ndarray:
        index = range(len(self))[index]
        return self.source[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target_of(self, index: int) -> np.ndarray:
        index = range(len(self))[index]
        return self.target[self.target_offsets[index] : self.target_offsets[index + 1]]

    def texts(self, side: SideName) -> Texts:
        """The lines as they were before any preparation; line i belongs to pair i."""
        if side == "source":
            return Texts(self.source_text, self.source_text_offsets)
        if side == "target":
            return Texts(self.target_text, self.target_text_offsets)
        raise DataError(f"expected source or target, found {side!r}")

    @cached_property
    def source_lengths(self) -> np.ndarray:
        return np.diff(self.source_offsets)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        return np.diff(self.target_offsets)


@dataclass(frozen=True, eq=False)
class Parallel:
    """Pairs by split, and what is known of them."""

    name: str
    source_language: str
    target_language: str
    source: Side
    target: Side
    train: Pairs
    valid: Pairs
    test: Pairs | None
    fingerprint: str  # sha256 over the texts and both sides: the same wherever the files lie
    notes: list[str]  # what a reader of results should know


# ------------------------------------------------------------------------------------------------------ batches


def batches_by_tokens(pairs: Pairs, tokens: int, seed: int | None = None, epoch: int = 0) -> list[np.ndarray]:
    """Every pair once, in batches of similar length: rows times the longest row is at most `tokens`.

    A row is as long as the longer side of its pair, with its `end`. A pair longer than `tokens` is a batch of its
    own. Which of equally long pairs meet, and the order of the batches, depend on `seed` and `epoch`; without a seed
    the batches come from short to long. The number of batches is the same for every epoch and seed.
    """
    if tokens < 1:
        raise DataError(f"expected a batch of at least 1 token, found {tokens}")
    widths = np.maximum(pairs.source_lengths, pairs.target_lengths) + 1
    if seed is None:
        order, shuffled = np.argsort(widths, kind="stable"), None
    else:
        shuffled = np.random.default_rng([seed, epoch])
        order = shuffled.permutation(len(widths))
        order = order[np.argsort(widths[order], kind="stable")]
    widths = widths[order]
    batches: list[np.ndarray] = []
    start = 0
    while start < len(order):
        most = max(tokens // int(widths[start]), 1)
        window = widths[start : start + most]
        # what the first 1, 2, … rows would take grows with each row
        rows = int(np.searchsorted(window * np.arange(1, len(window) + 1), tokens, side="right"))
        stop = start + max(rows, 1)
        batches.append(order[start:stop])
        start = stop
    if shuffled is not None:
        batches = [batches[i] for i in shuffled.permutation(len(batches))]
    return batches


def batches_from(pairs: Pairs, tokens: int, seed: int, start: int = 0) -> Iterator[np.ndarray]:
    """Batches without end, epoch after epoch, from number `start` on: each a function of `seed` and its number."""
    count = len(batches_by_tokens(pairs, tokens))
    epoch, skip = divmod(start, count)
    while True:
        yield from batches_by_tokens(pairs, tokens, seed, epoch)[skip:]
        epoch, skip = epoch + 1, 0


# ------------------------------------------------------------------------------------------------------ loading


def load(
    data: Given | None = None,
    *,
    pair: str | None = None,
    valid: Given | None = None,
    test: Given | None = None,
    columns: tuple[int, int] = (1, 2),
    tokenizer: str = "bpe",
    vocab: int | None = None,
    joint: bool = False,
    lower: bool = False,
    moses: bool = False,
    longest: int = LONGEST,
    share: float = SHARE,
    count: int = numbers.COUNT,
    highest: int = numbers.HIGHEST,
    seed: int = 0,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    existing: tuple[Side, Side] | None = None,
) -> Parallel:
    """Read pairs.

    `data` is a prefix (`path/train` with `pair` en-de: path/train.en and path/train.de, packed or not) or the folder
    of a prefix `train`; a table with tabs, of which `columns` are source and target; two files; the name of a known
    set; or None for numbers in words (`count` of them up to `highest`, drawn by `seed`). `valid` and `test` are given
    in the same way. Beside a prefix `train` they are found by themselves (val, valid or dev; test…). A part that is
    not there is made of `share` of the source sentences. `pair` turned round turns the translation round.

    `tokenizer` is one of `tokenize.CHOICES`, of `vocab` tokens, for each side, or with `joint` for both together.
    Training leaves out pairs with more than `longest` tokens on a side. `existing` are the sides that a run already
    has, used as they are.
    """
    if longest < 1:
        raise DataError(f"expected sentences of at least 1 token, found longest={longest}")
    if existing is None and tokenizer not in tokenize.CHOICES:
        tokenize.train(tokenizer, [])  # refuses it, before anything is read
    if pair is None and existing is not None and existing[0].preparation.language != SIDES[0]:
        pair = f"{existing[0].preparation.language}-{existing[1].preparation.language}"
    made = _Numbers(count=count, highest=highest, seed=seed)
    found = _find(data, pair, {"valid": valid, "test": test}, columns, made, data_dir, cache)
    carved = tuple(split for split in ("valid", "test") if split not in found.parts)
    if carved and not 0 < share < 0.5:
        raise DataError(f"expected a share between 0 and 0.5 for each of {' and '.join(carved)}, found {share}")
    if existing is not None:
        preparations = (existing[0].preparation, existing[1].preparation)
    else:
        if moses and found.languages is None:
            raise DataError(
                "expected the languages of the pair, which moses goes by, found none; name them: --pair en-de"
            )
        first, second = found.languages or SIDES
        preparations = (Preparation(first, lower, moses), Preparation(second, lower, moses))
    settings = {
        "parts": {split: part.describe() for split, part in found.parts.items()},
        "preparations": [preparation.to_json() for preparation in preparations],
        "versions": {"sacremoses": version("sacremoses")} if any(p.moses for p in preparations) else {},
        "tokenizer": [tokenizer, vocab, joint] if existing is None else _sha256(sides_to_json(*existing)),
        "longest": longest,
        "share": share if carved else None,
    }
    folder = known.cache_folder(cache) / "parallel" / f"{_slug(found.name)}-{_sha256(settings)[:16]}"
    work = _Work(found.parts, carved, share, preparations, (tokenizer, vocab, joint), longest, existing)
    sources = shards.Sources([path for part in found.parts.values() for path in part.paths])
    kept = _recall(folder, sources, settings) or _make(folder, sources, settings, work)
    source, target = existing or kept.sides
    return Parallel(
        name=found.name,
        source_language=(found.languages or SIDES)[0],
        target_language=(found.languages or SIDES)[1],
        source=source,
        target=target,
        train=kept.splits["train"],
        valid=kept.splits["valid"],
        test=kept.splits.get("test"),
        fingerprint=kept.fingerprint,
        notes=[*found.notes, *kept.notes],
    )


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:40]


# --------------------------------------------------------------------------------------- where pairs come from


class _Part(Protocol):
    """Pairs of lines, read any number of times; None for a line that is no pair."""

    @property
    def paths(self) -> tuple[Path, ...]: ...
    def describe(self) -> list[Any]: ...
    def check(self) -> None: ...
    def __iter__(self) -> Iterator[tuple[str, str] | None]: ...


@dataclass(frozen=True)
class _TwoFiles:
    """Line i of one file belongs to line i of the other."""

    source: Path
    target: Path

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.source, self.target

    def describe(self) -> list[Any]:
        return [str(path.absolute()) for path in self.paths]

    def check(self) -> None:
        first, second = (sum(1 for _ in _lines(path)) for path in self.paths)
        if first != second:
            raise DataError(
                f"expected as many lines in {self.source} as in {self.target}, found {first:,} and {second:,}; "
                "line i of one must be the translation of line i of the other"
            )

    def __iter__(self) -> Iterator[tuple[str, str] | None]:
        # not strict: files that change while they are read are refused at the end, by their stamps
        return zip(_lines(self.source), _lines(self.target), strict=False)


@dataclass(frozen=True)
class _Table:
    """Columns of one file, parted by tabs."""

    path: Path
    columns: tuple[int, int]  # counted from 1

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def describe(self) -> list[Any]:
        return [str(self.path.absolute()), *self.columns]

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
        for line in _lines(self.path):
            cells = line.split("\t")
            if len(cells) >= max(self.columns):
                yield cells[first - 1], cells[second - 1]
            else:
                yield None if line.strip() else ("", "")


@dataclass(frozen=True)
class _Numbers:
    """Numbers in words."""

    languages: tuple[str, str] = ("en", "fr")
    count: int = numbers.COUNT
    highest: int = numbers.HIGHEST
    seed: int = 0
    paths: tuple[Path, ...] = ()

    def describe(self) -> list[Any]:
        return ["numbers", *self.languages, self.count, self.highest, self.seed, version("num2words")]

    def check(self) -> None:
        pass  # what is generated is well formed

    def __iter__(self) -> Iterator[tuple[str, str] | None]:
        made = numbers.pairs(self.languages, self.count, self.seed, self.highest)
        return ((pair.source, pair.target) for pair in made)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file. Only \\n ends one; a \\r at its end goes."""
    number, rest = 1, ""
    for chunk in chunks(path):
        *whole, rest = (rest + chunk).split("\n")
        for line in whole:
            yield _short(line, number, path).rstrip("\r")
            number += 1
        _short(rest, number, path)
    if rest:
        yield rest.rstrip("\r")


def _short(line: str, number: int, path: Path) -> str:
    if len(line) > LONGEST_LINE:
        raise DataError(
            f"expected sentences, found a line of more than {LONGEST_LINE:,} characters, line {number:,} of {path}; "
            "end each sentence with a newline"
        )
    return line


@dataclass(frozen=True)
class _Found:
    name: str
    languages: tuple[str, str] | None
    parts: dict[str, _Part]
    notes: tuple[str, ...] = ()


def _find(
    data: Given | None,
    pair: str | None,
    given: Mapping[str, Given | None],
    columns: tuple[int, int],
    made: _Numbers,
    data_dir: StrPath | None,
    cache: StrPath | None,
) -> _Found:
    """Which files, columns or numbers each part is made of."""
    languages = None if pair is None else _languages(pair)
    items = _items(data)
    if data is None:
        languages = languages or made.languages
        for language in languages:
            numbers.check(language)
        made = _Numbers(languages, made.count, made.highest, made.seed)
        found = _Found(f"numbers-{'-'.join(languages)}", languages, {"train": made})
    elif len(items) == 1 and str(items[0]) in known.KNOWN:
        found = _known(str(items[0]), languages, data_dir, cache)
    else:
        found = _local(items, languages, columns, [split for split, some in given.items() if some is not None])
    parts = {
        split: _part(_items(some), languages or found.languages, columns)
        for split, some in given.items()
        if some is not None
    }
    return _Found(found.name, found.languages, {**found.parts, **parts}, found.notes)


def _items(data: Given | None) -> list[StrPath]:
    return [] if data is None else [data] if isinstance(data, str | os.PathLike) else list(data)


def _languages(pair: str) -> tuple[str, str]:
    codes = pair.split("-")
    if len(codes) != 2 or not all(CODE.fullmatch(code) for code in codes):
        raise DataError(f"expected a pair of languages such as en-de, found {pair!r}; write pt_BR for a variety")
    return codes[0], codes[1]


def _known(name: str, languages: tuple[str, str] | None, data_dir: StrPath | None, cache: StrPath | None) -> _Found:
    every = known.KNOWN[name].languages
    chosen = tuple(LANGUAGES.get(language, language) for language in languages or every[:2])
    parts: dict[str, _Part] = {}
    for split, paths in known.find(name, data_dir, cache, chosen).items():
        if len(paths) == 2:
            parts[split] = _TwoFiles(paths[0], paths[1])
        else:
            parts[split] = _Table(paths[0], (every.index(chosen[0]) + 1, every.index(chosen[1]) + 1))
    return _Found(f"{name}-{'-'.join(chosen)}", (chosen[0], chosen[1]), parts)


def _local(
    items: list[StrPath], languages: tuple[str, str] | None, columns: tuple[int, int], given: Sequence[str]
) -> _Found:
    """Pairs in the user's own files, and what lies beside them for the splits that are not `given`."""
    paths = [Path(item).expanduser() for item in items]
    if len(paths) == 1 and languages and paths[0].is_dir() and _of_prefix(paths[0] / "train", languages):
        paths = [paths[0] / "train"]
    parts: dict[str, _Part] = {"train": _part(paths, languages, columns)}
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
                parts[split] = _part(prefixes[:1], languages, columns)
                others = ", ".join(path.name for path in prefixes[1:])
                unused = f"; not used: {others}" if others else ""
                notes.append(f"{split}: {prefixes[0].name}, found beside train{unused}")
    return _Found(f"{name}-{'-'.join(languages)}" if languages else name, languages, parts, tuple(notes))


def _ends(paths: Sequence[Path]) -> tuple[str, str] | None:
    """The languages that two files are named after: text.en.gz, text.de.gz."""
    first, second = (path.name.removesuffix(".gz").rpartition(".")[2] for path in paths)
    alike = first == second  # text.en and text.de, not en.txt and de.txt
    return None if alike or not all(re.fullmatch("[a-z]{2}", end) for end in (first, second)) else (first, second)


def _beside(prefix: Path, languages: tuple[str, str]) -> dict[str, list[Path]]:
    """Prefixes in the same folder that are those of the other splits, the likeliest first."""
    end = f".{languages[0]}"
    names = {path.name.removesuffix(".gz") for path in prefix.absolute().parent.iterdir()}
    tests = sorted(name.removesuffix(end) for name in names if name.startswith("test") and name.endswith(end))
    return {
        split: [path for path in map(prefix.with_name, some) if len(_of_prefix(path, languages)) == 2]
        for split, some in (("valid", VALID_NAMES), ("test", tests))
    }


def _of_prefix(prefix: Path, languages: tuple[str, str]) -> list[Path]:
    """The files of a prefix, one for each of the languages that it has."""
    found: list[Path] = []
    for language in languages:
        both = [prefix.with_name(f"{prefix.name}.{language}{end}") for end in ("", ".gz")]
        found += [path for path in both if path.is_file()][:1]
    return found


def _part(items: Sequence[StrPath], languages: tuple[str, str] | None, columns: tuple[int, int]) -> _Part:
    paths = [Path(item).expanduser() for item in items]
    if len(paths) == 2:
        return _TwoFiles(_file(paths[0]), _file(paths[1]))
    if len(paths) != 1:
        raise DataError(f"expected a prefix, a table or two files, found {len(paths)} names; name one or two")
    path = paths[0]
    two = _of_prefix(path, languages) if languages and path.name else []
    if len(two) == 2:
        return _TwoFiles(two[0], two[1])
    if not path.exists():
        folder = path.absolute().parent
        ends = sorted(p.name for p in folder.iterdir() if p.name.startswith(f"{path.name}.")) if folder.is_dir() else []
        if ends:
            wanted = " and ".join(f"{path.name}.{code}" for code in languages or ("SOURCE", "TARGET"))
            raise DataError(
                f"expected {wanted} (or .gz) in {folder}, found {', '.join(ends[:8])}; name the pair, as --pair en-de"
            )
    return _Table(_file(path), columns)


def _file(path: Path) -> Path:
    if path.is_dir():
        raise DataError(f"expected a file, found the folder {path}; name a prefix in it, a table or two files")
    try:
        (found,) = files([path])
    except DataError as error:
        raise DataError(f"{error}; known sets are {', '.join(known.names(translation=True))}") from None
    return found


# ------------------------------------------------------------------------------------------- from lines to tokens


@dataclass(frozen=True)
class _Work:
    """What has to be known to make tokens."""

    parts: dict[str, _Part]
    carved: tuple[str, ...]  # the splits that are taken out of the training part
    share: float
    preparations: tuple[Preparation, Preparation]
    tokenizer: tuple[str, int | None, bool]  # kind, vocabulary, joint
    longest: int
    existing: tuple[Side, Side] | None


@dataclass
class _Count:
    """What became of the lines of a split."""

    empty: int = 0
    torn: int = 0  # without the tabs that they should have
    long: int = 0
    pairs: int = 0
    shared: int = 0  # pairs whose source occurs in training too
    unknown: list[int] = field(default_factory=lambda: [0, 0])  # by side
    tokens: list[int] = field(default_factory=lambda: [0, 0])


@dataclass(frozen=True)
class _Kept:
    sides: tuple[Side, Side]
    splits: dict[str, Pairs]
    fingerprint: str
    notes: list[str]


class _Scratch:
    """The lines of one split on their way to tokens, as they are and as prepared, in files that go afterwards."""

    def __init__(self, folder: Path, split: str) -> None:
        self.raw = [folder / f"{split}.{side}.raw" for side in SIDES]
        self.prepared = [folder / f"{split}.{side}.prepared" for side in SIDES]
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> "_Scratch":
        self._files = [path.open("wb") for path in (*self.raw, *self.prepared)]
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def write(self, raw: tuple[str, str], prepared: tuple[str, str]) -> None:
        for file, line in zip(self._files, (*raw, *prepared), strict=True):
            file.write(line.encode() + b"\n")

    def batches(self) -> Iterator[list[tuple[bytes, ...]]]:
        """The raw lines of source and target with the prepared ones, some at a time."""
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(path.open("rb")) for path in (*self.raw, *self.prepared)]
            batch: list[tuple[bytes, ...]] = []
            size = 0
            for row in zip(*opened, strict=True):  # a file of bytes ends its lines at \n alone
                batch.append(tuple(line[:-1] for line in row))
                size += sum(map(len, row))
                if len(batch) == LINES or size > BLOCK:
                    yield batch
                    batch, size = [], 0
            if batch:
                yield batch


def _make(folder: Path, sources: shards.Sources, settings: dict[str, Any], work: _Work) -> _Kept:
    """Read, split, prepare, tokenise, and keep."""
    for part in work.parts.values():
        part.check()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        with tempfile.TemporaryDirectory(prefix=".scratch.", dir=folder) as scratch:
            place = Path(scratch)
            counts = {split: _Count() for split in SPLITS}
            lines = {split: _Scratch(place, split) for split in SPLITS}
            _read(work, lines, counts)
            if not counts["train"].pairs:
                raise _too_few(work, "train", counts)
            sides = work.existing or _train(work, lines["train"])
            keys = _Keys()
            splits: dict[str, dict[str, Any]] = {}
            for split in reversed(SPLITS):  # training last: by then it is known which sources to look for in it
                if counts[split].pairs:
                    splits[split] = _encode(place, split, lines[split], sides, work, counts[split], keys)
            for split in SPLITS:
                if not counts[split].pairs:
                    if split != "test" or "test" in work.parts:
                        raise _too_few(work, split, counts)
                    splits.pop(split, None)
            for split in ("valid", "test"):
                counts[split].shared = keys.shared(split)
            origin = sources.record()
            sources.settle()  # after the hashes, so that they are those of what was read
            _settle(folder, place, splits)
    except OSError as error:
        raise DataError(
            f"expected to write token files to {folder}, found: {error.strerror or error}; make room there, "
            "or name another place with RECOLLECT_CACHE"
        ) from None
    shards.write_record(
        folder / "parallel.json",
        {
            "format": shards.FORMAT,
            "settings": settings,
            "sources": origin,
            "sides": sides_to_json(*sides),
            "splits": {split: splits[split] for split in SPLITS if split in splits},
            "notes": _notes(work, counts),
            "fingerprint": _fingerprint(sides_to_json(*sides), splits),
        },
    )
    _forget(folder, splits)
    kept = _recall(folder, sources, settings)
    if kept is None:
        raise DataError(f"expected the pairs just written in {folder}, found others; run one at a time")
    return kept


def _read(work: _Work, lines: dict[str, _Scratch], counts: dict[str, _Count]) -> None:
    """Put every usable pair of lines among those of its split."""
    first, second = work.preparations
    with contextlib.ExitStack() as stack:
        for scratch in lines.values():
            stack.enter_context(scratch)
        for own, part in work.parts.items():
            for pair in part:
                if pair is None:
                    counts[own].torn += 1
                    continue
                prepared = first.apply(pair[0]), second.apply(pair[1])
                if not all(prepared):
                    counts[own].empty += 1
                    continue
                split = _split(_key(pair[0]), work) if own == "train" and work.carved else own
                lines[split].write(pair, prepared)
                counts[split].pairs += 1


def _key(source: str) -> int:
    """64 bits of a source sentence, the same however it is spaced and whichever of its letters are large."""
    return int.from_bytes(hashlib.sha256(" ".join(source.casefold().split()).encode()).digest()[:8])


def _split(key: int, work: _Work) -> str:
    """The lowest keys are for validation, the next for the test, wherever that part is not there already."""
    if "valid" in work.carved and key < work.share * 2**64:
        return "valid"
    if "test" in work.carved and work.share * 2**64 <= key < 2 * work.share * 2**64:
        return "test"
    return "train"


class _Lines:
    """Prepared lines, as texts to take a vocabulary from."""

    def __init__(self, paths: Sequence[Path], newlines: bool) -> None:
        self._text, self._newlines = Text(tuple(paths)), newlines

    def __iter__(self) -> Iterator[str]:
        return iter(self._text) if self._newlines else (chunk.replace("\n", "") for chunk in self._text)


def _train(work: _Work, lines: _Scratch) -> tuple[Side, Side]:
    """Both sides, their vocabularies taken from the training part."""
    kind, vocab, joint = work.tokenizer

    def made(paths: Sequence[Path]) -> Tokenizer:
        # a newline parts words, but among characters it would be one of them, and no sentence has it
        found = tokenize.train(kind, _Lines(paths, newlines=not kind.startswith("chars")), vocab)
        # whoever translates gives sentences that nobody has seen
        if isinstance(found, Chars) and found.unknown is None and found.fallback is None:
            return found.with_unknown()
        return found

    first, second = work.preparations
    if joint:
        both = made(lines.prepared)
        return Side(first, both), Side(second, both)
    return Side(first, made(lines.prepared[:1])), Side(second, made(lines.prepared[1:]))


class _Keys:
    """Which source sentences of validation and test occur in training too."""

    def __init__(self) -> None:
        self._of: dict[str, list[int]] = {}
        self._looked: dict[int, bool] = {}  # whether a source of another part was met in training

    def note(self, split: str, sources: Iterable[bytes]) -> None:
        keys = [_key(source.decode()) for source in sources]
        if split == "train":
            for key in keys:
                if key in self._looked:
                    self._looked[key] = True
            return
        self._of.setdefault(split, []).extend(keys)
        self._looked.update(dict.fromkeys(keys, False))

    def shared(self, split: str) -> int:
        return sum(self._looked[key] for key in self._of.get(split, []))


def _encode(
    place: Path, split: str, lines: _Scratch, sides: tuple[Side, Side], work: _Work, count: _Count, keys: _Keys
) -> dict[str, Any]:
    """Write the tokens and the texts of a split; a training pair that is too long is left out."""
    with contextlib.ExitStack() as stack:
        arrays = {
            name: stack.enter_context(_Array(place, f"{split}-{name.replace('_', '-')}", dtype))
            for name, dtype in _ARRAYS.items()
        }
        for name in arrays:
            if name.endswith("_offsets"):
                arrays[name].append(np.zeros(1))
        count.pairs = 0
        for batch in lines.batches():
            raw_source, raw_target, *prepared = (list(some) for some in zip(*batch, strict=True))
            found = [_encode_lines(side, some, split) for side, some in zip(sides, prepared, strict=True)]
            both = np.stack([lengths for _, lengths in found])
            fits = both.max(axis=0) <= work.longest
            count.long += int(np.count_nonzero(~fits))
            good = both.min(axis=0) > 0
            count.empty += int(np.count_nonzero(~good))
            if split == "train":
                good &= fits
            count.pairs += int(np.count_nonzero(good))
            for index, (side, (ids, lengths)) in enumerate(zip(sides, found, strict=True)):
                ids = ids[np.repeat(good, lengths)]
                arrays[SIDES[index]].append(ids)
                arrays[f"{SIDES[index]}_offsets"].append_ends(lengths[good])
                count.tokens[index] += len(ids)
                if side.unknown is not None:
                    count.unknown[index] += int(np.count_nonzero(ids == side.unknown))
            for name, raw in zip(SIDES, (raw_source, raw_target), strict=True):
                kept = [line for line, stays in zip(raw, good.tolist(), strict=True) if stays]
                arrays[f"{name}_text"].append(np.frombuffer(b"".join(kept), np.uint8))
                arrays[f"{name}_text_offsets"].append_ends(np.array([len(line) for line in kept], np.int64))
                if name == "source" and len(work.carved) < 2:
                    keys.note(split, kept)
    return {name: array.record() for name, array in arrays.items()}


def _encode_lines(side: Side, lines: list[bytes], split: str) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of many prepared lines end to end, and how many each has."""
    tokenizer, texts = side.tokenizer, [line.decode() for line in lines]
    together = _encode_together(tokenizer, texts)
    if together is not None:
        return together
    found: list[np.ndarray] = []
    for text in texts:
        try:
            found.append(tokenizer.encode(text))
        except UnknownCharacter as error:
            where = f"character {error.index + 1:,} of {visible(text[:60])!r} in the {split} part"
            raise UnknownCharacter(error.character, error.index, error.size, where) from None
    return np.concatenate(found).astype(np.int32), np.array([len(ids) for ids in found], np.int64)


def _encode_together(tokenizer: Tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray] | None:
    """The same, many times faster, for tokenisers that never join a newline to what stands around it.

    None where that does not hold: a newline has no number of its own, a line is so long that it might be cut
    elsewhere, or a line holds what reads as a newline.
    """
    if tokenizer.kind.startswith("chars") or max(map(len, texts)) > JOINED_LINE:
        return None
    newline = tokenizer.encode("\n")
    ids = np.concatenate(list(tokenizer.encode_stream([*(f"{text}\n" for text in texts)])))
    ends = np.flatnonzero(ids == newline[0])
    if len(newline) != 1 or len(ends) != len(texts) or ends[-1] != len(ids) - 1:
        return None
    lengths = np.diff(ends, prepend=-1) - 1
    return np.delete(ids, ends).astype(np.int32), lengths


def _too_few(work: _Work, split: str, counts: dict[str, _Count]) -> DataError:
    paths = " and ".join(str(path) for path in work.parts.get(split, work.parts["train"]).paths) or "the numbers"
    total = sum(counts[part].pairs for part in ("train", *work.carved))
    if total and (split in work.carved or split == "train"):
        return DataError(
            f"expected source sentences enough to take {100 * work.share:g} % for {' and '.join(work.carved)} each, "
            f"found {total:,} pairs in {paths}, and none for {split}; give more, another share, or files for each part"
        )
    return DataError(
        f"expected pairs for the {split} part, found none that can be used in {paths} (both sides filled, at most "
        f"{work.longest:,} tokens each); look at the files, or allow longer ones"
    )


def _notes(work: _Work, counts: dict[str, _Count]) -> list[str]:
    notes: list[str] = []
    if work.carved:
        notes.append(
            f"{' and '.join(work.carved)}: {100 * work.share:g} % of the source sentences"
            + (" each" * (len(work.carved) > 1))
            + ", chosen by their hash; no source sentence is in two parts"
        )
    for split, count in counts.items():
        left_out = {
            "with an empty side": count.empty,
            "without the tab between source and target": count.torn,
            f"longer than {work.longest:,} tokens": count.long if split == "train" else 0,
        }
        some = ", ".join(f"{number:,} {what}" for what, number in left_out.items() if number)
        if some:
            notes.append(f"{split}: {count.pairs:,} pairs; left out: {some}")
        if count.long and split != "train":
            notes.append(f"{split}: {count.long:,} pairs are longer than {work.longest:,} tokens and are kept")
        if count.shared:
            notes.append(f"{split}: {count.shared:,} of {count.pairs:,} source sentences occur in train too")
        shares = [
            f"{100 * unknown / tokens:.3g} % of the {side}"
            for side, unknown, tokens in zip(SIDES, count.unknown, count.tokens, strict=True)
            if unknown
        ]
        if shares:
            notes.append(f"{split}: tokens that are <unk>: {', '.join(shares)}")
    if "test" in work.carved and not counts["test"].pairs:
        notes.append("test: no source sentence fell into it; there is no test part")
    return notes


# ------------------------------------------------------------------------------------------------------ the cache

_TOKENS, _BYTE, _PLACE = np.dtype("<i4"), np.dtype("u1"), np.dtype("<i8")
_ARRAYS = {
    "source": _TOKENS,
    "source_offsets": _PLACE,
    "target": _TOKENS,
    "target_offsets": _PLACE,
    "source_text": _BYTE,
    "source_text_offsets": _PLACE,
    "target_text": _BYTE,
    "target_text_offsets": _PLACE,
}


class _Array:
    """An array written piece by piece, and hashed meanwhile."""

    def __init__(self, place: Path, name: str, dtype: np.dtype[Any]) -> None:
        self.path, self.name, self.dtype = place / name, name, dtype
        self.count = 0
        self._last = 0
        self._digest = hashlib.sha256()

    def __enter__(self) -> "_Array":
        self._file = self.path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def append(self, values: np.ndarray) -> None:
        data = np.ascontiguousarray(values, self.dtype).tobytes()
        self._digest.update(data)
        self._file.write(data)
        self.count += len(values)

    def append_ends(self, lengths: np.ndarray) -> None:
        """Where rows of these lengths end that follow those before."""
        if len(lengths):
            ends = self._last + np.cumsum(lengths)
            self._last = int(ends[-1])
            self.append(ends)

    def record(self) -> dict[str, Any]:
        sha256 = self._digest.hexdigest()
        return {
            "file": f"{self.name}-{sha256[:16]}.bin",
            "count": self.count,
            "sha256": sha256,
            "edges": _edges(self.path),
        }


def _settle(folder: Path, place: Path, splits: dict[str, dict[str, Any]]) -> None:
    """Rename what was written into place; only the record that is written last makes it count."""
    for split, arrays in splits.items():
        for name, array in arrays.items():
            os.replace(place / f"{split}-{name.replace('_', '-')}", folder / array["file"])
    sync_folder(folder)


def _recall(folder: Path, sources: shards.Sources, settings: dict[str, Any]) -> _Kept | None:
    """The pairs kept in the cache, if they are whole and the sources are what they were."""
    record = shards.read_record(folder / "parallel.json")
    if record is None or record.get("settings") != settings:
        return None
    same, hashed = sources.match(record.get("sources"))
    if not same:
        return None
    try:
        kept = _Kept(
            sides_from_json(record["sides"]),
            {split: _open(folder, arrays) for split, arrays in record["splits"].items()},
            str(record["fingerprint"]),
            [str(note) for note in record["notes"]],
        )
        right = _fingerprint(record["sides"], record["splits"])
    except (OSError, KeyError, TypeError, AttributeError, ValueError):
        return None
    if kept.fingerprint != right or not {"train", "valid"} <= kept.splits.keys() <= set(SPLITS):
        return None
    if hashed:  # so that the next time the stamps suffice
        shards.write_record(folder / "parallel.json", record | {"sources": sources.record()})
    return kept


def _open(folder: Path, arrays: Mapping[str, Mapping[str, Any]]) -> Pairs:
    """The arrays of a split, mapped; ValueError if they are not what the record says, or do not fit together."""
    found: dict[str, np.ndarray] = {}
    for name, dtype in _ARRAYS.items():
        path, count = folder / arrays[name]["file"], arrays[name]["count"]
        if path.parent != folder or path.stat().st_size != count * dtype.itemsize:
            raise ValueError(name)
        if _edges(path) != arrays[name]["edges"]:
            raise ValueError(name)
        found[name] = np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))  # still mapped, faster to slice
    rows = {len(found[name]) for name in found if name.endswith("_offsets")}
    fit = all(found[f"{name}_offsets"][-1] == len(found[name]) for name in found if not name.endswith("_offsets"))
    if len(rows) != 1 or not fit:
        raise ValueError("offsets")
    return Pairs(**found)


def _fingerprint(sides: Any, splits: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    texts = {split: [arrays[name]["sha256"] for name in _ARRAYS if "_text" in name] for split, arrays in splits.items()}
    return _sha256({"texts": texts, "sides": sides})


def _edges(path: Path) -> str:
    """A hash of a file's first and last megabyte: enough to know a foreign file, cheap for any size."""
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(shards.EDGE))
        file.seek(max(path.stat().st_size - shards.EDGE, 0))
        digest.update(file.read(shards.EDGE))
    return digest.hexdigest()


def _sweep(folder: Path) -> None:
    """Remove what crashes left."""
    for scratch in folder.glob(".scratch.*"):
        with contextlib.suppress(OSError):
            if time.time() - scratch.stat().st_mtime > shards.STALE:
                shutil.rmtree(scratch, ignore_errors=True)


def _forget(folder: Path, splits: dict[str, dict[str, Any]]) -> None:
    """Remove the arrays of sources that have changed since."""
    current = {array["file"] for arrays in splits.values() for array in arrays.values()}
    for path in folder.glob("*.bin"):
        if path.name not in current:
            with contextlib.suppress(OSError):  # another process has it mapped (Windows), or took it away
                path.unlink(missing_ok=True)
