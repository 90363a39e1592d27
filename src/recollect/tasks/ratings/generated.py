"""Ratings generated from known features: score = 3.5 + user's bias + item's bias + features · features + noise."""

import numpy as np

from ...data.files import DataError
from .rated import Artifacts, Rows, Truth
from .settings import DataConfig


def generate(config: DataConfig) -> tuple[Rows, Truth]:
    """Ratings of pairs drawn without repetition, and the features that they were made from."""
    if not 1 <= config.ratings <= config.users * config.items:
        raise DataError(
            f"expected from 1 to users × items = {config.users * config.items:,} ratings, found {config.ratings:,}"
        )
    draw = np.random.default_rng(config.data_seed)
    size = (config.spread**2 / config.rank) ** 0.25  # so that the dot product has the standard deviation `spread`
    truth = Truth(
        draw.normal(0, size, (config.users, config.rank)),
        draw.normal(0, size, (config.items, config.rank)),
        draw.normal(0, config.true_bias, config.users),
        draw.normal(0, config.true_bias, config.items),
        config.noise,
    )
    pairs = np.sort(draw.choice(config.users * config.items, config.ratings, replace=False))
    users, items = pairs // config.items, pairs % config.items
    scores = 3.5 + truth.user_bias[users] + truth.item_bias[items] + (truth.users[users] * truth.items[items]).sum(1)
    scores = scores + draw.normal(0, config.noise, config.ratings)
    names = [
        [f"{kind}{n + 1}" for n in range(count)] for kind, count in (("user", config.users), ("item", config.items))
    ]
    return Rows(names[0], names[1], users, items, scores.astype(np.float32)), truth


def select_truth(truth: Truth, rows: Rows, artifacts: Artifacts) -> Truth:
    """The true features of the run's users and items, in the order of their numbers."""
    users, items = (
        np.array([place[name] for name in names])
        for place, names in (
            ({name: n for n, name in enumerate(rows.user_names)}, artifacts.users),
            ({name: n for n, name in enumerate(rows.item_names)}, artifacts.items),
        )
    )
    return Truth(truth.users[users], truth.items[items], truth.user_bias[users], truth.item_bias[items], truth.noise)
