"""Ratings: who gave what how much, from a file or made up from features that are then known.

A file is UTF-8, plain or gzip, with a rating a line: user, item, rating, and whatever follows (MovieLens: a time), with
tabs (`u.data`), `::`, semicolons or commas between, with or without a header. A header that names all three says which
column is which. Which ratings train is told by the hash of user and item, so that a pair that comes twice is on one
side.
"""

import csv
import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .text import DataError, StrPath, files, lines

GENERATED = "generated"
TRUTH = "truth"  # as hand-set features: those that generated ratings were made from
SEPARATORS = ("\t", "::", ";", ",", "|")
QUOTING = (";", ",")  # separators between cells that may stand in quotes
COLUMNS = (("user",), ("item", "movie", "film", "book", "product"), ("rating", "score", "stars"))  # how names begin
LARGEST = 3e38  # a rating is kept as a float32


class Part(NamedTuple):
    """The ratings of one split. A user or an item that training lacks has the number after the last."""

    users: np.ndarray  # N
    items: np.ndarray  # N
    scores: np.ndarray  # N, float32


class Truth(NamedTuple):
    """What generated ratings were made from."""

    users: np.ndarray  # U k, features
    items: np.ndarray  # I k
    user_bias: np.ndarray  # U
    item_bias: np.ndarray  # I
    noise: float  # the standard deviation that no model can be better than


