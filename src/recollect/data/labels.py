"""Labelled sequences: texts with a label in a table, or images as IDX files, as arrays ready to train on.

A table is UTF-8, plain or gzip: one text a line, a tab, its label, in either order, with or without a header. Rows of
a text become one array of tokens end to end, so that millions of lines cost a few bytes a token. An image is a
sequence of its pixels, or of its rows, of numbers from 0 to 255.
"""

import gzip
import hashlib
import json
import os
import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from . import known, tokenize
from .known import KnownFile, KnownSet
from .text import DataError, StrPath, chunks, files
from .tokenize import Chars, Tokenizer

StepName = Literal["pixel", "row"]

SAMPLE = 1_000  # lines that decide which column holds the labels
HELD = 12  # one image in so many, the last ones of the training part, is for validation: 5,000 of MNIST's 60,000
NAMES = {
    "label": {"label", "labels", "class", "category", "target", "sentiment", "gold_label", "y"},
    "text": {"text", "sentence", "review", "document", "comment", "phrase", "title", "tweet", "x"},
}

MNIST = {
    "train-images-idx3-ubyte": (
        "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        47_040_016,
    ),
    "train-labels-idx1-ubyte": (
        "1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        60_008,
    ),
    "t10k-images-idx3-ubyte": (
        "1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        7_840_016,
    ),
    "t10k-labels-idx1-ubyte": (
        "b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        10_008,
    ),
}


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_SST2 = "https://raw.githubusercontent.com/clairett/pytorch-sentiment-classification/master/data/SST2/"


def _file(path: str, address: str, sha256: str, text_sha256: str, size: int) -> KnownFile:
    return KnownFile(path=path, address=address, sha256=sha256, text_sha256=text_sha256, size=size)


def _idx(name: str) -> KnownFile:
    return _file(f"mnist/{name}.gz", f"{_MNIST}{name}.gz", *MNIST[name])


SETS: dict[str, KnownSet] = {
    "mnist": KnownSet(
        name="mnist",
        about="70,000 handwritten digits of 28 × 28 pixels, ten labels; 60,000 / 10,000",
        licence="not stated",
        splits={
            "train": tuple(_idx(name) for name in list(MNIST)[:2]),
            "test": tuple(_idx(name) for name in list(MNIST)[2:]),
        },
    ),
    "sst2": KnownSet(
        name="sst2",
        about="sentences of film reviews, good (1) or bad (0), as lower-case words; 6,920 / 872",
        licence="not stated",
        splits={
            "train": (
                _file(
                    "sst2/train.tsv.gz",
                    _SST2 + "train.tsv",
                    "a8bb76d586d14567aa086e896db7e9d0425a8bd39de6648e21cca95ee21ffca1",
                    "ec192f833a64da08f475488a77b0d0b47db47acd0f458bd18433fc793b569920",
                    720_259,
                ),
            ),
            # its dev part is all that is public beside train: held as the test part, so that it is used once
            "test": (
                _file(
                    "sst2/dev.tsv.gz",
                    _SST2 + "dev.tsv",
                    "576a7aae83b8e7f3790f381d41c9ab38d9cd3fe5e1ad2afd0d313f20f14bf2e6",
                    "eddea6b39e601dd4e7a672b53cc40fdf6019fa80522f351206c24340ca5d9359",
                    92_057,
                ),
            ),
        },
    ),
}


