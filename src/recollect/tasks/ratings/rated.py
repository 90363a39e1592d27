"""Ratings: as read, by split, and the part of them that a run folder stores."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np


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
        """The inverse of `to_json`; anything else is a ValueError, TypeError or KeyError."""
        users, items = (tuple(str(name) for name in data[kind]) for kind in ("users", "items"))
        titles = None if data["titles"] is None else tuple(str(name) for name in data["titles"])
        mean, low, high = (float(data[name]) for name in ("mean", "low", "high"))
        if not users or not items or (titles is not None and len(titles) != len(items)) or not low <= mean <= high:
            raise ValueError("these are not the names of a run")
        return cls(users, items, mean, low, high, int(data["features"]), titles)


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
