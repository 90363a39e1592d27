"""Causal convolution: each output is a weighted sum of a few past inputs, the same weights everywhere.

STATE   the last (k−1)·dilation + 1 inputs, newest last
UPDATE  window ← window[1:] + [x]
READ    y = Σ_j weight[j]·window[j·dilation] + b
GROWS   no
FAST    conv1d; in half precision on a GPU, products
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..core.contract import Cell, ContractError, Cost, Memory
from ..core.contract import Config as BaseConfig
from ..kernels.conv.convolve import convolve
from .keywords import constructed_from
from .window import last_inputs, shift


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`kernel` taps, `dilation` steps apart; `depthwise` convolves each channel alone."""

    width: int | None = None
    kernel: int = 3
    dilation: int = 1
    depthwise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depthwise and self.width not in (None, self.dim):
            raise ContractError(f"conv: depthwise keeps the width {self.dim}, found width {self.width}")

    def build(self) -> "CausalConv":
        return CausalConv(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=4),
            cls(dim=4, width=6, kernel=2, dilation=3),
            cls(dim=5, depthwise=True, kernel=3, dilation=2),
            cls(dim=3, kernel=1),
        )


class State(NamedTuple):
    window: Tensor  # B K D


@constructed_from(Config)
class CausalConv(Cell[State]):
    """A causal, dilated convolution over time."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        self.slots = (config.kernel - 1) * config.dilation + 1
        self.conv = nn.Conv1d(
            self.dim,
            self.width,
            config.kernel,
            dilation=config.dilation,
            groups=self.dim if config.depthwise else 1,
        )

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        return State(self.like(like).new_zeros(batch, self.slots, self.dim))

    def update(self, state: State, x: Tensor) -> State:
        return State(shift(state.window, x))

    def read(self, state: State, x: Tensor) -> Tensor:
        taps = state.window[:, :: self.config.dilation]  # B k D
        if not self.config.depthwise:  # weights in their own layout: transposing them would cost more than the product
            return linear(taps.mT.flatten(1), self.conv.weight.flatten(1), self.conv.bias)
        y = torch.bmm(taps.permute(2, 0, 1), self.conv.weight.mT)[..., 0].T  # a product for each channel
        return y if self.conv.bias is None else y + self.conv.bias.to(y.dtype)

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if x.shape[1] == 1:
            return self.unroll(x, state)
        window, x = state.window, x.to(state.window.dtype)
        y = convolve([window[:, 1:], x], self.conv.weight, self.conv.bias, self.config.dilation, self.conv.groups)
        return y, State(torch.cat([window[:, x.shape[1] :], x[:, -self.slots :]], dim=1))

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        if torch.compiler.is_exporting():  # where the last inputs are depends on the length
            return super().ragged(x, lengths, state)
        y, _ = self(x, state)
        seen = torch.cat([state.window, x.to(state.window.dtype)], dim=1)
        return y, State(last_inputs(seen, lengths, self.slots))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        products = self.conv.weight.numel()
        return Cost(2 * batch * steps * products, batch * self.slots * self.dim * self.element_size())