class Part(NamedTuple):
    """The rows of one split."""

    values: np.ndarray  # the tokens of all rows, end to end; of images N T D, from 0 to 255
    lengths: np.ndarray  # N
    labels: np.ndarray  # N, numbers of classes


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a run must keep of its data: how rows are read, and what the answers are called."""

    classes: tuple[str, ...]
    tokenizer: Tokenizer | None = None
    longest: int = 1_000  # tokens of a text that are read
    shape: tuple[int, int] | None = None  # of an image: rows, columns
    step: StepName = "pixel"
    permute: int | None = None

    @property
    def inputs(self) -> int:
        """What a model's input must be ready for: the vocabulary, or the numbers of a step."""
        if self.tokenizer is not None:
            return self.tokenizer.size
        assert self.shape is not None
        return self.shape[1] if self.step == "row" else 1

    def encode(self, text: str) -> np.ndarray:
        """The tokens of a text, as far as a run reads it."""
        assert self.tokenizer is not None
        # no token is longer than a word may be, so a text that never ends is not looked at to its end
        return self.tokenizer.encode(text[: self.longest * (tokenize.LONGEST_WORD + 1)])[: self.longest]

    def lay_out(self, images: np.ndarray) -> np.ndarray:
        """Images (N, rows, columns) as sequences: N T D."""
        flat = images.reshape(len(images), -1)
        if self.permute is not None:
            flat = flat[:, np.random.default_rng(self.permute).permutation(flat.shape[1])]
        return flat.reshape(len(images), -1, self.inputs).copy()  # of its own: what was read from a file is not

    def to_json(self) -> dict[str, Any]:
        return {
            "classes": list(self.classes),
            "longest": self.longest,
            "shape": None if self.shape is None else list(self.shape),
            "step": self.step,
            "permute": self.permute,
        }

    @classmethod
    def from_json(cls, data: Any, tokenizer: Tokenizer | None) -> "Kept":
        """What `to_json` said; anything else is a ValueError, TypeError or KeyError."""
        classes, shape = [str(name) for name in data["classes"]], data["shape"]
        if len(classes) < 2 or (shape is None) == (tokenizer is None) or data["step"] not in ("pixel", "row"):
            raise ValueError("these are not the labels of a run")
        return cls(
            classes=tuple(classes),
            tokenizer=tokenizer,
            longest=int(data["longest"]),
            shape=None if shape is None else (int(shape[0]), int(shape[1])),
            step=data["step"],
            permute=None if data["permute"] is None else int(data["permute"]),
        )


@dataclass(frozen=True)
class Labelled:
    """Rows by split, and what is known of them."""

    name: str
    kept: Kept
    train: Part
    valid: Part
    test: Part | None
    fingerprint: str
    notes: list[str]


def load(
    data: Sequence[StrPath] | StrPath,
    *,
    valid: Sequence[StrPath] = (),
    test: Sequence[StrPath] = (),
    tokenizer: str = "words",
    vocab: int | None = None,
    share: float = 0.1,
    longest: int = 1_000,
    label_column: str | None = None,
    text_column: str | None = None,
    header: bool | None = None,
    step: StepName = "pixel",
    permute: int | None = None,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    kept: Kept | None = None,
) -> Labelled:
    """Read labelled rows.

    `data` is one or more tables, a folder of IDX files named as MNIST's are, or the name of a known set. Without
    validation files about `share` of the texts is the validation part: those whose hash is low, so that a text that
    comes twice is on one side. Columns are named as the header does, or numbered from 1; without a word about them
    the one with fewer different values holds the labels. `kept` is what a run has kept, used as it is.
    """
    data = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not data:
        raise DataError(f"expected labelled data, found none; name a .tsv file with --data, or {' or '.join(SETS)}")
    if (images := find_images(data, data_dir, cache)) is not None:
        if valid or test:
            raise DataError("expected images without files of their own for validation, found some; leave them out")
        return _images(Path(data[0]).name, images, step, permute, kept)
    if kept is not None and kept.tokenizer is None:
        raise DataError(f"expected images, as the run was trained on, found {data[0]}; name a folder of IDX files")
    name, paths = _tables(data, valid, test, data_dir, cache)
    table = _Table(paths["train"], label_column, text_column, header, kept)
    if "valid" not in paths and not 0 < share < 1:
        raise DataError(f"expected a validation share between 0 and 1, found {share}; or name validation files")
    return _texts(name, paths, table, tokenizer, vocab, share, longest, kept)


# -------------------------------------------------------------------------------------------- where data comes from


