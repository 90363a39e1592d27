"""DeltaNet (Schlag 2021, Yang 2024): a matrix of keys and values in which a write replaces what the key held.

STATE   S (d × d of each head)
UPDATE  S ← S + β k (v − Sᵀ k)ᵀ,  β = σ(w·x + b),  ‖k‖ = 1
READ    y = W_o norm(Sᵀ q),  ‖q‖ = 1
GROWS   no
FAST    chunked: a triangular system inside a chunk, a matrix between chunks

Sᵀ k is what the memory answers to the key; β of the difference is corrected. S is multiplied by I − β k kᵀ, whose
eigenvalue at k is 1 − β: in (0, 1), or with `beta=2` in (−1, 1).
"""

from dataclasses import dataclass
from typing import Literal, Self

from . import matrix
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(matrix.Config):
    """The dials of a matrix memory, set as DeltaNet has them."""

    write: Literal["add", "delta"] = "delta"
    beta: float | None = 1.0
    feature: matrix.FeatureName = "silu"
    unit: bool = True
    out_norm: bool = True

    def build(self) -> "DeltaNet":
        return DeltaNet(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=6, heads=2), cls(dim=4, heads=2, head_dim=3, beta=2.0, feature="identity", out_norm=False)


@constructed_from(Config)
class DeltaNet(matrix.Matrix):
    """A matrix of keys and values in which a write replaces what the key held."""
