"""Labelled texts as tokens: validation split by hash, classes from training, notes of what is left out."""

import hashlib
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from ...data import tokenizers
from ...data.files import DataError, some_of
from ...data.tokenizers.base import smallest
from .labelled import Artifacts, Labelled, Part, assemble


class Rows(Protocol):
    """A table of texts and labels: a file's, or one that is generated."""

    @property
    def header(self) -> bool | None: ...
    def rows(self, path: Path) -> Iterator[tuple[int, str, str]]: ...


def has_low_hash(text: str, share: float) -> bool:
    """Whether the hash of a text is among the lowest `share` of all: the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) < share * 2**64


class _Texts:
    """The training texts of some files, a line each; can be read any number of times."""

    def __init__(self, paths: Sequence[Path], table: Rows, wanted: Callable[[str], bool]) -> None:
        self.paths, self.table, self.wanted = paths, table, wanted

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            for _, text, label in self.table.rows(path):
                if text and label and self.wanted(text):
                    yield text + "\n"  # so that no two words fuse


class _Gatherer:
    """Tokens, lengths and labels of one split, appended row by row."""

    def __init__(self, artifacts: Artifacts) -> None:
        assert artifacts.tokenizer is not None
        self.tokens = array({1: "B", 2: "H", 4: "I"}[smallest(artifacts.tokenizer.size).itemsize])
        self.lengths, self.labels = array("i"), array("i")

    def add(self, tokens: np.ndarray, label: int) -> None:
        self.tokens.frombytes(tokens.tobytes())
        self.lengths.append(len(tokens))
        self.labels.append(label)

    def part(self) -> Part:
        return Part(*(np.array(values) for values in (self.tokens, self.lengths, self.labels)))


class _SkippedRows:
    """The number of rows left out for one reason, and the place of the first."""

    def __init__(self, reason: str) -> None:
        self.reason, self.count, self.where = reason, 0, ""

    def add(self, path: Path, number: int) -> None:
        self.where = self.where or f"line {number:,} of {path}"
        self.count += 1

    def notes(self) -> list[str]:
        return [f"{self.count:,} rows {self.reason} were left out, the first in {self.where}"] if self.count else []


def read_texts(
    name: str,
    paths: dict[str, list[Path]],
    table: Rows,
    kind: str,
    vocab: int | None,
    share: float,
    longest: int,
    artifacts: Artifacts | None,
) -> Labelled:
    """The rows of tables by split, with the tokenizer and classes of `artifacts` where given."""
    by_hash = "valid" not in paths
    notes: list[str] = []
    if by_hash:
        notes.append(f"validation: the texts whose hash is in the lowest {share:g} of all")

    def trains(text: str) -> bool:
        return not (by_hash and has_low_hash(text, share))

    if artifacts is None:
        made = tokenizers.train_open(kind, _Texts(paths["train"], table, trains), vocab)
        classes, doubts = _classes(paths["train"], table, trains)
        artifacts = Artifacts(classes=classes, tokenizer=made, longest=longest)
        notes += doubts
    numbers = {label: number for number, label in enumerate(artifacts.classes)}
    assert artifacts.tokenizer is not None
    empty, unseen = _SkippedRows("without a text or a label"), _SkippedRows("of labels that training lacks")
    cut = 0
    parts = {split: _Gatherer(artifacts) for split in ("train", "valid", "test") if split in paths or split == "valid"}
    for split, some in paths.items():
        for path in some:
            for number, text, label in table.rows(path):
                tokens = artifacts.encode(text) if text and label else np.zeros(0)
                if not len(tokens):
                    empty.add(path, number)
                    continue
                own = "valid" if split == "train" and not trains(text) else split
                if label not in numbers:
                    if split != "train":
                        raise DataError(
                            f"expected a label that training has ({some_of(artifacts.classes, 6)}), found {label!r} in "
                            f"line {number:,} of {path}; remove that line, or train with such a label"
                        )
                    unseen.add(path, number)
                    continue
                cut += len(tokens) == artifacts.longest
                parts[own].add(tokens, numbers[label])
    found = {split: gatherer.part() for split, gatherer in parts.items()}
    for split, part in found.items():
        if not len(part.labels):
            raise DataError(
                f"expected rows for the {split} part, found none of {name}; give more, or name files for it"
            )
    notes += empty.notes() + unseen.notes()
    if cut:
        notes.append(f"{cut:,} texts reach {artifacts.longest:,} tokens, which is where they are cut (--set longest=N)")
    unknown = artifacts.tokenizer.unknown
    if unknown is not None:
        shares = {split: float((part.values == unknown).mean()) for split, part in found.items()}
        if any(shares.values()):
            some = ", ".join(f"{split} {100 * value:.3g} %" for split, value in shares.items() if value)
            notes.append(f"share of the tokens that are <unk>: {some}")
    return assemble(name, artifacts, found, notes)


def _classes(paths: Sequence[Path], table: Rows, wanted: Callable[[str], bool]) -> tuple[tuple[str, ...], list[str]]:
    """The classes of the training rows in order, and notes of first lines that may be a header."""
    counts: dict[str, int] = {}
    first: dict[str, Path] = {}  # labels of first lines
    rows = 0
    for path in paths:
        for number, text, label in table.rows(path):
            if text and label and wanted(text):
                counts[label] = counts.get(label, 0) + 1
                rows += 1
                if number == 1 and table.header is None:
                    first[label] = path
    if len(counts) < 2:
        found = f"only {next(iter(counts))!r}" if counts else "none"
        raise DataError(f"expected at least two labels to tell apart, found {found} in {paths[0]}; give others too")
    if len(counts) > 100 and len(counts) > rows / 2:
        raise DataError(
            f"expected labels that come again, found {len(counts):,} different ones in {rows:,} rows of {paths[0]}; "
            "name the right column with --set label_column"
        )
    doubts = [
        f"line 1 of {path} is read as a row, and its label {label!r} does not come again; if it is a header, say so "
        "with --set header=true, else with --set header=false"
        for label, path in first.items()
        if counts[label] == 1
    ]
    return sort_labels(counts), doubts


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Labels sorted by number where all are integers, else by letter."""
    labels = list(labels)
    if all(re.fullmatch("-?[0-9]+", label) for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))