def find_images(
    data: Sequence[StrPath], data_dir: StrPath | None = None, cache: StrPath | None = None
) -> dict[str, list[Path]] | None:
    """The IDX files by split, images and labels each, if that is what `data` names."""
    if len(data) != 1:
        return None
    if str(data[0]) == "mnist":
        return known.find_files(SETS["mnist"].splits, data_dir, cache)
    folder, names = Path(data[0]).expanduser(), list(MNIST)
    if not any((folder / f"{names[0]}{end}").is_file() for end in ("", ".gz")):
        return None
    found = []
    for name in names:
        places = [folder / f"{name}{end}" for end in ("", ".gz")]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise DataError(f"expected {name} or {name}.gz in {folder}, found neither; put it there")
        found.append(path)
    return {"train": found[:2], "test": found[2:]}


def _tables(
    data: Sequence[StrPath],
    valid: Sequence[StrPath],
    test: Sequence[StrPath],
    data_dir: StrPath | None,
    cache: StrPath | None,
) -> tuple[str, dict[str, list[Path]]]:
    """A name, and the files by split."""
    if len(data) == 1 and str(data[0]) in SETS:
        name = str(data[0])
        paths = known.find_files(SETS[name].splits, data_dir, cache)
    else:
        try:
            paths = {"train": files(data)}
        except DataError as error:
            if len(data) == 1 and not Path(data[0]).expanduser().exists():
                raise DataError(f"{error}; known sets are {', '.join(SETS)}") from None
            raise
        name = paths["train"][0].name.removesuffix(".gz").removesuffix(".tsv")
    for split, given in (("valid", valid), ("test", test)):
        if given:
            # a known set may be measured on by its name: then its test part is what is meant
            only = str(given[0]) if len(given) == 1 else ""
            paths[split] = (
                known.find_files(SETS[only].splits, data_dir, cache)["test"] if only in SETS else files(given)
            )
    return name, paths


