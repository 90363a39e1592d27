"""A trained model of ratings in use: scores of items by users, and the best items for a user."""

# what a program gives is checked whatever its type says
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from ...core.errors import RecollectError
from ...core.trained import Array, TrainedModel
from .rated import Artifacts, load_artifacts


class RatingModel(TrainedModel):
    """A model of ratings: how a user would rate an item, and which items a user would rate best."""

    methods = ("rate", "recommend")

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


MODELS = {"ratings": RatingModel}
