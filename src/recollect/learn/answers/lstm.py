"""Long short-term memory: a gated cell with an additive update.

STATE   h, c
UPDATE  i, f, o = σ(W x + U h + b);  g = tanh(W x + U h + b);  c ← f·c + i·g;  h ← o·tanh(c)
READ    y = h
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recollect.core import contract
from recollect.core.contract import Cell, Cost, Memory


@dataclass(frozen=True, kw_only=True)
class Config(contract.Config):
    width: int = 4

    def build(self) -> "LSTM":
        return LSTM(self)


class State(NamedTuple):
    h: Tensor  # B W
    c: Tensor  # B W


class LSTM(Cell[State]):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dim, self.width = config.dim, config.width
        # Stored so that W x is x @ self.W["i"], and U h is h @ self.U["i"]; the gates are i, f, o and g.
        self.W = nn.ParameterDict({gate: torch.randn(self.dim, self.width) / 2 for gate in "ifog"})
        self.U = nn.ParameterDict({gate: torch.randn(self.width, self.width) / 2 for gate in "ifog"})
        self.b = nn.ParameterDict({gate: torch.zeros(self.width) for gate in "ifog"})

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> State:
        zeros = self.like(like).new_zeros(batch, self.width)
        return State(zeros, zeros.clone())

    def input_gate(self, x: Tensor, h: Tensor) -> Tensor:
        """i = σ(W_i x + U_i h + b_i)"""
        return torch.sigmoid(x @ self.W["i"] + h @ self.U["i"] + self.b["i"])

    def forget_gate(self, x: Tensor, h: Tensor) -> Tensor:
        """f = σ(W_f x + U_f h + b_f)"""
        return torch.sigmoid(x @ self.W["f"] + h @ self.U["f"] + self.b["f"])

    def output_gate(self, x: Tensor, h: Tensor) -> Tensor:
        """o = σ(W_o x + U_o h + b_o)"""
        return torch.sigmoid(x @ self.W["o"] + h @ self.U["o"] + self.b["o"])

    def candidate(self, x: Tensor, h: Tensor) -> Tensor:
        """g = tanh(W_g x + U_g h + b_g)"""
        return torch.tanh(x @ self.W["g"] + h @ self.U["g"] + self.b["g"])

    def cell(self, i: Tensor, f: Tensor, g: Tensor, c: Tensor) -> Tensor:
        """c ← f·c + i·g"""
        return f * c + i * g

    def hidden(self, o: Tensor, c: Tensor) -> Tensor:
        """h ← o·tanh(c)"""
        return o * torch.tanh(c)

    def update(self, state: State, x: Tensor) -> State:
        """c ← f·c + i·g;  h ← o·tanh(c)  # the state after x, of the state before it"""
        i, f, g = self.input_gate(x, state.h), self.forget_gate(x, state.h), self.candidate(x, state.h)
        c = self.cell(i, f, g, state.c)
        return State(self.hidden(self.output_gate(x, state.h), c), c)

    def read(self, state: State, x: Tensor) -> Tensor:
        """y = h  # of the state after x"""
        return state.h

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        flops = 8 * batch * steps * self.width * (self.dim + self.width)
        return Cost(flops, 2 * batch * self.width * self.element_size())
