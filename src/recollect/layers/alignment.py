"""Alignments: from attention scores to attention weights.

softmax   a positive weight for every key
hard      weight 1 for the best key (Xu 2015); the gradient is that of the softmax (straight through)
local     softmax times a bell around a centre (Luong 2015): the query's own position, or for a source
          the place predicted from the query, p = S·σ(v·tanh(W q))
"""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

AlignmentName = Literal["softmax", "hard", "local"]


class Places(NamedTuple):
    """Positions of queries and keys, and which keys each query may attend to."""

    visible: Tensor  # B|1 T|1 S
    query: Tensor  # B|1 T, positions
    key: Tensor  # B|1 S, positions; negative in empty slots

    def offset(self) -> Tensor:
        """B|1 T S: key position minus query position."""
        return self.key[:, None] - self.query[:, :, None]


class Alignment(nn.Module, ABC):
    plain = False  # whether fused kernels support it

    @abstractmethod
    def forward(self, scores: Tensor, q: Tensor, places: Places) -> Tensor:
        """Scores B H T S → weights B H T S, 0 where not visible."""

    def flops(self, heads: int, head_dim: int, queries: int) -> int:
        """Matrix-product FLOPs beyond the scores."""
        return 0

    @staticmethod
    def softmax(scores: Tensor, places: Places) -> Tensor:
        return scores.masked_fill(~places.visible[:, None], float("-inf")).softmax(dim=-1)


class Softmax(Alignment):
    plain = True

    def forward(self, scores: Tensor, q: Tensor, places: Places) -> Tensor:
        return self.softmax(scores, places)


class Hard(Alignment):
    def forward(self, scores: Tensor, q: Tensor, places: Places) -> Tensor:
        soft = self.softmax(scores, places)
        hard = torch.zeros_like(soft).scatter(-1, soft.argmax(dim=-1, keepdim=True), 1.0)
        return hard + soft - soft.detach() if soft.requires_grad else hard


class Local(Alignment):
    def __init__(self, heads: int, head_dim: int, window: int, predict: bool) -> None:
        super().__init__()
        self.window = window
        self.predict = predict
        if predict:
            self.weight = nn.Parameter(torch.randn(heads, head_dim, head_dim) / head_dim**0.5)
            self.vector = nn.Parameter(torch.randn(heads, head_dim, 1) / head_dim**0.5)

    def forward(self, scores: Tensor, q: Tensor, places: Places) -> Tensor:
        if self.predict:
            length = places.visible.sum(dim=-1)[:, None].to(scores.dtype)  # B 1 T|1
            centre = length * torch.sigmoid(torch.tanh(q @ self.weight) @ self.vector)[..., 0]  # B H T
            distance = places.key[:, None, None] - centre[..., None]  # B H T S
        else:
            distance = places.offset()[:, None].to(scores.dtype)
        bell = torch.exp(-(distance**2) / (2 * (self.window / 2) ** 2))
        return self.softmax(scores, places) * bell * (distance.abs() <= self.window)

    def flops(self, heads: int, head_dim: int, queries: int) -> int:
        return 2 * queries * heads * (head_dim**2 + head_dim) if self.predict else 0


def build_alignment(name: AlignmentName, heads: int, head_dim: int, window: int, *, predict: bool = False) -> Alignment:
    if name == "local":
        return Local(heads, head_dim, window, predict)
    return Hard() if name == "hard" else Softmax()
