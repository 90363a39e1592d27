"""From the cells of a frame to one vector of it.

    flat        a linear map of all cells side by side: it has weights of its own for each cell
    mean        the mean of a linear map of each cell
    max         the largest number of each channel of a linear map, wherever it is
    attention   for each of `heads` a learned query decides how much each cell counts (Lin 2017)

All but the first see the same thing alike wherever it is; sinusoids say where.
"""

from typing import Literal

import torch
from einops import einsum, rearrange
from torch import Tensor, nn

PoolName = Literal["flat", "mean", "max", "attention"]


class Pool(nn.Module):
    """N S C → N 1 D."""

    def __init__(self, kind: PoolName, cells: int, channels: int, width: int, heads: int) -> None:
        super().__init__()
        self.kind: PoolName = kind
        self.enter = nn.Linear(channels * (cells if kind == "flat" else 1), width)
        self.query = nn.Linear(channels, heads) if kind == "attention" else None

    def forward(self, cells: Tensor) -> Tensor:
        if self.kind == "flat":
            return self.enter(cells.flatten(1)[:, None])
        entered = self.enter(cells)
        if self.query is not None:
            parts = rearrange(entered, "n s (h d) -> n s h d", h=self.query.out_features)
            return rearrange(einsum(self.weights(cells), parts, "n s h, n s h d -> n h d"), "n h d -> n 1 (h d)")
        return entered.amax(dim=1, keepdim=True) if self.kind == "max" else entered.mean(dim=1, keepdim=True)

    def weights(self, cells: Tensor) -> Tensor:
        """N S H: how much each head takes of each cell."""
        assert self.query is not None
        return torch.softmax(self.query(cells), dim=1)
