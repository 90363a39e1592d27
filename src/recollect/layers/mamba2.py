"""Mamba-2 (Dao 2024): the state space model whose state is a matrix that fades and is written by the same step.

STATE   S (d × d of each head)
UPDATE  S ← α S + Δ k vᵀ,  Δ = softplus(w·x + b),  α = exp(−A·Δ)
READ    y = W_o norm(silu(W_g x) · (Sᵀ q + D v))
GROWS   no
FAST    chunked: attention inside a chunk, a matrix between chunks

In the paper's letters k, q, v and S are B, C, x and h; B and C are shared by all heads, D is one number for each, and
the norm is one of all heads together. The short convolution of the paper stands before the layer (`taps` of a model);
the SiLU behind it is not there.
"""

from dataclasses import dataclass
from typing import Self

from . import matrix
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(matrix.Config):
    """The dials of a matrix memory, set as Mamba-2 has them."""

    forget: matrix.ForgetName = "step"
    tied: bool = True
    shared: bool = True
    out_norm: bool = True
    out_gate: bool = True
    norm_last: bool = True
    skip: bool = True

    def build(self) -> "Mamba2":
        return Mamba2(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=6, heads=2), cls(dim=4, heads=2, head_dim=3, signed=True, shared=False, out_norm=False)


@constructed_from(Config)
class Mamba2(matrix.Matrix):
    """A matrix of keys and values that fades and is written by the same step."""
