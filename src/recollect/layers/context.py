"""A recurrent decoder whose input at every step includes one vector of the source (Cho 2014).

STATE   h (and c), context = one vector for the whole source
UPDATE  h ← cell([x, context], h), h₀ = tanh(W·context)
READ    y = tanh(W [h, context, x])
GROWS   no
FAST    fused kernel
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..core.contract import Config as BaseConfig
from ..core.contract import Cost, Example, Layer, Memory
from ..core.settings import MOST_LAYERS, at_least
from .cross_attention import check_memory, example_memory
from .fixed import CELLS, CellName, GistName, gist, with_summary
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`gist` chooses the context: the encoder's last output, or the mean over the source."""

    width: int | None = None
    memory_dim: int | None = None
    cell: CellName = "gru"
    num_layers: int = at_least(1, default=1, most=MOST_LAYERS)
    gist: GistName = "mean"
    dropout: float = 0.0

    def build(self) -> "Contextual":
        return Contextual(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=4, width=5, memory_dim=3),
            cls(dim=4, cell="lstm", num_layers=2, gist="last"),
            cls(dim=3, cell="rnn", memory_dim=2),
        )

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        memory = example_memory(batch, self.memory_dim or self.width or self.dim, dtype)
        encoder = CELLS[self.cell](dim=self.dim, width=memory.values.shape[2])
        return Example(torch.randn(batch, steps, self.dim, dtype=dtype), with_summary(memory, encoder))


class State(NamedTuple):
    cell: Any  # the cell's own state
    context: Tensor  # B M
    constant = ("context",)


@constructed_from(Config)
class Contextual(Layer[State]):
    """A recurrent layer with one constant input beside the changing one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        self.memory_dim = config.memory_dim or self.width
        self.cell = CELLS[config.cell](
            dim=self.dim + self.memory_dim, width=self.width, num_layers=config.num_layers, dropout=config.dropout
        ).build()
        self.bridge = nn.Linear(self.memory_dim, config.num_layers * self.width)
        self.mix = nn.Linear(self.width + self.memory_dim + self.dim, self.width)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        memory = check_memory("context", memory, batch, self.memory_dim)
        context = gist(memory, self.config.gist)
        cell = self.cell.initial_state(batch, like=like if like is not None else memory.values)
        first = torch.tanh(self.bridge(context)).unflatten(1, (self.config.num_layers, self.width))
        return State(cell._replace(h=first.to(cell.h.dtype)), context)

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.run_with_context(x, state, self.cell)

    def unroll(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.run_with_context(x, state, self.cell.unroll)

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        return self.run_with_context(x, state, lambda x, own: self.cell.ragged(x, lengths, own))

    def run_with_context(self, x: Tensor, state: State, run: Any) -> tuple[Tensor, State]:
        """The context joined to the input and output of `run`, which is the cell in one of its forms."""
        context = state.context[:, None].expand(-1, x.shape[1], -1).to(x.dtype)
        h, cell = run(torch.cat([x, context], dim=-1), state.cell)
        return torch.tanh(self.mix(torch.cat([h, context.to(h.dtype), x.to(h.dtype)], dim=-1))), State(
            cell, state.context
        )

    def explain(self, state: State, x: Tensor) -> dict[str, Tensor]:
        """The cell's gate activations."""
        return self.cell.explain(state.cell, torch.cat([x, state.context.to(x.dtype)], dim=-1))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        inside = self.cell.cost(batch, steps)
        flops = 2 * batch * (self.bridge.weight.numel() + steps * self.mix.weight.numel())
        return Cost(inside.flops + flops, inside.state_bytes + batch * self.memory_dim * self.element_size())