@dataclass(frozen=True)
class Kept:
    """What a run must keep of its data: the names of users and items, and the scale of the ratings."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    mean: float
    low: float
    high: float
    features: int = 0  # hand-set features of an item
    titles: tuple[str, ...] | None = None  # how items are called, where that was told
    matrix: np.ndarray | None = None  # items, features; in a run folder it stands with the weights

    def title(self, item: int) -> str:
        return self.items[item] if self.titles is None else self.titles[item]

    def to_json(self) -> dict[str, Any]:
        names = {"users": self.users, "items": self.items, "titles": self.titles}
        numbers = {"mean": self.mean, "low": self.low, "high": self.high, "features": self.features}
        return {name: None if value is None else list(value) for name, value in names.items()} | numbers

    @classmethod
    def from_json(cls, data: Any) -> "Kept":
        """What `to_json` said; anything else is a ValueError, TypeError or KeyError."""
        users, items = (tuple(str(name) for name in data[kind]) for kind in ("users", "items"))
        titles = None if data["titles"] is None else tuple(str(name) for name in data["titles"])
        mean, low, high = (float(data[name]) for name in ("mean", "low", "high"))
        if not users or not items or (titles is not None and len(titles) != len(items)) or not low <= mean <= high:
            raise ValueError("these are not the names of a run")
        return cls(users, items, mean, low, high, int(data["features"]), titles)


@dataclass(frozen=True)
class Ratings:
    """Ratings by split, and what is known of them."""

    name: str
    kept: Kept
    train: Part
    valid: Part
    test: Part
    truth: Truth | None
    fingerprint: str
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class Made:
    """How ratings are generated: score = 3.5 + user's bias + item's bias + features · features + noise.

    `bias` and `spread` are the standard deviations of each bias and of the dot product.
    """

    users: int = 400
    items: int = 300
    ratings: int = 24_000
    rank: int = 3
    bias: float = 0.4
    spread: float = 0.8
    noise: float = 0.3
    seed: int = 0


def load(
    data: Sequence[StrPath] | StrPath = (GENERATED,),
    *,
    valid: Sequence[StrPath] = (),
    test: Sequence[StrPath] = (),
    share: float = 0.1,
    features: StrPath | None = None,
    titles: StrPath | None = None,
    made: Made | None = None,
    kept: Kept | None = None,
) -> Ratings:
    """Read ratings, or generate them.

    Of ratings without files for validation or test, `share` goes to each by hash. `features` is a file of an item and
    its numbers a line (or `truth`, of generated ratings); `titles` one of an item and its name. `kept` is what a run
    has kept: its users and items, so that numbers mean the same.
    """
    data = [data] if isinstance(data, str | os.PathLike) else list(data) or [GENERATED]
    if not 0 < share < 0.5:
        raise DataError(f"expected a validation share between 0 and 0.5, found {share}")
    truth = None
    if [str(name) for name in data] == [GENERATED]:
        rows, truth = generate(made or Made())
        name, sources = GENERATED, {"train": rows}
    else:
        paths = files(data)
        name, sources = paths[0].name.removesuffix(".gz"), {"train": read(paths)}
    for split, given in (("valid", valid), ("test", test)):
        if given:
            sources[split] = read(files(given))
    rows = sources["train"]
    place = np.zeros(len(rows.scores))
    if not (valid and test):
        place = _places(rows)
    parts: dict[str, _Rows] = {"train": rows}
    taken = np.zeros(len(place), bool)
    for number, split in enumerate(("valid", "test")):
        if split in sources:
            parts[split] = sources[split]
            continue
        own = (place >= number * share) & (place < (number + 1) * share)
        parts[split] = rows.some(own)
        taken |= own
    parts["train"] = rows.some(~taken)
    for split, part in parts.items():
        if not len(part.scores):
            raise DataError(f"expected ratings for the {split} part, found none of {name}; give more")
    notes: list[str] = []
    again = len(rows.scores) - len(np.unique(rows.users.astype(np.int64) * len(rows.item_names) + rows.items))
    if again:
        notes.append(f"{again:,} of {len(rows.scores):,} ratings are of a pair that was rated before; each counts")
    if kept is None:
        kept = _keep(parts["train"])
    if titles is not None:
        kept = replace(kept, titles=_titles(Path(titles), kept.items))
    if features is not None:
        matrix, told = _features(features, kept.items, truth, parts["train"])
        kept = replace(kept, matrix=matrix, features=matrix.shape[1])
        notes += told
    found = {split: _number(part, kept) for split, part in parts.items()}
    for split in ("valid", "test"):
        unseen = (found[split].users == len(kept.users)) | (found[split].items == len(kept.items))
        if unseen.any():
            notes.append(f"{int(unseen.sum()):,} of {len(unseen):,} {split} ratings have a user or an item that is new")
    return Ratings(
        name,
        kept,
        found["train"],
        found["valid"],
        found["test"],
        None if truth is None else _in_order(truth, parts["train"], kept),
        _fingerprint(kept, found),
        notes,
    )


# ------------------------------------------------------------------------------------------------------------- files


@dataclass(frozen=True)
class _Rows:
    """Ratings with the names of their users and items, each name once."""

    user_names: list[str]
    item_names: list[str]
    users: np.ndarray  # N, numbers of names
    items: np.ndarray
    scores: np.ndarray

    def some(self, wanted: np.ndarray) -> "_Rows":
        return replace(self, users=self.users[wanted], items=self.items[wanted], scores=self.scores[wanted])


def read(paths: Sequence[Path]) -> _Rows:
    """All ratings of some files; a line that is none is refused with its number."""
    names: tuple[dict[str, int], dict[str, int]] = ({}, {})
    numbers = (array("i"), array("i"))
    scores = array("f")
    for path in paths:
        for _, cells in table(path, least=3, number_at=2, columns=_columns):
            for own, place, cell in zip(names, numbers, cells, strict=False):
                place.append(own.setdefault(cell, len(own)))
            scores.append(float(cells[2]))
    return _Rows(list(names[0]), list(names[1]), np.array(numbers[0]), np.array(numbers[1]), np.array(scores))


def table(
    path: Path,
    least: int,
    number_at: int | None = None,
    columns: Callable[[list[str]], list[int] | None] = lambda header: None,
) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line, at least `least` of them; a first line without a number at `number_at` is a header.

    Where `columns` knows its names, cells are those columns alone, in their order.
    """
    separator = order = None
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        first = separator is None
        if separator is None:
            separator = next((mark for mark in SEPARATORS if line.count(mark) >= least - 1), None)
            if separator is None:
                raise DataError(
                    f"expected {least} cells with tabs, '::' or commas between, found {_short(line)} in line "
                    f"{number:,} of {path}; put them there"
                )
        try:
            parted = next(csv.reader([line], delimiter=separator)) if separator in QUOTING else line.split(separator)
        except csv.Error as error:
            raise DataError(f"expected cells of a table, found others in line {number:,} of {path} ({error})") from None
        cells = [cell.strip() for cell in parted]
        if order is not None:
            cells = [cells[place] for place in order if place < len(cells)]
        if len(cells) < least or not all(cells[:least]):
            raise DataError(
                f"expected {least} cells with {separator!r} between, found {_short(line)} in line {number:,} of "
                f"{path}; mend or remove that line"
            )
        if number_at is not None and not _is_number(cells[number_at]):
            if first and number == 1:
                order = columns(cells)
                continue
            raise DataError(
                f"expected a number in cell {(order or range(least))[number_at] + 1}, found {cells[number_at]!r} in "
                f"line {number:,} of {path}; mend or remove that line"
            )
        yield number, cells


def _columns(header: list[str]) -> list[int] | None:
    """Where a header names user, item and rating, if it names each once."""
    places = [[i for i, cell in enumerate(header) if cell.lower().startswith(words)] for words in COLUMNS]
    return [own[0] for own in places] if all(len(own) == 1 for own in places) else None


def _short(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:40] + "…")


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) < LARGEST
    except ValueError:
        return False


def _titles(path: Path, items: Sequence[str]) -> tuple[str, ...]:
    names = {cells[0]: cells[1] for _, cells in table(path, least=2)}
    return tuple(names.get(item, item) for item in items)


