"""A recurrent decoder that gets the source through its initial state alone (Sutskever 2014).

STATE   h (and c)
UPDATE  h ← cell(x, h), beginning with the encoder's last state, or with tanh(W·gist of the source)
READ    h
GROWS   no
FAST    fused kernel
"""

from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core.contract import Config as BaseConfig
from ..core.contract import ContractError, Cost, Example, Layer, Memory
from ..core.settings import MOST_LAYERS, at_least
from . import gru, lstm, rnn
from .cross_attention import check_memory, example_memory
from .encoder import TwoWay
from .keywords import constructed_from

CellName = Literal["gru", "lstm", "rnn"]
CELLS = {"rnn": rnn.Config, "lstm": lstm.Config, "gru": gru.Config}
GistName = Literal["last", "mean"]


def gist(memory: Memory, how: GistName) -> Tensor:
    """One vector for the whole source (B M): the encoder's last h (of both directions), or the mean of its outputs."""
    if how == "mean":
        shares = memory.valid / memory.valid.sum(dim=1, keepdim=True)
        return (memory.values * shares[..., None].to(memory.values.dtype)).sum(dim=1)
    levels = memory.summary
    top = levels if hasattr(levels, "_fields") or not levels else levels[-1]  # a two-way encoder has a level each
    ways = tuple(top) if isinstance(top, TwoWay) else (top,)
    if not all(hasattr(way, "h") for way in ways):
        raise ContractError("decoder: expected the last state of a recurrent encoder, found none; set gist=mean")
    return torch.cat([way.h[:, -1] for way in ways], dim=-1).to(memory.values.dtype)


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`start="state"` takes the encoder's last state as it is: the same cell, width and number of layers.

    `last` and `mean` compute the initial h from one vector of the source, for any encoder.
    """

    width: int | None = None
    memory_dim: int | None = None
    cell: CellName = "gru"
    num_layers: int = at_least(1, default=1, most=MOST_LAYERS)
    start: Literal["state", "last", "mean"] = "mean"
    dropout: float = 0.0

    def build(self) -> "Fixed":
        return Fixed(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=4, memory_dim=3),
            cls(dim=4, width=3, cell="lstm", num_layers=2, start="state"),
            cls(dim=3, cell="rnn", start="last"),
        )

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        memory = example_memory(batch, self.memory_dim or self.width or self.dim, dtype)
        return Example(torch.randn(batch, steps, self.dim, dtype=dtype), with_summary(memory, self.recurrent()))

    def recurrent(self) -> Any:
        return CELLS[self.cell](dim=self.dim, width=self.width, num_layers=self.num_layers, dropout=self.dropout)


def with_summary(memory: Memory, cell: Any) -> Memory:
    """The memory as a one-way encoder of such cells would leave it, for the laws."""
    state = cell.build().to(memory.values.dtype).initial_state(len(memory.values))
    return memory._replace(summary=states.map(torch.randn_like, state))


@constructed_from(Config)
class Fixed(Layer[Any]):
    """A recurrent layer that starts from the source's summary. Its state is the cell's."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.cell = config.recurrent().build()
        self.dim, self.width = config.dim, self.cell.width
        self.memory_dim = config.memory_dim or self.width
        if config.start != "state":
            self.bridge = nn.Linear(self.memory_dim, config.num_layers * self.width)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> Any:
        memory = check_memory("fixed", memory, batch, self.memory_dim)
        fresh = self.cell.initial_state(batch, like=like if like is not None else memory.values)
        if self.config.start != "state":
            first = torch.tanh(self.bridge(gist(memory, self.config.start)))
            return fresh._replace(h=first.unflatten(1, (self.config.num_layers, self.width)).to(fresh.h.dtype))
        found = memory.summary
        if type(found) is not type(fresh) or found.h.shape != fresh.h.shape:
            raise ContractError(
                f"fixed: expected a memory with the last state of a {self.config.cell} encoder of "
                f"{self.config.num_layers} layers and width {self.width}, found another; set start=last or mean"
            )
        return states.map(lambda own, given: given.to(own.dtype).clone(), fresh, found)

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.cell(x, state)

    def unroll(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.cell.unroll(x, state)

    def ragged(self, x: Tensor, lengths: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.cell.ragged(x, lengths, state)

    def explain(self, state: Any, x: Tensor) -> dict[str, Tensor]:
        """The cell's gate activations."""
        return self.cell.explain(state, x)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        inside = self.cell.cost(batch, steps)
        bridge = 0 if self.config.start == "state" else 2 * batch * self.bridge.weight.numel()
        return Cost(inside.flops + bridge, inside.state_bytes)
