"""Position encodings: added to the input, rotated into queries and keys, or added to the score.

STATE   clock = how many steps were seen
UPDATE  clock ← clock + 1
READ    y = x + P[clock − 1], P = sinusoids (Vaswani 2017) or a learned table
GROWS   no
FAST    one look-up for the whole chunk

As a layer this adds sinusoids or learned vectors. Rotary positions (Su 2021) and ALiBi (Press 2022) act
inside attention, which uses the functions here.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..core.contract import Cell, Cost, Memory
from ..core.contract import Config as BaseConfig
from .keywords import constructed_from

PositionName = Literal["none", "sinusoid", "learned", "rotary", "alibi"]


def next_positions(clock: Tensor, steps: int) -> Tensor:
    """The positions of the next `steps` steps: B T."""
    return clock[:, None] if steps == 1 else clock[:, None] + torch.arange(steps, device=clock.device)


def angles(positions: Tensor, dim: int, base: float = 10_000.0) -> Tensor:
    """The angles position / base^(2i/dim) of sinusoidal and rotary encodings: … → … dim/2, in float64."""
    rates = base ** (-torch.arange(0, dim, 2, device=positions.device, dtype=torch.float64) / dim)
    return positions[..., None] * rates


def sinusoids(positions: Tensor, dim: int) -> Tensor:
    """Sinusoidal encodings: … → … dim, sine at even columns, cosine at odd ones, in float64."""
    angle = angles(positions, dim)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :dim]


def rotary_angles(positions: Tensor, dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angles of rotary positions (B T): B T 1 D/2 each."""
    angle = angles(positions, dim)[:, :, None]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair of neighbours of x (B T H D, D even) by its angle."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions: rotate each pair of neighbours of x (B T H D, D even) by the angle of its position (B T)."""
    return rotate_pairs(x, *rotary_angles(positions, x.shape[-1], x.dtype))


def slopes(heads: int) -> Tensor:
    """ALiBi's slope of each head: a geometric series, as in the paper also for counts that are no power of 2."""
    whole = 2 ** (heads.bit_length() - 1)
    series = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    between = [2 ** (-4 * (i + 1) / whole) for i in range(0, 2 * (heads - whole), 2)]
    return torch.tensor(series + between, dtype=torch.float64)


class Added(nn.Module):
    """The vectors that sinusoid or learned positions add: B T → B T D."""

    def __init__(self, kind: Literal["sinusoid", "learned"], dim: int, max_positions: int) -> None:
        super().__init__()
        self.kind, self.dim, self.max_positions = kind, dim, max_positions
        if kind == "learned":
            self.table = nn.Parameter(torch.randn(max_positions, dim) * 0.02)

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        if self.kind == "learned":
            return nn.functional.embedding(positions, self.table).to(dtype)
        return sinusoids(positions, self.dim).to(dtype)

    def diagnose(self, clock: Tensor, steps: int) -> str | None:
        """One line about positions beyond the end of a learned table; None where there are none."""
        if torch.compiler.is_exporting():  # of a trace no values are known; a manifest says where positions end
            return None
        if self.kind == "learned" and (last := int(clock.max()) + steps) > self.max_positions:
            return (
                f"expected at most {self.max_positions} positions (max_positions), found {last}; "
                "learned positions end there: use sinusoid, rotary or alibi for longer texts"
            )
        return None


def build_added(kind: PositionName, dim: int, max_positions: int) -> Added | None:
    """The encodings to add to the input; None for kinds that act elsewhere."""
    return Added(kind, dim, max_positions) if kind == "sinusoid" or kind == "learned" else None


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    kind: Literal["sinusoid", "learned"] = "sinusoid"
    max_positions: int = 1024

    def build(self) -> "Position":
        return Position(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=6), cls(dim=5, kind="learned", max_positions=64)


class State(NamedTuple):
    clock: Tensor  # B, int64


@constructed_from(Config)
class Position(Cell[State]):
    """Adds to each input the vector of its position."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim = self.width = config.dim
        self.added = Added(config.kind, config.dim, config.max_positions)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        return State(torch.zeros(batch, dtype=torch.int64, device=self.like(like).device))

    def update(self, state: State, x: Tensor) -> State:
        return State(state.clock + 1)

    def read(self, state: State, x: Tensor) -> Tensor:
        return x + self.added(state.clock - 1, x.dtype)

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y = x + self.added(next_positions(state.clock, x.shape[1]), x.dtype)
        return y, State(state.clock + x.shape[1])

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        y, _ = self(x, state)
        return y, State(state.clock + lengths)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return Cost(0, 8 * batch)

    def diagnose(self, x: Tensor, state: State) -> str | None:
        return self.added.diagnose(state.clock, x.shape[1]) or super().diagnose(x, state)


def find_limit(model: nn.Module) -> int | None:
    """The steps that a model can see, where its positions are learned; None: any number."""
    limits = [part.max_positions for part in model.modules() if isinstance(part, Added) and part.kind == "learned"]
    return min(limits, default=None)
