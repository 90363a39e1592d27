"""The minimal LSTM (Feng 2024): forget and input gate see the input alone and share what there is to keep.

STATE   h
UPDATE  f, i = σ(W x + b);  n = W_n x + b, or its positive form;  h ← (f·h + i·n) / (f + i), or without the denominator
READ    y = h
GROWS   no
FAST    scan
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..core.contract import Memory
from .keywords import constructed_from
from .scanned import Scanned, ScannedConfig


@dataclass(frozen=True, kw_only=True)
class Config(ScannedConfig):
    """`normalise` divides both gates by their sum, so that h stays as large as its candidates at any length."""

    normalise: bool = True

    def build(self) -> "MinLSTM":
        return MinLSTM(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=6),
            cls(dim=5, width=4, candidate="positive"),
            cls(dim=3, bias=False, normalise=False),
            cls(dim=4, forget_bias=30.0, normalise=False),  # what is kept is 1 to the last bits
            cls(dim=4, forget_bias=-30.0),  # nothing is kept
        )


class State(NamedTuple):
    h: Tensor  # B W, float32 or better


@constructed_from(Config)
class MinLSTM(Scanned[State]):
    """An LSTM without a cell beside h, whose gates and candidate are functions of x alone."""

    config: Config

    def __init__(self, config: Config) -> None:
        super().__init__(config, gates=3)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        return State(self.zeros(batch, like))

    def compute_gates(self, x: Tensor, state: State) -> dict[str, Tensor]:
        """f/(f+i) is σ(log f − log i): where both gates are too small for a number, their shares are not."""
        f, i, n = self.blocks(x, state)
        f = f + self.config.forget_bias
        if self.config.normalise:
            ahead = logsigmoid(f) - logsigmoid(i)
            forget, write = torch.sigmoid(ahead), torch.sigmoid(-ahead)
        else:
            forget, write = torch.sigmoid(f), torch.sigmoid(i)
        return {"forget": forget, "input": write, "candidate": self.propose(n)}

    def mix(self, gates: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return gates["forget"], gates["input"] * gates["candidate"]
