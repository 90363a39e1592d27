"""The autoregressive layer: a fixed map of the last τ inputs.

STATE   the last τ inputs, newest last
UPDATE  window ← window[1:] + [x]
READ    y = f(window), f linear or an MLP
GROWS   no
FAST    unfold
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from einops import rearrange
from torch import Tensor, nn

from ..core.contract import Cell, Cost, Memory
from ..core.contract import Config as BaseConfig
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`tau` inputs are seen; `map="mlp"` puts a hidden layer of `hidden` units between (default: 4·dim)."""

    width: int | None = None
    tau: int = 4
    map: Literal["linear", "mlp"] = "linear"
    hidden: int | None = None

    def build(self) -> "Window":
        return Window(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=5, tau=3), cls(dim=4, width=3, map="mlp", hidden=7), cls(dim=2, tau=1)


class State(NamedTuple):
    window: Tensor  # B τ D


def shift(window: Tensor, x: Tensor) -> Tensor:
    """The window after x (B D): without its oldest input, with x last."""
    return torch.cat([window[:, 1:], x[:, None].to(window.dtype)], dim=1)


def last_inputs(seen: Tensor, lengths: Tensor, slots: int) -> Tensor:
    """The window after `lengths[b]` inputs of row b; `seen` is the initial window, then the inputs."""
    at = lengths[:, None] + torch.arange(slots, device=seen.device)
    return seen.gather(1, at[..., None].expand(-1, -1, seen.shape[2]))


@constructed_from(Config)
class Window(Cell[State]):
    """A linear or nonlinear autoregression of order τ."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        seen = config.tau * config.dim
        if config.map == "linear":
            self.map: nn.Module = nn.Linear(seen, self.width)
            self.products = seen * self.width
        else:
            hidden = config.hidden or 4 * config.dim
            self.map = nn.Sequential(nn.Linear(seen, hidden), nn.Tanh(), nn.Linear(hidden, self.width))
            self.products = (seen + self.width) * hidden

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        return State(self.like(like).new_zeros(batch, self.config.tau, self.dim))

    def update(self, state: State, x: Tensor) -> State:
        return State(shift(state.window, x))

    def read(self, state: State, x: Tensor) -> Tensor:
        return self.map(rearrange(state.window, "b k d -> b (k d)"))

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if x.shape[1] == 1:
            return self.unroll(x, state)
        tau = self.config.tau
        seen = torch.cat([state.window, x.to(state.window.dtype)], dim=1)  # B τ+T D
        windows = seen[:, 1:].unfold(1, tau, 1)  # B T D τ
        y = self.map(rearrange(windows, "b t d k -> b t (k d)"))
        return y, State(seen[:, -tau:].clone())

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        y, _ = self(x, state)
        seen = torch.cat([state.window, x.to(state.window.dtype)], dim=1)
        return y, State(last_inputs(seen, lengths, self.config.tau))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        state = batch * self.config.tau * self.dim * self.element_size()
        return Cost(2 * batch * steps * self.products, state)
