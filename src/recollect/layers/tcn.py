"""The residual block of a temporal convolutional network (Bai 2018): two causal convolutions and a shortcut.

STATE   the windows of both convolutions
UPDATE  each convolution's own
READ    y = relu(x + relu(conv(relu(conv(x)))))
GROWS   no
FAST    as `conv`
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

from torch import Tensor, nn, relu
from torch.nn.functional import dropout

from ..core.contract import Config as BaseConfig
from ..core.contract import Cost, Layer, Memory
from . import conv
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """As `conv`, twice; where width is not dim the shortcut is a 1×1 convolution.

    Convolutions are initialised as in torch, or with `start="he"` (He 2015) 2.4 times as large, so that a relu keeps
    the scale of what passes through many blocks.
    """

    width: int | None = None
    kernel: int = 3
    dilation: int = 1
    dropout: float = 0.0
    start: Literal["torch", "he"] = "torch"

    def build(self) -> "TCNBlock":
        return TCNBlock(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=4, kernel=2, dilation=2), cls(dim=3, width=5, start="he")


class State(NamedTuple):
    first: conv.State
    second: conv.State


@constructed_from(Config)
class TCNBlock(Layer[State]):
    """Two causal convolutions around a shortcut."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        shape = conv.Config(dim=self.dim, width=self.width, kernel=config.kernel, dilation=config.dilation)
        self.first, self.second = shape.build(), replace(shape, dim=self.width).build()
        self.shortcut = nn.Linear(self.dim, self.width) if self.dim != self.width else nn.Identity()
        if config.start == "he":
            for taps in (self.first, self.second):
                nn.init.kaiming_normal_(taps.conv.weight, nonlinearity="relu")

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        like = self.like(like)
        return State(self.first.initial_state(batch, like=like), self.second.initial_state(batch, like=like))

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.combine(x, state, lambda layer, x, own: layer(x, own))

    def unroll(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.combine(x, state, lambda layer, x, own: layer.unroll(x, own))

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        return self.combine(x, state, lambda layer, x, own: layer.ragged(x, lengths, own))

    def combine(self, x: Tensor, state: State, run: Any) -> tuple[Tensor, State]:
        y, first = run(self.first, x, state.first)
        y, second = run(self.second, self.drop(relu(y)), state.second)
        return relu(self.shortcut(x) + self.drop(relu(y))), State(first, second)

    def drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        first, second = self.first.cost(batch, steps), self.second.cost(batch, steps)
        extra = 2 * batch * steps * self.dim * self.width if self.dim != self.width else 0
        return Cost(first.flops + second.flops + extra, first.state_bytes + second.state_bytes)
