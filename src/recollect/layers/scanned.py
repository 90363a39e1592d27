"""The base of mingru and minlstm: gates that see the input alone, so that a scan computes all steps in parallel."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from ..core import state as states
from ..core.contract import Cell, Config, Cost
from ..kernels.recurrent.scan import linear_scan

S = TypeVar("S", bound=tuple[Tensor, ...])


@dataclass(frozen=True, kw_only=True)
class ScannedConfig(Config):
    """`width` is that of the hidden state (default: dim). `candidate` is linear in x, as the paper defines it, or
    passed through the paper's positive function g(a) = a + ½ for a ≥ 0 and σ(a) below, which its log-space form needs.
    `forget_bias` is added to what the gates weigh in favour of keeping; it is not learned.
    """

    width: int | None = None
    candidate: Literal["linear", "positive"] = "linear"
    forget_bias: float = 0.0
    bias: bool = True


class Scanned(Cell[S]):
    """h ← decay·h + write, where decay and write are functions of x alone."""

    gates: int  # blocks of `width` rows in the projection of x

    def __init__(self, config: ScannedConfig, gates: int) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width, self.gates = config.dim, config.width or config.dim, gates
        self.project = nn.Linear(self.dim, gates * self.width, bias=config.bias)

    @abstractmethod
    def compute_gates(self, x: Tensor, state: S) -> dict[str, Tensor]:
        """The gates and the candidate at x (… D), by name: … W each, in the dtype of the state."""

    @abstractmethod
    def mix(self, gates: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What h is multiplied by, and what is then added to it: … W each."""

    def blocks(self, x: Tensor, state: S) -> tuple[Tensor, ...]:
        """The projections of x, a block for each gate, in the dtype of the state, whatever autocast is."""
        return self.project(x).to(state[0].dtype).chunk(self.gates, dim=-1)

    def propose(self, a: Tensor) -> Tensor:
        """The candidate from its projection."""
        return torch.where(a >= 0, a + 0.5, torch.sigmoid(a)) if self.config.candidate == "positive" else a

    def zeros(self, batch: int, like: Tensor | None) -> Tensor:
        like = self.like(like)
        return like.new_zeros(batch, self.width, dtype=torch.promote_types(like.dtype, torch.float32))

    def update(self, state: S, x: Tensor) -> S:
        decay, write = self.mix(self.compute_gates(x, state))
        return states.rebuild(state, [decay * state[0] + write])

    def read(self, state: S, x: Tensor) -> Tensor:
        return state[0].to(x.dtype, copy=True)  # a caller may write into y

    def forward(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        if x.shape[1] == 1:
            return self.unroll(x, state)
        h = linear_scan(*self.mix(self.compute_gates(x, state)), state[0])
        return h.to(x.dtype), states.rebuild(state, [h[:, -1].clone()])

    def ragged(self, x: Tensor, lengths: Tensor, state: S) -> tuple[Tensor, S]:
        if torch.compiler.is_exporting():  # how many pieces a scan has depends on the length
            return super().ragged(x, lengths, state)
        decay, write = self.mix(self.compute_gates(x, state))
        nothing = (torch.arange(x.shape[1], device=x.device) >= lengths[:, None])[..., None]
        h = linear_scan(decay.masked_fill(nothing, 1), write.masked_fill(nothing, 0), state[0])  # kept over the padding
        return h.to(x.dtype), states.rebuild(state, [h[:, -1].clone()])

    def explain(self, state: S, x: Tensor) -> dict[str, Tensor]:
        return self.compute_gates(x, state)

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        products = self.gates * self.width * self.dim
        return Cost(2 * batch * steps * products, states.nbytes(self.initial_state(1)) * batch)
