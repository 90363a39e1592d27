"""Soft alignment: a recurrent decoder that attends to the source at every step.

STATE   h (and c), context, projected source
UPDATE  align-first (Bahdanau 2015): context ← Σ softmax(score(h, K))·V; h ← cell([x, context], h);
        or cell-first (Luong 2015): h ← cell([x, context], h); context ← Σ softmax(score(h, K))·V
READ    y = tanh(W [h, context])
GROWS   no
FAST    one loop; the source is projected once, the outputs are read together
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core.contract import Cell, ContractError, Cost, Example, Memory
from ..core.contract import Config as BaseConfig
from ..core.settings import MOST_LAYERS, at_least
from ..kernels.attention.soft_align import Source, Weights, loop
from ..kernels.recurrent.gates import GATES
from .alignment import AlignmentName
from .attend import Attend, AttendConfig
from .cross_attention import check_memory, example_memory, source_places
from .fixed import CELLS, CellName
from .keywords import constructed_from
from .score import Additive, Dot, ScoreName


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`width` is that of the cell and the output; `align_dim` that of queries and keys (default: width).

    The first h is tanh(W·mean of the source); `feed=False` (cell-first only) keeps the last context out of
    the cell: it enters the output alone.
    """

    width: int | None = None
    memory_dim: int | None = None
    cell: CellName = "gru"
    num_layers: int = at_least(1, default=1, most=MOST_LAYERS)
    order: Literal["align-first", "cell-first"] = "align-first"
    score: ScoreName = "additive"
    alignment: AlignmentName = "softmax"
    window: int | None = None
    align_dim: int | None = None
    feed: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.feed and self.order == "align-first":
            raise ContractError("soft-align: align-first feeds the context to the cell; feed=False needs cell-first")
        if self.alignment == "local" and self.window is None:
            raise ContractError("soft-align: alignment 'local' needs a window")

    def build(self) -> "SoftAlign":
        return SoftAlign(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=4, width=5, memory_dim=3),
            cls(dim=4, cell="lstm", num_layers=2, order="cell-first", score="general"),
            cls(dim=3, cell="rnn", order="cell-first", score="dot", feed=False, align_dim=4),
            cls(dim=3, cell="lstm", score="scaled", alignment="local", window=2),
            cls(dim=3, alignment="hard"),
        )

    def example(self, batch: int, steps: int, dtype: torch.dtype = torch.float64) -> Example:
        return Example(
            torch.randn(batch, steps, self.dim, dtype=dtype),
            example_memory(batch, self.memory_dim or self.dim, dtype),
        )


class State(NamedTuple):
    cell: Any  # the cell's own state
    context: Tensor  # B M
    keys: Tensor  # B S 1 a
    values: Tensor  # B S M
    valid: Tensor  # B S, bool
    constant = ("keys", "values", "valid")


