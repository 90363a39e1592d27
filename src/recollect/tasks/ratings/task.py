"""Ratings: say how a user would rate an item, from all other ratings.

RMSE is the root of the mean squared distance to the rating that was given, MAE the mean distance; a score beyond the
lowest or highest training rating counts as that rating.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...core.contract import ContractError, check_settings
from ...core.task import Loss
from ...data.files import DataError
from . import model as models
from .rated import Part, Ratings


@dataclass(frozen=True, kw_only=True)
class Config:
    """The dampings say with how many ratings of nothing unusual the closed-form biases of the baseline are mixed."""

    batch: int = 1024
    eval_batch: int = 65_536
    item_damping: float = 25.0
    user_damping: float = 10.0

    def __post_init__(self) -> None:
        check_settings(self)
        if min(self.item_damping, self.user_damping) < 0:
            raise ContractError("ratings: expected item_damping and user_damping of at least 0, found less")


class Batch(NamedTuple):
    users: Tensor  # B
    items: Tensor  # B
    y: Tensor  # B
    number: int = 0


class RatingsTask:
    """Ratings to foretell."""

    name = "ratings"
    in_nats = False
    metric = "rmse"
    repeats = True

    def __init__(self, config: Config, data: Ratings, device: torch.device | str = "cpu") -> None:
        self.config, self.data, self.device = config, data, torch.device(device)
        self.parts: dict[str, tuple[Tensor, ...]] = {}

    def part(self, split: str) -> Part:
        if split not in ("train", "valid", "test"):
            raise DataError(f"{self.data.name}: expected a split out of train, valid, test, found {split!r}")
        return getattr(self.data, split)

    def tensors(self, split: str) -> tuple[Tensor, ...]:
        """Users, items and scores on the device."""
        if split not in self.parts:
            self.parts[split] = tuple(torch.from_numpy(column).to(self.device) for column in self.part(split))
        return self.parts[split]

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Every rating once an epoch, but for a last batch that would be too small; in another order each time."""
        columns = self.tensors(split)
        total = len(columns[0])
        each = min(self.config.batch, total)
        count = total // each
        number, epoch, order = start, -1, torch.zeros(0)
        while True:
            if number // count != epoch:
                epoch = number // count
                order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(total)).to(self.device)
            rows = order[number % count * each :][:each]
            users, items, scores = (column[rows] for column in columns)
            yield Batch(users, items, scores, number)
            number += 1

    def loss(self, model: nn.Module, batch: Batch, carry: Any = None) -> Loss:
        return Loss((model(batch.users, batch.items) - batch.y).square().mean(), len(batch.y))

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return (len(batch.y),)

    def flops(self, model: models.Ratings, *shape: int) -> float:
        return 2 * shape[0] * model.config.width

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        users, items, _ = self.tensors(split)
        size = self.config.eval_batch
        scores = torch.cat([model(users[at : at + size], items[at : at + size]) for at in range(0, len(users), size)])
        found = self.judge(scores.double().cpu().numpy(), split)
        if self.data.truth is not None and isinstance(model, models.Ratings) and model.config.dim:
            found |= self.recovered(model)
        return found | {"ratings": len(users), "rule": self.rule(split)}

    def judge(self, scores: np.ndarray, split: str) -> dict[str, Any]:
        """RMSE and MAE of scores for every rating of a split."""
        kept = self.data.kept
        away = np.clip(scores, kept.low, kept.high) - self.part(split).scores
        return {"rmse": float(np.sqrt(np.square(away).mean())), "mae": float(np.abs(away).mean())}

    def recovered(self, model: models.Ratings) -> dict[str, Any]:
        """How much of the features that the ratings were made from the vectors hold: of users and of items.

        Nothing is said where vectors are too short for it, or so few that any features could be fitted with them.
        """
        assert self.data.truth is not None
        found, truth = model.vectors(), (self.data.truth.users, self.data.truth.items)
        if not truth[0].shape[1] <= model.config.width < min(map(len, truth)):
            return {}
        return {
            f"{kind}_recovery": models.recovery(own.cpu(), torch.from_numpy(true))._asdict()
            for kind, own, true in zip(("user", "item"), found, truth, strict=True)
        }

    def rule(self, split: str) -> str:
        kept = self.data.kept
        return f"all {len(self.part(split).scores):,} ratings, scores held between {kept.low:g} and {kept.high:g}"

    def baselines(self, split: str) -> dict[str, float]:
        """RMSE of the mean rating for all, and of damped means of items and users."""
        part = self.part(split)
        found = {"mean": np.full(len(part.scores), self.data.kept.mean), "biases": self.by_biases(part)}
        guesses = {name: self.judge(scores, split)["rmse"] for name, scores in found.items()}
        # what no model can be better than, where it is known
        return guesses if self.data.truth is None else guesses | {"noise": self.data.truth.noise}

    def by_biases(self, part: Part) -> np.ndarray:
        """Scores from biases in closed form: what an item gets beyond the mean, then what a user gives beyond that."""
        train, kept = self.data.train, self.data.kept
        left = train.scores.astype(np.float64) - kept.mean
        items = _damped(train.items, left, len(kept.items), self.config.item_damping)
        users = _damped(train.users, left - items[train.items], len(kept.users), self.config.user_damping)
        return kept.mean + items[part.items] + users[part.users]


def _damped(owners: np.ndarray, left: np.ndarray, count: int, damping: float) -> np.ndarray:
    """Each owner's mean of what is left, drawn towards 0 as if by `damping` more ratings; 0 for who was never seen."""
    sums = np.bincount(owners, weights=left, minlength=count + 1)
    numbers = np.bincount(owners, minlength=count + 1)
    return np.where(numbers > 0, sums / np.maximum(numbers + damping, 1e-12), 0.0)
