"""Gated causal convolution (Dauphin 2017): the output of one convolution is multiplied by a gate from another.

STATE   the last (k−1)·dilation + 1 inputs, newest last
UPDATE  window ← window[1:] + [x]
READ    y = conv_a(window) ⊙ σ(conv_b(window))
GROWS   no
FAST    as `conv`
"""

from dataclasses import dataclass
from typing import Self

from torch import Tensor
from torch.nn.functional import glu

from ..core.contract import Config as BaseConfig
from ..core.contract import Cost, Layer, Memory
from . import conv
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """As `conv`."""

    width: int | None = None
    kernel: int = 3
    dilation: int = 1

    def build(self) -> "GatedConv":
        return GatedConv(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=4), cls(dim=3, width=5, kernel=2, dilation=2)


@constructed_from(Config)
class GatedConv(Layer[conv.State]):
    """A causal convolution with a gate."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        taps = conv.Config(dim=self.dim, width=2 * self.width, kernel=config.kernel, dilation=config.dilation)
        self.taps = taps.build()

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> conv.State:
        return self.taps.initial_state(batch, like=self.like(like))

    def forward(self, x: Tensor, state: conv.State) -> tuple[Tensor, conv.State]:
        y, state = self.taps(x, state)
        return glu(y, dim=-1), state

    def unroll(self, x: Tensor, state: conv.State) -> tuple[Tensor, conv.State]:
        y, state = self.taps.unroll(x, state)
        return glu(y, dim=-1), state

    def ragged(self, x: Tensor, lengths: Tensor, state: conv.State) -> tuple[Tensor, conv.State]:
        y, state = self.taps.ragged(x, lengths, state)
        return glu(y, dim=-1), state

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return self.taps.cost(batch, steps)
