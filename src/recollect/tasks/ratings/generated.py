"""Ratings generated from known features."""

from dataclasses import dataclass

import numpy as np

from ...data.files import DataError
from .rated import Artifacts, Rows, Truth


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


def generate(made: Made) -> tuple[Rows, Truth]:
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
    return Rows(names[0], names[1], users, items, scores.astype(np.float32)), truth


def in_order(truth: Truth, rows: Rows, kept: Artifacts) -> Truth:
    """The true features of the run's users and items, in the order of their numbers."""
    users, items = (
        np.array([place[name] for name in names])
        for place, names in (
            ({name: n for n, name in enumerate(rows.user_names)}, kept.users),
            ({name: n for n, name in enumerate(rows.item_names)}, kept.items),
        )
    )
    return Truth(truth.users[users], truth.items[items], truth.user_bias[users], truth.item_bias[items], truth.noise)
