"""Ratings of items by users, from files or generated from known features.

A file is UTF-8, plain or gzip, with a rating a line: user, item, rating, and whatever follows (MovieLens: a time), with
tabs (`u.data`), `::`, semicolons or commas between, with or without a header. A header that names all three says which
column is which. The hash of user and item decides the split of a rating, so that all ratings of a pair share one.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...data.byte_files import StrPath, path_of
from ...data.errors import DataError
from ...data.file_lists import describe_skipped, list_files
from ...data.files import files
from .generated import check_names, generate, select_truth
from .items import read_features, read_titles
from .rated import Artifacts, Part, Ratings, Rows
from .settings import GENERATED, DataConfig
from .tables import read


def load(
    data: Sequence[StrPath] | StrPath = (GENERATED,),
    *,
    valid: Sequence[StrPath] = (),
    test: Sequence[StrPath] = (),
    share: float = 0.1,
    features: StrPath | None = None,
    titles: StrPath | None = None,
    generated: DataConfig | None = None,
    artifacts: Artifacts | None = None,
) -> Ratings:
    """Read ratings, or generate them.

    Of ratings without files for validation or test, `share` goes to each by hash. `features` is a file of an item and
    its numbers a line (or `truth`, of generated ratings); `titles` one of an item and its name. `generated` says how
    ratings are generated. `artifacts` are those of a run: its users and items, so that numbers mean the same.
    """
    data = [data] if isinstance(data, str | os.PathLike) else list(data) or [GENERATED]
    if not 0 < share < 0.5:
        raise DataError(f"expected a validation share between 0 and 0.5, found {share}")
    truth = None
    every: list[Path] = []
    skipped: list[tuple[Path, str]] = []

    def find(given: Sequence[StrPath]) -> list[Path]:
        found = files(given, lambda path, reason: skipped.append((path, reason)))
        every.extend(found)
        return found

    if [str(name) for name in data] == [GENERATED]:
        rows, truth = generate(generated or DataConfig())
        name, sources = GENERATED, {"train": rows}
    else:
        paths = find(data)
        name, sources = paths[0].name.removesuffix(".gz"), {"train": read(paths)}
    for split, given in (("valid", valid), ("test", test)):
        if given:
            sources[split] = read(find(given))
    rows = sources["train"]
    place = np.zeros(len(rows.scores))
    if not (valid and test):
        place = _places(rows)
    parts: dict[str, Rows] = {"train": rows}
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
    notes = describe_skipped(skipped)
    again = len(rows.scores) - len(np.unique(rows.users.astype(np.int64) * len(rows.item_names) + rows.items))
    if again:
        notes.append(f"{again:,} of {len(rows.scores):,} ratings are of a pair that was rated before; each counts")
    if artifacts is None:
        artifacts = _collect_artifacts(parts["train"])
    if truth is not None:
        check_names(parts["train"], artifacts)
    if titles is not None:
        artifacts = replace(artifacts, titles=read_titles(path_of(titles), artifacts.items))
    if features is not None:
        matrix, more = read_features(features, artifacts.items, truth, parts["train"])
        artifacts = replace(artifacts, matrix=matrix, features=matrix.shape[1])
        notes += more
    found = {split: _number(part, artifacts) for split, part in parts.items()}
    for split in ("valid", "test"):
        unseen = (found[split].users == len(artifacts.users)) | (found[split].items == len(artifacts.items))
        if unseen.any():
            notes.append(f"{int(unseen.sum()):,} of {len(unseen):,} {split} ratings have a user or an item that is new")
    return Ratings(
        name,
        artifacts,
        found["train"],
        found["valid"],
        found["test"],
        None if truth is None else select_truth(truth, parts["train"], artifacts),
        _fingerprint(artifacts, found),
        notes,
        list_files(every, skipped),
    )


def _places(rows: Rows) -> np.ndarray:
    """A number from 0 to 1 for each rating: the hash of its user and item."""
    whole = float(2**64)

    def place(user: int, item: int) -> float:
        pair = f"{rows.user_names[user]}\t{rows.item_names[item]}"
        return int.from_bytes(hashlib.blake2b(pair.encode(), digest_size=8).digest()) / whole

    return np.fromiter(map(place, rows.users.tolist(), rows.items.tolist()), np.float64, len(rows.scores))


def _collect_artifacts(rows: Rows) -> Artifacts:
    """Users, items and the scale of the training ratings."""
    users = [rows.user_names[n] for n in np.unique(rows.users)]
    items = [rows.item_names[n] for n in np.unique(rows.items)]
    low, high = float(rows.scores.min()), float(rows.scores.max())
    return Artifacts(tuple(users), tuple(items), float(rows.scores.mean(dtype=np.float64)), low, high)


def _number(rows: Rows, artifacts: Artifacts) -> Part:
    """Ratings with users and items numbered as in the run."""
    found = []
    for names, own, column in (
        (rows.user_names, artifacts.users, rows.users),
        (rows.item_names, artifacts.items, rows.items),
    ):
        place = {name: number for number, name in enumerate(own)}
        found.append(np.array([place.get(name, len(own)) for name in names], np.int64)[column])
    return Part(found[0], found[1], rows.scores.astype(np.float32))


def _fingerprint(artifacts: Artifacts, parts: dict[str, Part]) -> str:
    digest = hashlib.sha256(json.dumps(artifacts.to_json(), sort_keys=True).encode())
    for split in ("train", "valid", "test"):
        digest.update(split.encode())
        for values in parts[split]:
            digest.update(np.ascontiguousarray(values).data)
    if artifacts.matrix is not None:
        digest.update(np.ascontiguousarray(artifacts.matrix).data)
    return digest.hexdigest()
