"""Normalisation of each position to a common scale.

STATE   none
UPDATE  none
READ    y = γ·(x − mean)/deviation + β, over the features of x (LayerNorm), without the mean (RMSNorm), or
        over batch and time (BatchNorm: in training it looks at the neighbours and at the future)
GROWS   no
FAST    one operation
"""

from dataclasses import dataclass
from typing import Literal, Self

from torch import Tensor, nn

from ..core.contract import Config as BaseConfig
from ..core.contract import Cost, Pointwise
from .keywords import constructed_from

NormName = Literal["layer", "rms", "batch", "none"]


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    kind: NormName = "layer"

    def build(self) -> "Norm":
        return Norm(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=5), cls(dim=5, kind="rms"), cls(dim=5, kind="batch"), cls(dim=5, kind="none")


@constructed_from(Config)
class Norm(Pointwise):
    """LayerNorm, RMSNorm, BatchNorm or none, position by position."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim = self.width = config.dim
        self.norm: nn.Module = {
            "layer": nn.LayerNorm,
            "rms": lambda dim: nn.RMSNorm(dim, eps=1e-6),
            "batch": nn.BatchNorm1d,
            "none": lambda dim: nn.Identity(),
        }[config.kind](config.dim)

    def apply_to(self, x: Tensor) -> Tensor:
        if self.config.kind != "batch":
            return self.norm(x)
        return self.norm(x.reshape(-1, self.dim)).view_as(x)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return Cost(0, 0)
