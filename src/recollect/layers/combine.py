"""Layers made of layers: a stack, or one with a residual connection.

STATE   the states of the layers inside
UPDATE  each layer's own, from the bottom up
READ    stack: the last layer's output; residual: x + layer(norm(x)) (pre) or norm(x + layer(x)) (post)
GROWS   as the layers inside
FAST    each layer's own
"""

from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from ..core.contract import Config as BaseConfig
from ..core.contract import ContractError, Cost, Example, Layer, Memory
from . import attention, cross_attention, gru, lstm, mlp, ttt
from .keywords import constructed_from
from .norm import Config as NormConfig
from .norm import NormName


def combined_example(configs: tuple[BaseConfig, ...], batch: int, steps: int, dtype: torch.dtype) -> Example:
    """An input for a composite: its first layer's x, and a memory if any layer inside needs one."""
    examples = [config.example(batch, steps, dtype) for config in configs]
    return Example(examples[0].x, next((e.memory for e in examples if e.memory is not None), None))


@dataclass(frozen=True, kw_only=True)
class StackConfig(BaseConfig):
    """`layers` one above the other; the `dim` of each is the width of the one below."""

    layers: tuple[BaseConfig, ...]

    def build(self) -> "Stack":
        return Stack(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=4, layers=(lstm.Config(dim=4, width=6), attention.Config(dim=6, heads=2, window=3))),
            cls(dim=4, layers=(gru.Config(dim=4), ttt.Config(dim=4, mini_batch=3), NormConfig(dim=4))),
            cls(dim=4, layers=(attention.Config(dim=4), cross_attention.Config(dim=4, memory_dim=3))),
        )

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        return combined_example(self.layers, batch, steps, dtype)


@constructed_from(StackConfig)
class Stack(Layer[tuple]):
    """Layers one above the other."""

    layers: Any  # ModuleList of Layer

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList([layer.build() for layer in config.layers])
        self.dim = config.dim
        width = config.dim
        for i, layer in enumerate(self.layers):
            if layer.dim != width:
                raise ContractError(f"stack: expected layer {i} to take width {width}, found dim {layer.dim}")
            width = layer.width
        self.width = width

    def called(self) -> Any:
        """The parts whose weights are read in their own calls alone, so that they can be sharded by themselves."""
        return self.layers

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> tuple:
        return tuple(layer.initial_state(batch, memory, like, capacity) for layer in self.layers)

    def forward(self, x: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        return self.run_each(x, state, lambda layer, x, own: layer(x, own))

    def unroll(self, x: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        return self.run_each(x, state, lambda layer, x, own: layer.unroll(x, own))

    def ragged(self, x: Tensor, lengths: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        return self.run_each(x, state, lambda layer, x, own: layer.ragged(x, lengths, own))

    def run_each(self, x: Tensor, state: tuple, run: Any) -> tuple[Tensor, tuple]:
        """The layers from the bottom up, each by `run`, which is a layer in one of its forms."""
        after = []
        for layer, own in zip(self.layers, state, strict=True):
            x, own = run(layer, x, own)
            after.append(own)
        return x, tuple(after)

    def explain(self, state: tuple, x: Tensor) -> dict[str, Tensor]:
        """The explanation of each layer, under its number."""
        found = {}
        for i, (layer, own) in enumerate(zip(self.layers, state, strict=True)):
            found |= {f"{i}.{name}": tensor for name, tensor in layer.explain(own, x).items()}
            x = layer(x[:, None], own)[0][:, 0]
        return found

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        costs = [layer.cost(batch, steps, source) for layer in self.layers]
        return Cost(sum(c.flops for c in costs), sum(c.state_bytes for c in costs))


@dataclass(frozen=True, kw_only=True)
class ResidualConfig(BaseConfig):
    """A shortcut around `layer`, normalised before it (`pre`) or after the sum (`post`)."""

    layer: BaseConfig
    norm: NormName = "layer"
    order: Literal["pre", "post"] = "pre"
    dropout: float = 0.0

    def build(self) -> "Residual":
        return Residual(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=4, layer=lstm.Config(dim=4)),
            cls(dim=4, layer=attention.Config(dim=4, heads=2, positions="rotary"), order="post", norm="rms"),
            cls(dim=4, layer=mlp.Config(dim=4), norm="none"),
        )

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        return combined_example((self.layer,), batch, steps, dtype)


@constructed_from(ResidualConfig)
class Residual(Layer[Any]):
    """A layer with a residual connection and a norm. Its state is the layer's."""

    def __init__(self, config: ResidualConfig) -> None:
        super().__init__()
        self.config = config
        self.layer = config.layer.build()
        self.dim = self.width = config.dim
        if (self.layer.dim, self.layer.width) != (config.dim, config.dim):
            raise ContractError(
                f"residual: expected a layer from {config.dim} to {config.dim}, "
                f"found one from {self.layer.dim} to {self.layer.width}"
            )
        self.norm = NormConfig(dim=config.dim, kind=config.norm).build()

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> Any:
        return self.layer.initial_state(batch, memory, like, capacity)

    def add_shortcut(self, x: Tensor, run: Any, state: Any) -> tuple[Tensor, Any]:
        """The residual connection around `run`, which is the layer in one of its forms."""
        pre = self.config.order == "pre"
        y, state = run(self.norm.apply_to(x) if pre else x, state)
        y = x + dropout(y, self.config.dropout, self.training)
        return (y if pre else self.norm.apply_to(y)), state

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.add_shortcut(x, self.layer, state)

    def unroll(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.add_shortcut(x, self.layer.unroll, state)

    def ragged(self, x: Tensor, lengths: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.add_shortcut(x, lambda x, state: self.layer.ragged(x, lengths, state), state)

    def explain(self, state: Any, x: Tensor) -> dict[str, Tensor]:
        return self.layer.explain(state, self.norm.apply_to(x) if self.config.order == "pre" else x)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return self.layer.cost(batch, steps, source)