# ---------------------------------------------------------------------------------------------------------- tables


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1, cut at \\n and nowhere else."""
    rest, number = "", 0
    for chunk in chunks(path):
        *whole, rest = (rest + chunk).split("\n")
        for line in whole:
            number += 1
            yield number, line
    if rest:
        yield number + 1, rest


class _Table:
    """Which columns of some files hold what."""

    def __init__(
        self,
        paths: Sequence[Path],
        label_column: str | None,
        text_column: str | None,
        header: bool | None,
        kept: Kept | None,
    ) -> None:
        self.first = paths[0]
        self.header = header
        sample = self._sample(self.first)
        width = len(sample[0])
        names = [cell.strip().lower() for cell in sample[0]]
        self.named = any(
            column is not None and not column.isdigit() and column.strip().lower() in names
            for column in (label_column, text_column)
        )
        headed = self._headed(sample[0])
        body = sample[1:] if headed else sample
        columns = {
            kind: self._place(kind, given, names, headed, width)
            for kind, given in (("label", label_column), ("text", text_column))
        }
        label, text = columns["label"], columns["text"]
        if label is None and text is not None and width == 2:
            label = 1 - text
        if label is None:
            if width != 2:
                raise DataError(
                    f"expected a text and its label in two columns, found {width} in line 1 of {self.first}; name them "
                    "with --set label_column and --set text_column, as the header does or as numbers from 1"
                )
            label = self._fewest(body, kept)
        if text is None and width == 2:
            text = 1 - label
        if text is None or text == label:
            raise DataError(
                f"expected one column of texts, found {width} columns in {self.first}; name it with --set text_column"
            )
        self.text, self.label, self.width = text, label, width

    def _sample(self, path: Path) -> list[list[str]]:
        rows: list[list[str]] = []
        for number, line in lines(path):
            if not line.strip():
                continue
            rows.append(line.split("\t"))
            if len(rows[-1]) < 2:
                raise _no_tab(path, number, line)
            if len(rows) == SAMPLE:
                break
        if not rows:
            raise DataError(f"expected lines of text and label, found only blank ones in {path}")
        return rows

    def _headed(self, cells: Sequence[str]) -> bool:
        if self.header is not None:
            return self.header
        names = {cell.strip().lower() for cell in cells}
        return self.named or all(names & words for words in NAMES.values())

    def _place(self, kind: str, given: str | None, names: list[str], headed: bool, width: int) -> int | None:
        if given is None:
            places = [place for place, name in enumerate(names) if name in NAMES[kind]] if headed else []
            return places[0] if len(places) == 1 else None
        name = given.strip().lower()
        if headed and name in names:
            return names.index(name)
        if name.isdigit() and 1 <= int(name) <= width:
            return int(name) - 1
        there = f"a column out of {', '.join(names)}" if headed else f"a number from 1 to {width}"
        raise DataError(f"{kind}_column: expected {there} of {self.first}, found {given!r}")

    def _fewest(self, body: list[list[str]], kept: Kept | None) -> int:
        """The column that holds the labels: those that a run knows, else the one with fewer different values."""
        cells = [[row[place] for row in body if len(row) == 2] for place in (0, 1)]
        if kept is not None:
            known_labels = set(kept.classes)
            hits = [sum(cell.strip() in known_labels for cell in column) for column in cells]
            if hits[0] != hits[1]:
                return int(hits[1] > hits[0])
        sizes = [(len(set(column)), sum(map(len, column))) for column in cells]
        if sizes[0] == sizes[1]:
            raise DataError(
                f"expected a column with fewer different values for the labels, found two alike in {self.first}; "
                "name it with --set label_column=1 or 2"
            )
        return 0 if sizes[0] < sizes[1] else 1

    def rows(self, path: Path) -> Iterator[tuple[int, str, str]]:
        """Line, text and label of every line but the header and blank ones."""
        for number, line in lines(path):
            if not line.strip(" \r"):
                continue
            cells = line.split("\t")
            if len(cells) < 2:
                raise _no_tab(path, number, line)
            if len(cells) != self.width:
                raise DataError(
                    f"expected {self.width} columns as in line 1, found {len(cells)} in line {number:,} of {path}; "
                    "mend or remove that line"
                )
            if number == 1 and self._headed(cells):
                continue
            yield number, cells[self.text].strip(), cells[self.label].strip()


def _no_tab(path: Path, number: int, line: str) -> DataError:
    shown = line if len(line) <= 40 else line[:40] + "…"
    return DataError(
        f"expected text TAB label, found no tab in line {number:,} of {path}: {shown!r}; put one between them"
    )


def low(text: str, share: float) -> bool:
    """Whether the hash of a text is among the lowest `share` of all: the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) < share * 2**64


class _Texts:
    """The training texts of some files, a line each; can be read any number of times."""

    def __init__(self, paths: Sequence[Path], table: _Table, wanted: Callable[[str], bool]) -> None:
        self.paths, self.table, self.wanted = paths, table, wanted

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            for _, text, label in self.table.rows(path):
                if text and label and self.wanted(text):
                    yield text + "\n"  # so that no two words fuse


