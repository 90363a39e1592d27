"""A trained model of ratings in use: scores of items by users, and the best items for a user."""

# what a program gives is checked whatever its type says
# pyright: reportUnnecessaryIsInstance=false

import difflib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from ...core.errors import RecollectError
from ...core.trained import Array, TrainedModel
from .rated import Artifacts, load_artifacts


class RatingModel(TrainedModel):
    """A model of ratings: how a user would rate an item, and which items a user would rate best."""

    methods = ("rate", "recommend", "pair")

    def rate(self, users: str | int | Sequence[Any], items: str | int | Sequence[Any]) -> Any:
        """The expected rating of items by users, by their names in the data: a number for one pair, else an array.

        A user or an item that training had not seen is rated by what is known of the other.
        """
        one = not any(isinstance(names, list | tuple | np.ndarray) for names in (users, items))
        rows, columns = np.broadcast_arrays(self._numbers(users, "users"), self._numbers(items, "items"))
        scores = self._score(rows, columns).astype(np.float64).clip(self._names.low, self._names.high)
        return float(scores.ravel()[0]) if one else scores

    def recommend(self, user: str | int, count: int = 10) -> list[tuple[str, float]]:
        """The `count` items with the highest expected rating, with their titles."""
        names = self._names
        scores = np.asarray(self.rate([user], list(names.items)))
        best = np.argsort(-scores, kind="stable")[:count]
        return [(names.title(int(item)), float(scores[item])) for item in best]

    def pair(self, user: str | int, item: str | int) -> "Pair":
        """What the score of an item by a user is made of: both vectors, both biases, and the mean.

        >>> model = recollect.load("demo-ratings")
        >>> found = model.pair("user1", "item1")
        >>> len(found.user), len(found.item)
        (2, 2)
        """
        users, items = self._find(user, "users"), self._find(item, "items")
        return take_apart(self._source.run.model, users, items)

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of the `users` or `items` of the data, in the order of their numbers."""
        return tuple(getattr(self._names, kind))

    def title(self, item: str | int) -> str:
        """The title of an item, where the data have one; else its name."""
        return self._names.title(self._find(item, "items"))

    @property
    def scale(self) -> tuple[float, float]:
        """The lowest and the highest rating of the data."""
        return self._names.low, self._names.high

    def _find(self, name: str | int, kind: str) -> int:
        known: tuple[str, ...] = getattr(self._names, kind)
        if str(name) not in known:
            close = difflib.get_close_matches(str(name)[:200], known, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise RecollectError(
                f"{kind}: expected one of {len(known):,}, such as {known[0]!r}, found {name!r:.80}{meant}"
            )
        return known.index(str(name))

    def prepare(self, steps: int = 0) -> None:
        _ = self._names, self._score

    @cached_property
    def _names(self) -> Artifacts:
        return load_artifacts(self._source.artifacts)

    @cached_property
    def _score(self) -> Callable[[Array, Array], Array]:
        """The scores of pairs by their numbers."""
        if self._source.exported is None:
            return score_by_model(self._source.run.model, self._source.device)
        graph = self._source.exported.open_call("score", ["score"])
        return lambda users, items: graph(users=users, items=items)["score"]

    def _numbers(self, given: Any, kind: str) -> Array:
        """Numbers of users or items; that of those without ratings is the last."""
        if not isinstance(given, Iterable | int | np.integer):
            raise RecollectError(f"rate: expected {kind}, found {type(given).__name__}")
        known = {name: number for number, name in enumerate(getattr(self._names, kind))}
        wanted: list[Any] = [given] if isinstance(given, str | int | np.integer) else list(cast(Iterable[Any], given))
        if not wanted:
            raise RecollectError(f"rate: expected {kind}, found none")
        return np.array([known.get(str(name), len(known)) for name in wanted], np.int64)


def score_by_model(model: Any, device: str) -> Callable[[Array, Array], Array]:
    """The scores of pairs by the model's own call."""
    import torch

    def score(users: Array, items: Array) -> Array:
        with torch.no_grad():
            return model(torch.tensor(users, device=device), torch.tensor(items, device=device)).cpu().numpy()

    return score


class Pair(NamedTuple):
    """The parts of a score: mean + the user's bias + the item's bias + the user's vector · the item's vector."""

    user: Array  # D; empty of a model of biases alone
    item: Array
    user_bias: float
    item_bias: float
    mean: float

    @property
    def score(self) -> float:
        """Their sum, which no end of the scale cuts off."""
        return self.mean + self.user_bias + self.item_bias + float(self.user @ self.item)


def take_apart(model: Any, user: int, item: int) -> Pair:
    """The parts of a score, by the numbers of the user and of the item."""
    config = model.config
    mine = theirs = np.zeros(0)
    if config.width:
        mine, theirs = (
            vectors[number].double().cpu().numpy()
            for vectors, number in zip(model.vectors(), (user, item), strict=True)
        )
    biases = (0.0, 0.0)
    if config.bias:
        biases = model.user_bias.weight[user, 0].item(), model.item_bias.weight[item, 0].item()
    return Pair(mine, theirs, *biases, float(model.mean))


MODELS = {"ratings": RatingModel}
