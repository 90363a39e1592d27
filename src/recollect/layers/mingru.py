"""The minimal GRU (Feng 2024): its gate sees the input alone, so that all steps can be computed at once.

STATE   h
UPDATE  z = σ(W_z x + b);  n = W_n x + b, or its positive form;  h ← (1−z)·h + z·n
READ    y = h
GROWS   no
FAST    scan
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from ..core.contract import Memory
from .keywords import constructed_from
from .scanned import Scanned, ScannedConfig


@dataclass(frozen=True, kw_only=True)
class Config(ScannedConfig):
    def build(self) -> "MinGRU":
        return MinGRU(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=6),
            cls(dim=5, width=4, candidate="positive"),
            cls(dim=3, bias=False),
            cls(dim=4, forget_bias=30.0),  # what is kept is 1 to the last bits
            cls(dim=4, forget_bias=-30.0),  # nothing is kept
        )


class State(NamedTuple):
    h: Tensor  # B W, float32 or better


@constructed_from(Config)
class MinGRU(Scanned[State]):
    """A GRU without a reset gate, whose update gate and candidate are functions of x alone."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, gates=2)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        return State(self.zeros(batch, like))

    def compute_gates(self, x: Tensor, state: State) -> dict[str, Tensor]:
        """`keep` = 1 − z is computed as σ(−a), so that neither loses its bits where the other is near 1."""
        a, n = self.blocks(x, state)
        a = a - self.config.forget_bias
        return {"keep": torch.sigmoid(-a), "update": torch.sigmoid(a), "candidate": self.propose(n)}

    def mix(self, gates: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return gates["keep"], gates["update"] * gates["candidate"]
