"""The plain recurrent layer (Elman 1990): one vector for all inputs so far, overwritten at each step.

STATE   h
UPDATE  h ← φ(W x + U h + b), φ = tanh or relu
READ    y = h
GROWS   no
FAST    fused kernel
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..core.contract import Memory
from ..kernels.recurrent.gates import GATES
from .keywords import constructed_from
from .recurrent import HiddenAlone, RecurrentConfig


@dataclass(frozen=True, kw_only=True)
class Config(RecurrentConfig):
    nonlinearity: Literal["tanh", "relu"] = "tanh"

    def build(self) -> "RNN":
        return RNN(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=6), cls(dim=5, width=4, num_layers=3, nonlinearity="relu"), cls(dim=3, bias=False)


class State(NamedTuple):
    h: Tensor  # B L W


@constructed_from(Config)
class RNN(HiddenAlone[State]):
    """Elman's layer, any number deep."""

    config: Config

    def __init__(self, config: Config) -> None:
        kernel = torch.rnn_tanh if config.nonlinearity == "tanh" else torch.rnn_relu
        cell = torch.rnn_tanh_cell if config.nonlinearity == "tanh" else torch.rnn_relu_cell
        loop_gates = GATES["rnn"] if config.nonlinearity == "tanh" else None
        super().__init__(config, kernel, cell, nn.RNN, gates=1, loop_gates=loop_gates, nonlinearity=config.nonlinearity)
        self.activation = torch.tanh if config.nonlinearity == "tanh" else torch.relu

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        return State(self.like(like).new_zeros(batch, len(self.levels), self.width))

    def update(self, state: State, x: Tensor) -> State:
        new = []
        for level in self.levels:
            h = state.h[:, level]
            x = self.activation(self.sums(level, x, h)).to(h.dtype)
            new.append(x)
            x = self.drop(x, level)
        return State(torch.stack(new, dim=1))

    def read(self, state: State, x: Tensor) -> Tensor:
        return state.h[:, -1]

    def compute_gates(self, level: int, x: Tensor, state: State) -> dict[str, Tensor]:
        """`slope` of each unit: the derivative of its nonlinearity."""
        sums = self.sums(level, x, state.h[:, level])
        slope = 1 - torch.tanh(sums) ** 2 if self.config.nonlinearity == "tanh" else (sums > 0).to(sums)
        return {"slope": slope}
