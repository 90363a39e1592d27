"""Retention (RetNet, Sun 2023): a matrix of keys and values that fades at a fixed rate.

STATE   S (d × d of each head), clock
UPDATE  S ← γ S + k vᵀ,  γ = 1 − 2^(−5−h) for head h
READ    y = W_o (silu(W_g x) · norm(Sᵀ q))
GROWS   no
FAST    chunked: attention inside a chunk, a matrix between chunks

Keys and queries are turned by their place (rotary), as in the paper: their products depend on distances alone. The
rates are not learned; each head has a horizon of its own, 32 steps and twice as many from head to head.
"""

from dataclasses import dataclass
from typing import Self

from . import matrix
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(matrix.Config):
    """The dials of a matrix memory, set as retention has them."""

    forget: matrix.ForgetName = "fixed"
    rotary: bool = True
    out_norm: bool = True
    out_gate: bool = True

    def build(self) -> "Retention":
        return Retention(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=8, heads=2), cls(dim=4, heads=2, width=3, signed=True, rotary=False, out_gate=False)


@constructed_from(Config)
class Retention(matrix.Matrix):
    """A matrix of keys and values that fades at a fixed rate."""
