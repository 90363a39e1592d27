"""The effect of what is known ahead: taken from the values before a model reads them, added to what it forecasts.

    z_t = x_t − g(k_t)          the model forecasts z, by any layer, step by step or at once
    x̂_t = ẑ_t + g(k_t)

g is the same function at every time: linear, or with one hidden layer, whose last map each series has for itself.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu


class Beside(NamedTuple):
    """Covariates of windows: each series' own (G = C), or one for all (G = 1)."""

    known: Tensor | None  # B L+H G K
    past: Tensor | None  # B L G P


class Effect(nn.Module):
    """g of K numbers that are known, for each of C series; it begins as nothing."""

    def __init__(self, known: int, series: int, hidden: int) -> None:
        super().__init__()
        self.read = nn.Linear(known, hidden) if hidden else None
        self.weight = nn.Parameter(torch.zeros(series, hidden or known))

    def forward(self, known: Tensor) -> Tensor:
        """known: B T G K → B T C."""
        h = known if self.read is None else gelu(self.read(known))
        return h[:, :, 0] @ self.weight.T if h.shape[2] == 1 else (h * self.weight).sum(dim=-1)

    @torch.no_grad()
    def solve(self, known: Tensor, values: Tensor, counts: Tensor | None, ridge: float = 1e-4) -> None:
        """The linear effect by least squares on all values (known N G K, values and counts N C), beside a constant."""
        for c in range(values.shape[1]):
            x = known[:, c if known.shape[1] > 1 else 0].double()
            y = values[:, c].double()
            if counts is not None:
                x, y = x[counts[:, c]], y[counts[:, c]]
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
            penalty = torch.eye(x.shape[1], dtype=x.dtype, device=x.device) * ridge * max(len(x), 1)
            penalty[-1, -1] = 0
            square = (x.T @ x + penalty).cpu()
            weights = torch.linalg.pinv(square, rtol=1e-13, hermitian=True) @ (x.T @ y).cpu()
            self.weight[c].copy_(weights[:-1])
