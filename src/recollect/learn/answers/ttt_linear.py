"""Test-time training with a linear inner model, one head, without norms: the state is trained on each input.

STATE   weights W of an inner model f, the gradient G gathered since the last boundary, clock
UPDATE  G ← G + η(x)·∇ℓ(W; k, v),  ℓ = ½‖f(k; W) − v‖²;  at every b-th step W ← W − G, G ← 0
READ    y = W_o f(q; W − G)

with k, v, q = W_k x, W_v x, W_q x and f(k; W) = W k. The first W is learnt, as the four maps are.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recollect.core import contract
from recollect.core.contract import Cell, Cost, Memory


@dataclass(frozen=True, kw_only=True)
class Config(contract.Config):
    mini_batch: int = 3  # b

    def build(self) -> "TttLinear":
        return TttLinear(self)


class State(NamedTuple):
    W: Tensor  # B D D, stored so that W k is k @ W
    G: Tensor  # B D D
    clock: Tensor  # B, int64: the steps that each row has seen


class TttLinear(Cell[State]):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dim = self.width = config.dim
        self.mini_batch = config.mini_batch
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(self.dim, self.dim, bias=False) for _ in range(4))
        self.W_0 = nn.Parameter(torch.randn(self.dim, self.dim) / 2)
        self.w = nn.Linear(self.dim, 1)  # w·x + β, from which the rate is made

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> State:
        G = self.like(like).new_zeros(batch, self.dim, self.dim)
        return State(G + self.W_0.to(G), G, torch.zeros(batch, dtype=torch.int64, device=G.device))

    def predict(self, W: Tensor, k: Tensor) -> Tensor:
        """f(k; W) = W k  # B D"""
        return (k[:, None] @ W)[:, 0]

    def rate(self, x: Tensor) -> Tensor:
        """η(x) = σ(w·x + β) / d  # B 1; d is the width of x"""
        return torch.sigmoid(self.w(x)) / self.dim

    def gradient(self, W: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """∇ℓ = k (f(k; W) − v)ᵀ  # B D D, laid out as W is"""
        return k[:, :, None] * (self.predict(W, k) - v)[:, None]

    def step(self, W: Tensor, G: Tensor, clock: Tensor) -> tuple[Tensor, Tensor]:
        """at every b-th step W ← W − G, G ← 0  # where the clock is a multiple of b; each row has its own"""
        boundary = (clock % self.mini_batch == 0)[:, None, None]
        return torch.where(boundary, W - G, W), G.masked_fill(boundary, 0)

    def update(self, state: State, x: Tensor) -> State:
        """clock ← clock + 1;  G ← G + η(x)·∇ℓ(W; k, v);  then the step  # W, G by self.step"""
        G = state.G + self.rate(x)[..., None] * self.gradient(state.W, self.W_k(x), self.W_v(x))
        clock = state.clock + 1
        return State(*self.step(state.W, G, clock), clock)

    def read(self, state: State, x: Tensor) -> Tensor:
        """y = W_o f(q; W − G)  # of the state after x"""
        return self.W_o(self.predict(state.W - state.G, self.W_q(x)))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        step = 2 * self.dim * (6 * self.dim + 1)
        return Cost(batch * steps * step, batch * (2 * self.dim**2 * self.element_size() + 8))
