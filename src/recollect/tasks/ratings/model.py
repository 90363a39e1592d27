"""Ratings: users and items as vectors, a dot product as the score. The smallest picture of why attention works.

    score = mean + the user's bias + the item's bias + the user's vector · the item's vector

The vectors are learned, both; or the items' are hand-set features, and only how much each user likes a feature is
learned. A user or an item that was never seen has a vector and a bias of zeros, so what is known of the other remains.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...core.settings import ContractError, at_least, check_settings


@dataclass(frozen=True, kw_only=True)
class Config:
    """`dim` is that of the vectors (0: biases alone); with hand-set `features` it is their number that counts."""

    users: int
    items: int
    dim: int = at_least(0, default=8)
    bias: bool = True
    features: int = at_least(0, default=0)
    scale: float = 0.1  # of the first random vectors

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.width and not self.bias:
            raise ContractError("ratings: expected vectors or biases, found neither; set dim or bias")

    @property
    def width(self) -> int:
        return self.features or self.dim

    def build(self) -> "Ratings":
        return Ratings(self)


class Ratings(nn.Module):
    """Pairs of a user and an item in, scores out. There is no sequence, and so no state."""

    mean: Tensor
    features: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        # the last row of each table, which stays zero, is that of users and items without ratings
        self.register_buffer("mean", torch.zeros(()))
        if config.width:
            self.users = self._table(config.users, config.width)
            if config.features:
                self.register_buffer("features", torch.zeros(config.items + 1, config.features))
            else:
                self.items = self._table(config.items, config.width)
        if config.bias:
            self.user_bias, self.item_bias = (self._table(count, 1) for count in (config.users, config.items))
            for table in (self.user_bias, self.item_bias):
                nn.init.zeros_(table.weight)

    def _table(self, count: int, width: int) -> nn.Embedding:
        table = nn.Embedding(count + 1, width, padding_idx=count)
        nn.init.normal_(table.weight, std=self.config.scale)
        with torch.no_grad():
            table.weight[count] = 0
        return table

    def set_mean(self, mean: float) -> None:
        """The mean of the training ratings: with biases, what a score starts from."""
        if self.config.bias:
            self.mean.fill_(mean)

    def set_features(self, features: Tensor) -> None:
        """The hand-set features: items, features."""
        if tuple(features.shape) != (self.config.items, self.config.features):
            raise ContractError(
                f"ratings: expected features of shape {(self.config.items, self.config.features)}, "
                f"found {tuple(features.shape)}"
            )
        self.features[:-1] = features

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Numbers of users and of items, of one shape → scores of that shape."""
        score = self.mean.expand(users.shape)
        if self.config.width:
            score = score + (self.users(users) * self.item_vectors(items)).sum(dim=-1)
        if self.config.bias:
            score = score + self.user_bias(users)[..., 0] + self.item_bias(items)[..., 0]
        return score

    def item_vectors(self, items: Tensor) -> Tensor:
        return self.features[items] if self.config.features else self.items(items)

    def vectors(self) -> tuple[Tensor, Tensor]:
        """The vectors of all users and of all items that were seen: U D, I D."""
        if not self.config.width:
            raise ContractError("ratings: expected a model with vectors, found one of biases alone")
        every = torch.arange(self.config.items, device=self.mean.device)
        return self.users.weight[:-1].detach(), self.item_vectors(every).detach()


class Axes(NamedTuple):
    """The same vectors along axes of their own, whatever axes they were learned along."""

    strength: Tensor  # D, falling: how much each axis moves the scores
    users: Tensor  # U D
    items: Tensor  # I D


def axes(users: Tensor, items: Tensor) -> Axes:
    """The singular vectors of the scores P·Qᵀ, without that matrix.

    Turning users and items by one rotation, or stretching one and shrinking the other, changes no score; so a learned
    dimension alone means nothing. These axes stay the same.
    """
    users, items = users.double(), items.double()
    p, left = torch.linalg.qr(users)
    q, right = torch.linalg.qr(items)
    u, strength, v = torch.linalg.svd(left @ right.mT)
    of_items = q @ v.mT
    # a sign that every machine agrees on: the largest entry of an axis is positive
    sign = of_items.gather(0, of_items.abs().argmax(dim=0, keepdim=True)).sign()
    return Axes(strength, (p @ u) * sign, of_items * sign)


class Recovery(NamedTuple):
    """How much of the true features the learned vectors hold."""

    rotated: float  # the share of their variance explained after the best rotation and one scale
    canonical: float  # the smallest canonical correlation: 1 if some linear map gives them exactly
    alone: float  # the mean over true features of the best correlation with a single learned dimension


def recovery(found: Tensor, true: Tensor) -> Recovery:
    """Hold learned vectors (N D) to true ones (N K ≤ D)."""
    found, true = (x.double() - x.double().mean(dim=0) for x in (found, true))
    if true.shape[1] < found.shape[1]:
        true = torch.cat([true, true.new_zeros(len(true), found.shape[1] - true.shape[1])], dim=1)
    # orthogonal Procrustes: the rotation is u·v, the best scale the sum of singular values over ‖found‖²
    _, strength, _ = torch.linalg.svd(found.mT @ true)
    rotated = float(strength.sum() ** 2 / (found.square().sum() * true.square().sum()))
    true = true[:, true.square().sum(dim=0) > 0]
    q, _ = torch.linalg.qr(found)
    p, _ = torch.linalg.qr(true)
    canonical = float(torch.linalg.svdvals(q.mT @ p).min().clamp(max=1))
    length = found.norm(dim=0)[:, None] * true.norm(dim=0)
    alone = ((found.mT @ true) / length.clamp(min=1e-12)).abs().max(dim=0).values.mean()
    return Recovery(rotated, canonical, float(alone))
