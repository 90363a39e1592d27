"""Causal self-attention, one head: all keys and values are stored and weighted by their score with the query.

STATE   k, v of everything seen (the KV cache), clock
UPDATE  append k = W_k x, v = W_v x
READ    y = W_o Σ softmax(score(q, K))·V, q = W_q x, score(q, k) = q·k / √d
"""

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recollect.core import contract
from recollect.core.contract import Cell, Cost, Memory
from recollect.core.state import fit


@dataclass(frozen=True, kw_only=True)
class Config(contract.Config):
    def build(self) -> "Attention":
        return Attention(self)


class State(NamedTuple):
    keys: Tensor  # B N D
    values: Tensor  # B N D
    clock: Tensor  # B, int64: how many of the N slots are filled, in each row


class Attention(Cell[State]):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dim = self.width = config.dim
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(self.dim, self.dim, bias=False) for _ in range(4))

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> State:
        empty = self.like(like).new_zeros(batch, 0, self.dim)
        return State(empty, empty.clone(), torch.zeros(batch, dtype=torch.int64, device=empty.device))

    def append(self, slots: Tensor, new: Tensor, clock: Tensor) -> Tensor:
        """The slots (B N D) with `new` (B D) in the first one that is empty, in each row: B N+1 D."""
        at = clock[:, None, None].expand(-1, 1, self.dim)
        return fit(slots, slots.shape[1] + 1).scatter(1, at, new[:, None])

    def filled(self, state: State) -> Tensor:
        """B N: true where a slot holds something."""
        return torch.arange(state.keys.shape[1], device=state.clock.device) < state.clock[:, None]

    def query(self, x: Tensor) -> Tensor:
        """q = W_q x"""
        return self.W_q(x)

    def key(self, x: Tensor) -> Tensor:
        """k = W_k x"""
        return self.W_k(x)

    def value(self, x: Tensor) -> Tensor:
        """v = W_v x"""
        return self.W_v(x)

    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        """e_j = q·k_j / √d  # B N, one for each slot"""
        return (keys @ q[..., None])[..., 0] / sqrt(self.dim)

    def weights(self, e: Tensor, filled: Tensor) -> Tensor:
        """α_j = exp e_j / Σ_l exp e_l  # over the slots l that are filled; 0 where a slot is empty"""
        return e.masked_fill(~filled, float("-inf")).softmax(dim=-1)

    def mixture(self, alpha: Tensor, values: Tensor) -> Tensor:
        """Σ_j α_j v_j  # B D"""
        return (alpha[:, None] @ values)[:, 0]

    def update(self, state: State, x: Tensor) -> State:
        """append k and v;  clock ← clock + 1  # by self.append, before the clock goes on"""
        keys = self.append(state.keys, self.key(x), state.clock)
        values = self.append(state.values, self.value(x), state.clock)
        return State(keys, values, state.clock + 1)

    def read(self, state: State, x: Tensor) -> Tensor:
        """y = W_o Σ_j α_j v_j  # of the state after x; self.filled(state) says which slots hold something"""
        alpha = self.weights(self.scores(self.query(x), state.keys), self.filled(state))
        return self.W_o(self.mixture(alpha, state.values))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        pairs = steps * (steps + 1) // 2
        flops = batch * (8 * steps * self.dim**2 + 4 * pairs * self.dim)
        return Cost(flops, 2 * batch * steps * self.dim * self.element_size() + 8 * batch)
