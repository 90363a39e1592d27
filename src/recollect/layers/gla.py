"""Gated linear attention (Yang 2023): a matrix of keys and values, each row of which fades as the input says.

STATE   S (d × d of each head)
UPDATE  S ← diag(α) S + k vᵀ,  α = σ(W₂ W₁ x + b)^(1/16) for each channel of k
READ    y = W_o (silu(W_g x) · norm(Sᵀ q))
GROWS   no
FAST    chunked: attention inside a chunk, a matrix between chunks
"""

from dataclasses import dataclass
from typing import Self

from . import matrix
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(matrix.Config):
    """The dials of a matrix memory, set as gated linear attention has them."""

    forget: matrix.ForgetName = "channel"
    rank: int | None = 16
    out_norm: bool = True
    out_gate: bool = True

    def build(self) -> "GLA":
        return GLA(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=6, heads=2, rank=2), cls(dim=4, head_dim=3, width=5, rank=None, signed=True, out_norm=False)


@constructed_from(Config)
class GLA(matrix.Matrix):
    """A matrix of keys and values, each row of which fades as the input says."""