class _Gatherer:
    """Rows of one split, as arrays that grow."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        assert kept.tokenizer is not None
        self.tokens = array({1: "B", 2: "H", 4: "I"}[tokenize.smallest(kept.tokenizer.size).itemsize])
        self.lengths, self.labels = array("i"), array("i")

    def add(self, tokens: np.ndarray, label: int) -> None:
        self.tokens.frombytes(tokens.tobytes())
        self.lengths.append(len(tokens))
        self.labels.append(label)

    def part(self) -> Part:
        return Part(*(np.array(values) for values in (self.tokens, self.lengths, self.labels)))


class _Left:
    """Rows that were left out for one reason: how many, and where the first stands."""

    def __init__(self, reason: str) -> None:
        self.reason, self.count, self.where = reason, 0, ""

    def add(self, path: Path, number: int) -> None:
        self.where = self.where or f"line {number:,} of {path}"
        self.count += 1

    def notes(self) -> list[str]:
        return [f"{self.count:,} rows {self.reason} were left out, the first in {self.where}"] if self.count else []


def _texts(
    name: str,
    paths: dict[str, list[Path]],
    table: _Table,
    kind: str,
    vocab: int | None,
    share: float,
    longest: int,
    kept: Kept | None,
) -> Labelled:
    by_hash = "valid" not in paths
    notes: list[str] = []
    if by_hash:
        notes.append(f"validation: the texts whose hash is in the lowest {share:g} of all")

    def trains(text: str) -> bool:
        return not (by_hash and low(text, share))

    if kept is None:
        made = tokenize.train(kind, _Texts(paths["train"], table, trains), vocab)
        if isinstance(made, Chars) and made.unknown is None and made.fallback is None:
            made = made.with_unknown()  # what is to be classified may have any character
        kept = Kept(classes=_classes(paths["train"], table, trains), tokenizer=made, longest=longest)
    numbers = {label: number for number, label in enumerate(kept.classes)}
    assert kept.tokenizer is not None
    empty, unseen = _Left("without a text or a label"), _Left("of labels that training lacks")
    cut = 0
    parts = {split: _Gatherer(kept) for split in ("train", "valid", "test") if split in paths or split == "valid"}
    for split, some in paths.items():
        for path in some:
            for number, text, label in table.rows(path):
                tokens = kept.encode(text) if text and label else np.zeros(0)
                if not len(tokens):
                    empty.add(path, number)
                    continue
                own = "valid" if split == "train" and not trains(text) else split
                if label not in numbers:
                    if split != "train":
                        raise DataError(
                            f"expected a label that training has ({_some(kept.classes)}), found {label!r} in line "
                            f"{number:,} of {path}; remove that line, or train with such a label"
                        )
                    unseen.add(path, number)
                    continue
                cut += len(tokens) == kept.longest
                parts[own].add(tokens, numbers[label])
    found = {split: gatherer.part() for split, gatherer in parts.items()}
    for split, part in found.items():
        if not len(part.labels):
            raise DataError(
                f"expected rows for the {split} part, found none of {name}; give more, or name files for it"
            )
    notes += empty.notes() + unseen.notes()
    if cut:
        notes.append(f"{cut:,} texts reach {kept.longest:,} tokens, which is where they are cut (--set longest=N)")
    unknown = kept.tokenizer.unknown
    if unknown is not None:
        shares = {split: float((part.values == unknown).mean()) for split, part in found.items()}
        if any(shares.values()):
            told = ", ".join(f"{split} {100 * value:.3g} %" for split, value in shares.items() if value)
            notes.append(f"share of the tokens that are <unk>: {told}")
    return _labelled(name, kept, found, notes)


def _classes(paths: Sequence[Path], table: _Table, wanted: Callable[[str], bool]) -> tuple[str, ...]:
    """The labels of the training rows, in the order of their numbers or letters."""
    counts: dict[str, int] = {}
    rows = 0
    for path in paths:
        for _, text, label in table.rows(path):
            if text and label and wanted(text):
                counts[label] = counts.get(label, 0) + 1
                rows += 1
    if len(counts) < 2:
        found = f"only {next(iter(counts))!r}" if counts else "none"
        raise DataError(f"expected at least two labels to tell apart, found {found} in {paths[0]}; give others too")
    if len(counts) > 100 and len(counts) > rows / 2:
        raise DataError(
            f"expected labels that come again, found {len(counts):,} different ones in {rows:,} rows of {paths[0]}; "
            "name the right column with --set label_column"
        )
    return in_order(counts)


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """By number where all are whole numbers, else by letter."""
    labels = list(labels)
    if all(label.lstrip("-").isdigit() and label.isascii() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def _some(names: Sequence[str], limit: int = 6) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _labelled(name: str, kept: Kept, parts: dict[str, Part], notes: list[str]) -> Labelled:
    digest = hashlib.sha256(json.dumps(kept.to_json(), sort_keys=True).encode())
    if kept.tokenizer is not None:
        digest.update(tokenize.fingerprint(kept.tokenizer).encode())
    for split, part in parts.items():
        digest.update(f"{split} {part.values.dtype} {part.values.shape}".encode())
        for values in part:
            digest.update(np.ascontiguousarray(values).data)
    return Labelled(name, kept, parts["train"], parts["valid"], parts.get("test"), digest.hexdigest(), notes)


# ---------------------------------------------------------------------------------------------------------- images


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """An IDX file of bytes, packed or not: two zeros, the type, the number of dimensions, their sizes, the bytes."""
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"expected an IDX file, found {error}: {path}; get a new copy") from None
    head = 4 + 4 * dimensions
    wanted = bytes([0, 0, 8, dimensions])
    if data[:4] != wanted:
        raise DataError(
            f"expected an IDX file of bytes in {dimensions} dimensions (it begins with {wanted.hex(' ')}), "
            f"found {data[:4].hex(' ') or 'nothing'} in {path}; get a new copy"
        )
    if len(data) < head:
        raise DataError(
            f"expected {head} bytes at the head of an IDX file, found {len(data)} in {path}; get a new copy"
        )
    sizes = struct.unpack(f">{dimensions}I", data[4:head])
    count = 1
    for size in sizes:  # plain integers: sizes from a file may be anything
        count *= size
    if len(data) - head != count or not count:
        shape = " × ".join(f"{size:,}" for size in sizes)
        raise DataError(
            f"expected {shape} = {count:,} bytes after the head, found {len(data) - head:,} in {path}; get a new copy"
        )
    return np.frombuffer(data, np.uint8, offset=head).reshape(sizes)


def _images(
    name: str, paths: dict[str, list[Path]], step: StepName, permute: int | None, kept: Kept | None
) -> Labelled:
    read: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for split, (pictures, answers) in paths.items():
        images, labels = read_idx(pictures, 3), read_idx(answers, 1)
        if len(images) != len(labels):
            raise DataError(
                f"expected a label for each of {len(images):,} images of {pictures}, found {len(labels):,} in {answers}"
            )
        read[split] = images, labels
    images, labels = read["train"]
    held = len(images) // HELD
    if not held:
        raise DataError(f"expected at least {HELD} images to train on, found {len(images)} in {paths['train'][0]}")
    shape = images.shape[1], images.shape[2]
    if kept is None:
        count = int(labels[:-held].max()) + 1
        if len(np.unique(labels[:-held])) < 2:
            raise DataError(f"expected at least two labels to tell apart, found one in {paths['train'][1]}")
        kept = Kept(classes=tuple(map(str, range(count))), shape=shape, step=step, permute=permute)
    if kept.shape != shape or read["test"][0].shape[1:] != shape:
        wanted = "texts" if kept.shape is None else f"images of {kept.shape[0]} × {kept.shape[1]}"
        found = sorted({f"{i.shape[1]} × {i.shape[2]}" for i, _ in read.values()})
        raise DataError(f"expected {wanted}, found images of {' and '.join(found)} in {paths['train'][0].parent}")
    parts: dict[str, Part] = {}
    for split, (pictures, answers), path in (
        ("train", (images[:-held], labels[:-held]), paths["train"][1]),
        ("valid", (images[-held:], labels[-held:]), paths["train"][1]),
        ("test", read["test"], paths["test"][1]),
    ):
        if int(answers.max()) >= len(kept.classes):
            at = int((answers >= len(kept.classes)).argmax())
            raise DataError(
                f"expected labels from 0 to {len(kept.classes) - 1} as training has, found {answers[at]} for image "
                f"{at:,} of the {split} part, in {path}"
            )
        values = kept.lay_out(pictures)
        lengths = np.full(len(values), values.shape[1], np.int32)
        parts[split] = Part(values, lengths, answers.astype(np.int32))
    notes = [f"validation: the last {held:,} of {len(images):,} training images"]
    return _labelled(name, kept, parts, notes)
