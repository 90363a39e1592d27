"""How well a query and a key fit: the four scores of the literature.

    dot       q·k
    scaled    q·k / √d        (Vaswani 2017)
    general   q·W k           (Luong 2015, bilinear)
    additive  v·tanh(q + k)   (Bahdanau 2015: a small MLP; W_q and W_k are the projections that made q and k)

Each maps q (B H T D) and k (B H S D) to scores (B H T S).
"""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from einops import einsum
from torch import Tensor, nn

from ..core.contract import ContractError

ScoreName = Literal["scaled", "dot", "additive", "general"]


class Score(nn.Module, ABC):
    @abstractmethod
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """B H T D, B H S D → B H T S."""

    is_dot = False  # whether `as_dot` can be had

    def as_dot(self, q: Tensor) -> tuple[Tensor, float]:
        """A query and a scale with which the score is a plain dot product (fused kernels know only that)."""
        raise ContractError(f"{type(self).__name__}: expected a score that is a dot product, found one that is not")

    def flops(self, heads: int, head_dim: int, queries: int, pairs: int) -> int:
        """Matrix-product FLOPs for `queries` queries and `pairs` query–key pairs."""
        return 2 * heads * head_dim * pairs


class Dot(Score):
    is_dot = True

    def __init__(self, heads: int, head_dim: int, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (q * self.scale) @ k.mT

    def as_dot(self, q: Tensor) -> tuple[Tensor, float]:
        return q, self.scale


class General(Score):
    is_dot = True

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, head_dim, head_dim) / head_dim)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ self.weight) @ k.mT

    def as_dot(self, q: Tensor) -> tuple[Tensor, float]:
        return q @ self.weight, 1.0

    def flops(self, heads: int, head_dim: int, queries: int, pairs: int) -> int:
        return super().flops(heads, head_dim, queries, pairs) + 2 * heads * head_dim**2 * queries


class Additive(Score):
    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, head_dim) / head_dim**0.5)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return einsum(torch.tanh(q[:, :, :, None] + k[:, :, None]), self.weight, "b h t s d, h d -> b h t s")


def build_score(name: ScoreName, heads: int, head_dim: int) -> Score:
    if name == "additive":
        return Additive(heads, head_dim)
    if name == "general":
        return General(heads, head_dim)
    return Dot(heads, head_dim, scale=head_dim**-0.5 if name == "scaled" else 1.0)
