"""Long short-term memory (Hochreiter & Schmidhuber 1997; forget gate: Gers 2000): a gated cell with an additive update.

STATE   h, c
UPDATE  i, f, o = σ(W x + U h + b);  g = tanh(W x + U h + b);  c ← f·c + i·g;  h ← o·tanh(c)
READ    y = h
GROWS   no
FAST    fused kernel
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..core.contract import Memory
from ..kernels.recurrent.gates import GATES
from .keywords import constructed_from
from .recurrent import Recurrent, RecurrentConfig, batch_first, layer_first


@dataclass(frozen=True, kw_only=True)
class Config(RecurrentConfig):
    """`forget_bias` is the initial bias of the forget gate, both biases together (torch: near 0; 1 forgets less)."""

    forget_bias: float = 0.0

    def build(self) -> "LSTM":
        return LSTM(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=6), cls(dim=5, width=4, num_layers=3, forget_bias=1.0), cls(dim=3, bias=False)


class State(NamedTuple):
    h: Tensor  # B L W
    c: Tensor  # B L W, float32 or better: it is a running sum


@constructed_from(Config)
class LSTM(Recurrent[State]):
    """The LSTM layer, any number deep; gradients pass along c where the forget gates are near 1."""

    config: Config

    def __init__(self, config: Config) -> None:
        super().__init__(config, torch.lstm, torch.lstm_cell, nn.LSTM, gates=4, loop_gates=GATES["lstm"])
        if config.forget_bias and config.bias:
            with torch.no_grad():
                for level in self.levels:
                    getattr(self, f"bias_hh_l{level}")[self.width : 2 * self.width] = config.forget_bias
                    getattr(self, f"bias_ih_l{level}")[self.width : 2 * self.width] = 0

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        like = self.like(like)
        h = like.new_zeros(batch, len(self.levels), self.width)
        return State(h, torch.zeros_like(h, dtype=torch.promote_types(h.dtype, torch.float32)))

    def update(self, state: State, x: Tensor) -> State:
        hs, cs = [], []
        for level, (h, c) in enumerate(zip(state.h.unbind(1), state.c.unbind(1), strict=True)):
            i, f, g, o = self.gate(level, x, h)
            c = f * c + i * g
            x = (o * torch.tanh(c)).to(h.dtype)
            hs.append(x)
            cs.append(c)
            x = self.drop(x, level)
        if len(hs) == 1:
            return State(hs[0][:, None], cs[0][:, None])
        return State(torch.stack(hs, dim=1), torch.stack(cs, dim=1))

    def read(self, state: State, x: Tensor) -> Tensor:
        return state.h[:, -1]

    def gate(self, level: int, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The input gate i, forget gate f, candidate g and output gate o of one layer: B W each."""
        i, f, g, o = self.sums(level, x, h).chunk(4, dim=-1)
        return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        hs, cs, below = [], [], x.squeeze(1)
        for level in self.levels:
            below, c = self.cell(below, (state.h.select(1, level), state.c.select(1, level)), *self.weights(level))
            hs.append(below)
            cs.append(c)
            below = self.drop(below, level)
        y = below.unsqueeze(1)
        if len(hs) == 1:
            return y.clone(), State(y, cs[0].unsqueeze(1))
        return y.clone(), State(torch.stack(hs, dim=1), torch.stack(cs, dim=1))

    def pack(self, state: State) -> tuple[Tensor, Tensor]:
        return layer_first(state.h), layer_first(state.c).to(state.h.dtype)

    def unpack(self, final: Any, state: State) -> State:
        return State(batch_first(final[0], state.h.dtype), batch_first(final[1], state.c.dtype))

    def compute_gates(self, level: int, x: Tensor, state: State) -> dict[str, Tensor]:
        names = "input", "forget", "candidate", "output"
        return dict(zip(names, self.gate(level, x, state.h[:, level]), strict=True))
