"""The feed-forward network of a Transformer block, applied to each position alone.

STATE   none
UPDATE  none
READ    y = W₂ φ(W₁ x), φ = relu, gelu (gelu_tanh: its approximation by tanh, as in GPT-2), or swiglu:
        silu(W₁ x)·(W₃ x)
GROWS   no
FAST    two or three products
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, relu, silu

from ..core.contract import Config as BaseConfig
from ..core.contract import Cost, Pointwise
from .keywords import constructed_from

ActivationName = Literal["relu", "gelu", "gelu_tanh", "swiglu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": partial(gelu, approximate="tanh"),
}


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`hidden` units between (default: 4·dim); `dropout` acts on them in training."""

    hidden: int | None = None
    activation: ActivationName = "gelu"
    bias: bool = True
    dropout: float = 0.0

    def build(self) -> "FeedForward":
        return FeedForward(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=5),
            cls(dim=4, hidden=7, activation="relu", bias=False),
            cls(dim=4, hidden=5, activation="gelu_tanh"),
            cls(dim=4, hidden=6, activation="swiglu"),
        )


@constructed_from(Config)
class FeedForward(Pointwise):
    """Two layers, the same at every position."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim = self.width = config.dim
        hidden = config.hidden or 4 * config.dim
        self.up = nn.Linear(self.dim, hidden, bias=config.bias)
        self.down = nn.Linear(hidden, self.dim, bias=config.bias)
        self.gate = nn.Linear(self.dim, hidden, bias=config.bias) if config.activation == "swiglu" else None

    def apply_to(self, x: Tensor) -> Tensor:
        if self.gate is not None:
            hidden = silu(self.gate(x)) * self.up(x)
        else:
            hidden = ACTIVATIONS[self.config.activation](self.up(x))
        return self.down(dropout(hidden, self.config.dropout, self.training))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        products = self.dim * self.up.out_features * (2 if self.gate is None else 3)
        return Cost(2 * batch * steps * products, 0)
