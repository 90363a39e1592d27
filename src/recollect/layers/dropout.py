"""Dropout: in training, features are zeroed at random.

STATE   none
UPDATE  none
READ    y = x with features zeroed at random and the rest scaled up; x itself outside training
GROWS   no
FAST    one operation

`variational` (Gal 2016) draws one mask for all steps of a chunk: the same features are zero throughout.
"""

from dataclasses import dataclass
from typing import Self

from torch import Tensor
from torch.nn.functional import dropout

from ..core.contract import Config as BaseConfig
from ..core.contract import Cost, Pointwise
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    dropout: float = 0.1
    variational: bool = False

    def build(self) -> "Dropout":
        return Dropout(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=4), cls(dim=4, variational=True)


@constructed_from(Config)
class Dropout(Pointwise):
    """Zeroes features at random in training."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim = self.width = config.dim

    def apply_to(self, x: Tensor) -> Tensor:
        if not self.training or not self.config.dropout:
            return x
        if not self.config.variational:
            return dropout(x, self.config.dropout)
        return x * dropout(x.new_ones(len(x), 1, self.dim), self.config.dropout)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return Cost(0, 0)
