"""Attention to a source: the encoder's output is projected once and attended to at every step.

STATE   projected source (k, v)
UPDATE  none
READ    y = W_o Σ softmax(score(q, K))·V, q = W_q x
GROWS   no
FAST    SDPA
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from ..core.contract import Cell, ContractError, Cost, Example, Memory
from .alignment import Places
from .attend import Attend, AttendConfig, Heads
from .keywords import constructed_from


@dataclass(frozen=True, kw_only=True)
class Config(AttendConfig):
    """`memory_dim` is the width of the encoder's values (default: dim)."""

    memory_dim: int | None = None

    def build(self) -> "CrossAttention":
        return CrossAttention(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=6, heads=2, memory_dim=5),
            cls(dim=4, heads=2, kv_heads=1, score="general", bias=True),
            cls(dim=4, score="additive"),
            cls(dim=4, score="dot", alignment="hard"),
            cls(dim=4, alignment="local", window=2),
            cls(dim=4, project=False),
        )

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        return Example(
            torch.randn(batch, steps, self.dim, dtype=dtype),
            example_memory(batch, self.memory_dim or self.dim, dtype),
        )


class State(NamedTuple):
    keys: Tensor  # B S G d
    values: Tensor  # B S G d
    valid: Tensor  # B S, bool
    constant = ("keys", "values", "valid")


def check_memory(name: str, memory: Memory | None, batch: int, dim: int) -> Memory:
    """The memory, or a ContractError with one line about what is wrong with it."""
    if memory is None:
        raise ContractError(f"{name}: expected a memory, found none; pass initial_state(batch, memory=encoder(x))")
    rows, _, width = memory.values.shape
    if (rows, width) != (batch, dim):
        raise ContractError(
            f"{name}: expected a memory of {batch} rows and width {dim}, found {rows} rows and width {width}"
        )
    if memory.valid.shape != memory.values.shape[:2]:
        raise ContractError(
            f"{name}: expected memory.valid of shape {tuple(memory.values.shape[:2])} as its values, "
            f"found {tuple(memory.valid.shape)}"
        )
    return memory


def source_places(valid: Tensor, steps: int) -> Places:
    """Every step may see every valid place of the source."""
    at = torch.arange(valid.shape[1], device=valid.device)[None]
    return Places(valid[:, None], at.new_zeros(1, steps), at)


def example_memory(batch: int, dim: int, dtype: torch.dtype, length: int = 5) -> Memory:
    """A random memory whose rows have unequal lengths, for the laws."""
    lengths = 1 + torch.arange(batch)[:, None] % length
    valid = torch.arange(length) < lengths.flip(0)
    return Memory(torch.randn(batch, length, dim, dtype=dtype).masked_fill(~valid[..., None], 0), valid)


@constructed_from(Config)
class CrossAttention(Cell[State]):
    """Multi-head attention from the decoder to a source."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.out
        self.heads = Heads(config, config.memory_dim)
        self.attend = Attend(config, predict=True)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        memory = check_memory("cross-attention", memory, batch, self.config.memory_dim or self.dim)
        keys = self.heads.key(memory.values)
        return State(
            keys if self.config.project else keys.clone(),
            self.heads.value(memory.values),
            memory.valid.clone(),
        )

    def update(self, state: State, x: Tensor) -> State:
        return state

    def read(self, state: State, x: Tensor) -> Tensor:
        return self.attend_to_source(x[:, None], state)[:, 0]

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.attend_to_source(x, state), state

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        return self(x, state)

    def attend_to_source(self, x: Tensor, state: State) -> Tensor:
        places = source_places(state.valid, x.shape[1])
        q = self.heads.query(x)
        return self.heads.merge(self.attend(q, state.keys.to(q.dtype), state.values.to(q.dtype), places))

    def explain(self, state: State, x: Tensor) -> dict[str, Tensor]:
        """`source`: the attention weights over the source, B H S."""
        q = self.heads.query(x[:, None])
        return {"source": self.attend.weights(q, state.keys, source_places(state.valid, 1))[:, :, 0]}

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        flops = self.heads.flops(steps, source) + self.attend.flops(steps, steps * source)
        kept = 2 * source * self.config.groups * self.config.size * self.element_size() + source
        return Cost(batch * flops, batch * kept)
