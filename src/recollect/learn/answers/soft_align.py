"""Soft alignment, align-first (Bahdanau 2015): a recurrent decoder that looks back at the whole source at every step.

STATE   h, context, projected source K
UPDATE  context ← Σ softmax(score(h, K))·V;  h ← cell([x, context], h)
READ    y = tanh(W [h, context])
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recollect.core import contract
from recollect.core.contract import Cell, ContractError, Cost, Memory


@dataclass(frozen=True, kw_only=True)
class Config(contract.Config):
    width: int = 4
    memory_dim: int = 3

    def build(self) -> "SoftAlign":
        return SoftAlign(self)


class State(NamedTuple):
    h: Tensor  # B W
    context: Tensor  # B M
    keys: Tensor  # B S W, the source as queries are compared with it
    values: Tensor  # B S M, the source
    valid: Tensor  # B S, true where the source holds something, false in the padding


class SoftAlign(Cell[State]):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dim, self.width, self.memory_dim = config.dim, config.width, config.memory_dim
        self.cell = nn.GRUCell(self.dim + self.memory_dim, self.width)  # self.cell(x, h) is the next h
        self.start = nn.Linear(self.memory_dim, self.width)  # the first h, from the mean of the source
        self.key = nn.Linear(self.memory_dim, self.width, bias=False)
        self.query = nn.Linear(self.width, self.width, bias=False)
        self.v = nn.Parameter(torch.randn(self.width))
        self.mix = nn.Linear(self.width + self.memory_dim, self.width)

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> State:
        if memory is None:
            raise ContractError("soft-align: expected the memory of an encoder, found none")
        mean = (memory.values * memory.valid[..., None]).sum(dim=1) / memory.valid.sum(dim=1, keepdim=True)
        h, keys = torch.tanh(self.start(mean)), self.key(memory.values)
        return State(h, torch.zeros_like(mean), keys, memory.values, memory.valid.clone())

    def scores(self, h: Tensor, keys: Tensor) -> Tensor:
        """e_i = v·tanh(W_q h + k_i)  # B S, one for each place of the source"""
        return torch.tanh(self.query(h)[:, None] + keys) @ self.v

    def weights(self, e: Tensor, valid: Tensor) -> Tensor:
        """α_i = exp e_i / Σ_j exp e_j  # over the places j that are valid; 0 in the padding"""
        return e.masked_fill(~valid, float("-inf")).softmax(dim=-1)

    def mixture(self, alpha: Tensor, values: Tensor) -> Tensor:
        """c = Σ_i α_i v_i  # B M"""
        return (alpha[..., None] * values).sum(dim=1)

    def update(self, state: State, x: Tensor) -> State:
        """context ← Σ softmax(score(h, K))·V;  h ← cell([x, context], h)"""
        alpha = self.weights(self.scores(state.h, state.keys), state.valid)
        context = self.mixture(alpha, state.values)
        h = self.cell(torch.cat([x, context], dim=-1), state.h)
        return state._replace(h=h, context=context)

    def read(self, state: State, x: Tensor) -> Tensor:
        """y = tanh(W [h, context])  # of the state after x"""
        return torch.tanh(self.mix(torch.cat([state.h, state.context], dim=-1)))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        wide, memory = self.width, self.memory_dim
        once = 2 * memory * wide * (source + 1)
        step = 6 * wide * (self.dim + memory + wide) + 2 * wide * wide + 2 * source * wide + 2 * wide * (wide + memory)
        kept = (wide + memory + source * (wide + memory)) * self.element_size() + source
        return Cost(batch * (once + steps * step), batch * kept)
