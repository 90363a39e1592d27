"""Gated DeltaNet (Yang 2025): a matrix that fades as the input says, and in which a write replaces what the key held.

STATE   S (d × d of each head)
UPDATE  S ← α S;  S ← S + β k (v − Sᵀ k)ᵀ,  α = exp(−A·softplus(w·x + b)),  β = σ(u·x + c),  ‖k‖ = 1
READ    y = W_o (silu(W_g x) · norm(Sᵀ q)),  ‖q‖ = 1
GROWS   no
FAST    chunked: a triangular system inside a chunk, a matrix between chunks
"""

from dataclasses import dataclass
from typing import Literal, Self

from . import matrix
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(matrix.Config):
    """The dials of a matrix memory, set as Gated DeltaNet has them."""

    forget: matrix.ForgetName = "step"
    write: Literal["add", "delta"] = "delta"
    beta: float | None = 1.0
    feature: matrix.FeatureName = "silu"
    unit: bool = True
    out_norm: bool = True
    out_gate: bool = True

    def build(self) -> "GatedDeltaNet":
        return GatedDeltaNet(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=6, heads=2), cls(dim=4, heads=2, head_dim=3, beta=2.0, signed=True, out_gate=False)


@constructed_from(Config)
class GatedDeltaNet(matrix.Matrix):
    """A matrix that fades as the input says, and in which a write replaces what the key held."""