@constructed_from(Config)
class SoftAlign(Cell[State]):
    """A recurrent cell with attention to a source."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        self.memory_dim = config.memory_dim or config.dim
        align = config.align_dim or self.width
        fed = self.memory_dim if config.feed else 0
        self.cell = CELLS[config.cell](
            dim=self.dim + fed, width=self.width, num_layers=config.num_layers, dropout=config.dropout
        ).build()
        self.attend = Attend(
            AttendConfig(dim=align, score=config.score, alignment=config.alignment, window=config.window),
            predict=True,
        )
        self.query = nn.Linear(self.width, align, bias=False)
        self.key = nn.Linear(self.memory_dim, align, bias=False)
        self.start = nn.Linear(self.memory_dim, config.num_layers * self.width)
        self.mix = nn.Linear(self.width + self.memory_dim, self.width)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        memory = check_memory("soft-align", memory, batch, self.memory_dim)
        values, valid = memory.values, memory.valid
        mean = (values * valid[..., None]).sum(dim=1) / valid.sum(dim=1, keepdim=True)
        first = torch.tanh(self.start(mean)).unflatten(1, (self.config.num_layers, self.width))
        cell = self.cell.initial_state(batch, like=like if like is not None else values)
        keys = self.key(values)[:, :, None]
        return State(cell._replace(h=first.to(cell.h.dtype)), torch.zeros_like(mean), keys, values, valid.clone())

    def update(self, state: State, x: Tensor) -> State:
        if self.config.order == "align-first":
            context = self.attend_to_source(state, self.cell.read(state.cell, x))
            cell = self.cell.update(state.cell, torch.cat([x, context.to(x.dtype)], dim=-1))
        else:
            fed = torch.cat([x, state.context.to(x.dtype)], dim=-1) if self.config.feed else x
            cell = self.cell.update(state.cell, fed)
            context = self.attend_to_source(state, self.cell.read(cell, x))
        return state._replace(cell=cell, context=context.to(state.context.dtype))

    def read(self, state: State, x: Tensor) -> Tensor:
        return self.output(self.cell.read(state.cell, x), state.context)

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if (dtype := self.loop_dtype(x, state)) is not None:
            return self.loop(x, state, dtype)
        hidden, contexts = [], []
        for x_t in x.unbind(1):
            state = self.update(state, x_t)
            hidden.append(self.cell.read(state.cell, x_t))
            contexts.append(state.context)
        return self.output(torch.stack(hidden, dim=1), torch.stack(contexts, dim=1)), state

    def loop_dtype(self, x: Tensor, state: State) -> torch.dtype | None:
        """The dtype in which kernels/attention/soft_align.py computes this chunk; None where it does not support it."""
        score = self.attend.score
        cheap = isinstance(score, Additive | Dot) or (score.is_dot and x.shape[1] > 1)  # W·W costs more than one step
        supported = self.config.num_layers == 1 and self.attend.alignment.plain and cheap
        if not supported or torch.compiler.is_compiling():
            return None
        kinds = {x.dtype, self.query.weight.dtype, *(tensor.dtype for tensor in states.leaves(state)[:-1])}
        if torch.is_autocast_enabled(x.device.type):
            lowered = x.shape[1] > 1 and torch.float64 not in kinds  # casting the weights costs more than one step
            return torch.get_autocast_dtype(x.device.type) if lowered else None
        return x.dtype if len(kinds) == 1 else None

    def loop(self, x: Tensor, state: State, dtype: torch.dtype) -> tuple[Tensor, State]:
        """A chunk through kernels/attention/soft_align.py, under autocast all in its dtype."""
        score, query, vector = self.attend.score, self.query.weight, None
        if isinstance(score, Additive):
            vector = score.weight[0]
        else:  # fold the score's matrix and scale into the projection of queries
            folded, scale = score.as_dot(query.mT[None, None])
            query = folded[0, 0].mT if scale == 1 else folded[0, 0].mT * scale
        W, U, b, d = self.cell.weights(0)
        h, *c = (part[:, 0] for part in state.cell)
        given = (
            (x, h, c[0] if c else None, state.context),
            Source(state.keys[:, :, 0], state.values, state.valid),
            Weights(W, U, b, d, query, vector),
        )
        kind, lowered = x.device.type, torch.is_autocast_enabled(x.device.type)
        if lowered:
            given = states.map(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, given)
        (x, h, c, context), source, weights = given
        with torch.autocast(kind, enabled=False) if lowered else nullcontext():
            found = loop(x, h, c, context, source, weights, GATES[self.config.cell], self.config.order == "align-first")
        last = [part[:, None] for part in (found.h, found.c) if part is not None]
        cell = states.map(lambda own, new: new.to(own.dtype), state.cell, last)
        context = found.context.to(state.context.dtype)
        return self.output(found.hidden, found.contexts), state._replace(cell=cell, context=context)

    def attend_to_source(self, state: State, h: Tensor) -> Tensor:
        """The context for the query of h: B W → B M."""
        q, places = self.query(h)[:, None, None], source_places(state.valid, 1)
        keys, values = state.keys.to(q.dtype), state.values[:, :, None].to(q.dtype)
        return self.attend(q, keys, values, places)[:, 0, 0]

    def output(self, h: Tensor, context: Tensor) -> Tensor:
        return torch.tanh(self.mix(torch.cat([h, context.to(h.dtype)], dim=-1)))

    def explain(self, state: State, x: Tensor) -> dict[str, Tensor]:
        """`source`: B 1 S, the alignment of this step, and the cell's gates."""
        first = self.config.order == "align-first"
        after = self.update(state, x)
        h = self.cell.read((state if first else after).cell, x)
        weights = self.attend.weights(self.query(h)[:, None, None], state.keys, source_places(state.valid, 1))
        fed = torch.cat([x, (after if first else state).context], dim=-1) if self.config.feed else x
        return {"source": weights[:, :, 0], **self.cell.explain(state.cell, fed)}

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        align, memory, size = self.key.out_features, self.memory_dim, self.element_size()
        cell = self.cell.cost(batch, steps)
        once = 2 * memory * (source * align + self.config.num_layers * self.width)
        score = self.attend.score.flops(1, align, 1, source) + self.attend.alignment.flops(1, align, 1)
        step = 2 * self.width * align + score + 2 * source * memory + 2 * (self.width + memory) * self.width
        kept = (memory + source * (align + memory)) * size + source
        return Cost(cell.flops + batch * (once + steps * step), cell.state_bytes + batch * kept)