def _features(source: StrPath, items: Sequence[str], truth: Truth | None, rows: _Rows) -> tuple[np.ndarray, list[str]]:
    """The hand-set features of the items in their order, and notes; an item without any has zeros."""
    if str(source) == TRUTH:
        if truth is None:
            raise DataError(f"expected a file of features, found {TRUTH!r}, which only generated ratings have")
        by_name = {name: truth.items[number] for number, name in enumerate(rows.item_names)}
        return np.stack([by_name[item] for item in items]).astype(np.float32), []
    path, wanted = Path(source), set(items)
    found: dict[str, list[float]] = {}
    width = None
    for number, cells in table(path, least=2, number_at=1):
        width = width or len(cells)
        if len(cells) != width or not all(map(_is_number, cells[1:])):
            raise DataError(
                f"expected an item and {width - 1} numbers as in the first line, found {_short(' '.join(cells))} in "
                f"line {number:,} of {path}; mend or remove that line"
            )
        if cells[0] in wanted:
            found[cells[0]] = [float(cell) for cell in cells[1:]]
    if not found or width is None:
        raise DataError(f"expected features of items that are rated, found none in {path}; are its items named alike?")
    nothing = [0.0] * (width - 1)
    matrix = np.array([found.get(item, nothing) for item in items], np.float32)
    missing = len(items) - len(found)
    return matrix, [f"{missing:,} of {len(items):,} items have no features in {path}"] if missing else []


# --------------------------------------------------------------------------------------------------------- generated


def generate(made: Made) -> tuple[_Rows, Truth]:
    """Ratings of pairs drawn without repetition, and the features that they were made from."""
    if not 1 <= made.ratings <= made.users * made.items:
        raise DataError(
            f"expected from 1 to users × items = {made.users * made.items:,} ratings, found {made.ratings:,}"
        )
    draw = np.random.default_rng(made.seed)
    size = (made.spread**2 / made.rank) ** 0.25  # so that the dot product has the standard deviation `spread`
    truth = Truth(
        draw.normal(0, size, (made.users, made.rank)),
        draw.normal(0, size, (made.items, made.rank)),
        draw.normal(0, made.bias, made.users),
        draw.normal(0, made.bias, made.items),
        made.noise,
    )
    pairs = np.sort(draw.choice(made.users * made.items, made.ratings, replace=False))
    users, items = pairs // made.items, pairs % made.items
    scores = 3.5 + truth.user_bias[users] + truth.item_bias[items] + (truth.users[users] * truth.items[items]).sum(1)
    scores = scores + draw.normal(0, made.noise, made.ratings)
    names = [[f"{kind}{n + 1}" for n in range(count)] for kind, count in (("user", made.users), ("item", made.items))]
    return _Rows(names[0], names[1], users, items, scores.astype(np.float32)), truth


def _in_order(truth: Truth, rows: _Rows, kept: Kept) -> Truth:
    """The truth about the users and items of the run, in the order of their numbers."""
    users, items = (
        np.array([place[name] for name in names])
        for place, names in (
            ({name: n for n, name in enumerate(rows.user_names)}, kept.users),
            ({name: n for n, name in enumerate(rows.item_names)}, kept.items),
        )
    )
    return Truth(truth.users[users], truth.items[items], truth.user_bias[users], truth.item_bias[items], truth.noise)


# ----------------------------------------------------------------------------------------------------------- numbers


def _places(rows: _Rows) -> np.ndarray:
    """A number from 0 to 1 for each rating, by the hash of its user and item."""
    whole = float(2**64)

    def place(user: int, item: int) -> float:
        pair = f"{rows.user_names[user]}\t{rows.item_names[item]}"
        return int.from_bytes(hashlib.blake2b(pair.encode(), digest_size=8).digest()) / whole

    return np.fromiter(map(place, rows.users.tolist(), rows.items.tolist()), np.float64, len(rows.scores))


def _keep(rows: _Rows) -> Kept:
    users = [rows.user_names[n] for n in np.unique(rows.users)]
    items = [rows.item_names[n] for n in np.unique(rows.items)]
    low, high = float(rows.scores.min()), float(rows.scores.max())
    return Kept(tuple(users), tuple(items), float(rows.scores.mean(dtype=np.float64)), low, high)


def _number(rows: _Rows, kept: Kept) -> Part:
    """The numbers of the run for the names of the rows."""
    found = []
    for names, own, column in (
        (rows.user_names, kept.users, rows.users),
        (rows.item_names, kept.items, rows.items),
    ):
        place = {name: number for number, name in enumerate(own)}
        found.append(np.array([place.get(name, len(own)) for name in names], np.int64)[column])
    return Part(found[0], found[1], rows.scores.astype(np.float32))


def _fingerprint(kept: Kept, parts: dict[str, Part]) -> str:
    digest = hashlib.sha256(json.dumps(kept.to_json(), sort_keys=True).encode())
    for split in ("train", "valid", "test"):
        digest.update(split.encode())
        for values in parts[split]:
            digest.update(np.ascontiguousarray(values).data)
    if kept.matrix is not None:
        digest.update(np.ascontiguousarray(kept.matrix).data)
    return digest.hexdigest()
