"""Ratings: as read, by split, and the part of them that a run folder stores."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core import typed
from ...core.artifacts import read_artifact
from ...core.errors import RunError
from ...core.summary import DataSummary, FileList


@dataclass(frozen=True)
class Rows:
    """Ratings with the names of their users and items, each name once."""

    user_names: list[str]
    item_names: list[str]
    users: np.ndarray  # N, numbers of names
    items: np.ndarray
    scores: np.ndarray

    def some(self, wanted: np.ndarray) -> "Rows":
        return replace(self, users=self.users[wanted], items=self.items[wanted], scores=self.scores[wanted])


class Part(NamedTuple):
    """The ratings of one split. A user or an item that training lacks has the number after the last."""

    users: np.ndarray  # N
    items: np.ndarray  # N
    scores: np.ndarray  # N, float32


class Truth(NamedTuple):
    """The features and biases that ratings were generated from."""

    users: np.ndarray  # U k, features
    items: np.ndarray  # I k
    user_bias: np.ndarray  # U
    item_bias: np.ndarray  # I
    noise: float  # the standard deviation that no model can be better than


@dataclass(frozen=True, kw_only=True)
class Stored:
    """names.json: the artifacts but for the features, which stand with the weights."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    titles: tuple[str, ...] | None
    mean: float
    low: float
    high: float
    features: int = field(metadata={"least": 0})


@dataclass(frozen=True)
class Artifacts:
    """What a run folder stores of its data: the names of users and items, and the scale of the ratings."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    mean: float
    low: float
    high: float
    features: int = 0  # hand-set features of an item
    titles: tuple[str, ...] | None = None  # of the items, where a file names them
    matrix: np.ndarray | None = None  # items, features; in a run folder it stands with the weights

    def title(self, item: int) -> str:
        return self.items[item] if self.titles is None else self.titles[item]

    def to_json(self) -> dict[str, Any]:
        names = {"users": self.users, "items": self.items, "titles": self.titles}
        numbers = {"mean": self.mean, "low": self.low, "high": self.high, "features": self.features}
        return {name: None if value is None else list(value) for name, value in names.items()} | numbers

    @classmethod
    def from_json(cls, data: Any) -> "Artifacts":
        """The inverse of `to_json`; anything else is a ValueError."""
        found = typed.read(data, Stored)
        for kind, names in (("users", found.users), ("items", found.items)):
            if len(set(names)) < max(1, len(names)):
                raise ValueError(f"expected {kind} that are all different, found others or none")
        if found.titles is not None and len(found.titles) != len(found.items):
            raise ValueError(f"expected a title for each of {len(found.items):,} items, found {len(found.titles):,}")
        if not found.low <= found.mean <= found.high:
            raise ValueError(f"expected low ≤ mean ≤ high, found {found.low}, {found.mean} and {found.high}")
        return cls(**vars(found))


def load_artifacts(folder: Path) -> Artifacts:
    """The names and the scale in a folder."""
    content = read_artifact(folder, "names.json")
    try:
        return Artifacts.from_json(content)
    except ValueError as error:
        raise RunError(
            f"{folder / 'names.json'}: expected the users and items of a run, found something else ({error})"
        ) from error


@dataclass(frozen=True)
class Ratings:
    """Ratings by split."""

    name: str
    artifacts: Artifacts
    train: Part
    valid: Part
    test: Part
    truth: Truth | None
    fingerprint: str
    notes: list[str]
    files: FileList | None = None


def summarize(data: Ratings) -> DataSummary:
    """The ratings of each split, and their users, items and scores."""
    parts = {"train": data.train, "valid": data.valid, "test": data.test}
    own = data.artifacts
    facts: dict[str, int | str] = {"users": len(own.users), "items": len(own.items)}
    facts["scores"] = f"{own.low:g} to {own.high:g}, mean {own.mean:.3g}"
    splits = {split: {"ratings": len(part.scores)} for split, part in parts.items()}
    return DataSummary(name=data.name, files=data.files, splits=splits, facts=facts, notes=data.notes)
