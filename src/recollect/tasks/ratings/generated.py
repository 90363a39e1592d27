"""Ratings generated from known features: score = 3.5 + user's bias + item's bias + features · features + noise."""

import numpy as np

from ...core.limits import check_fits
from ...core.typed import show
from ...data.errors import DataError
from .rated import Artifacts, Rows, Truth
from .settings import DataConfig


def generate(config: DataConfig) -> tuple[Rows, Truth]:
    """Ratings of pairs drawn without repetition, and the features that they were made from."""
    if not 1 <= config.ratings <= config.users * config.items:
        raise DataError(
            f"expected from 1 to users × items = {config.users * config.items:,} ratings, found {config.ratings:,}"
        )
    _check_fits(config)
    draw = np.random.default_rng(config.data_seed)
    size = (config.spread**2 / config.rank) ** 0.25  # so that the dot product has the standard deviation `spread`
    truth = Truth(
        draw.normal(0, size, (config.users, config.rank)),
        draw.normal(0, size, (config.items, config.rank)),
        draw.normal(0, config.true_bias, config.users),
        draw.normal(0, config.true_bias, config.items),
        config.noise,
    )
    chosen = np.sort(draw.choice(config.users * config.items, config.ratings, replace=False))
    users, items = chosen // config.items, chosen % config.items
    scores = 3.5 + truth.user_bias[users] + truth.item_bias[items] + (truth.users[users] * truth.items[items]).sum(1)
    scores = scores + draw.normal(0, config.noise, config.ratings)
    names = [
        [f"{kind}{n + 1}" for n in range(count)] for kind, count in (("user", config.users), ("item", config.items))
    ]
    return Rows(names[0], names[1], users, items, scores.astype(np.float32)), truth


def _check_fits(config: DataConfig) -> None:
    """Refuse ratings that cannot be drawn in memory: features, names, and numbers of the pairs to draw from."""
    people = config.users + config.items
    pairs = config.users * config.items
    drawn = pairs if config.ratings > pairs // 50 else 8 * config.ratings  # all pairs in any order, or a set of some
    size = 8 * (people * config.rank + drawn + config.ratings * (config.rank + 4)) + 80 * people
    what = f"{config.ratings:,} ratings of {config.items:,} items by {config.users:,} users"
    check_fits(size, f"{what}, rank {config.rank:,}", "lower users, items, ratings or rank")


def check_names(rows: Rows, artifacts: Artifacts) -> None:
    """Refuse users and items of a run that generated ratings do not have: nothing true is known of them."""
    for kind, known, names in (("user", rows.user_names, artifacts.users), ("item", rows.item_names, artifacts.items)):
        there = set(known)
        unknown = next((name for name in names if name not in there), None)
        if unknown is not None:
            raise DataError(
                f"expected a run on generated ratings with these settings, found one with the {kind} {show(unknown)}, "
                "which they do not have; name its data with --data"
            )


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
