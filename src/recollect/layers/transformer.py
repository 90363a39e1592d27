"""The Transformer's block: attention between positions, then a feed-forward network on each.

STATE   that of its attention (and the projected source, in a decoder that reads one)
UPDATE  attention's
READ    two or three residual sublayers: attention, attention to a source (`cross`), feed-forward
GROWS   as its attention
FAST    each sublayer's own
"""

from dataclasses import dataclass
from typing import Literal, Self

import torch

from ..core.contract import Config as BaseConfig
from ..core.contract import Example
from . import combine, mlp
from .attention import Config as AttentionConfig
from .cross_attention import Config as CrossConfig
from .keywords import constructed_from
from .norm import NormName


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`attention` and `cross` carry all their options; a causal block, or with `cross` a decoder block.

    `inner_dropout` is that of attention's weights and inside the feed-forward network (None: as `dropout`).
    """

    attention: AttentionConfig | None = None
    cross: CrossConfig | None = None
    heads: int = 1
    hidden: int | None = None
    activation: mlp.ActivationName = "gelu"
    norm: NormName = "layer"
    order: Literal["pre", "post"] = "pre"
    bias: bool = True
    dropout: float = 0.0
    inner_dropout: float | None = None

    def stack(self) -> combine.StackConfig:
        """The block as a stack of residual sublayers."""
        inner = self.dropout if self.inner_dropout is None else self.inner_dropout
        default = AttentionConfig(dim=self.dim, heads=self.heads, bias=self.bias, dropout=inner)
        feed = mlp.Config(dim=self.dim, hidden=self.hidden, activation=self.activation, bias=self.bias, dropout=inner)
        sublayers = [self.attention or default, self.cross, feed]
        return combine.StackConfig(
            dim=self.dim,
            layers=tuple(
                combine.ResidualConfig(
                    dim=self.dim, layer=layer, norm=self.norm, order=self.order, dropout=self.dropout
                )
                for layer in sublayers
                if layer is not None
            ),
        )

    def build(self) -> "TransformerBlock":
        return TransformerBlock(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        rotary = AttentionConfig(dim=4, heads=2, positions="rotary")
        return (
            cls(dim=4, heads=2),
            cls(dim=4, attention=rotary, activation="swiglu", norm="rms", bias=False),
            cls(dim=4, heads=2, cross=CrossConfig(dim=4, heads=2, memory_dim=3, bias=True), order="post"),
        )

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        return self.stack().example(batch, steps, dtype)


@constructed_from(Config)
class TransformerBlock(combine.Stack):
    """A causal block, or with `cross` a decoder block, as a stack of residual sublayers."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.stack())
