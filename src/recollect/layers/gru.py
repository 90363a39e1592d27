"""The gated recurrent unit (Cho 2014): one vector, each unit of which is kept or replaced by its gate.

STATE   h
UPDATE  r, z = σ(W x + U h + b);  n = tanh(W x + U (r·h) + b) or tanh(W x + r·(U h + b));  h ← (1−z)·n + z·h
READ    y = h
GROWS   no
FAST    fused kernel (reset after), one loop (reset before)

The reset gate acts before the product (Cho 2014) or after it (cuDNN and torch, the default). For `before` no
fused kernel exists: its fast form computes everything that does not depend on h for the whole chunk at once.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..core.contract import Layer, Memory
from ..kernels import onnx
from ..kernels.recurrent.gates import GATES
from .keywords import constructed_from
from .recurrent import HiddenAlone, RecurrentConfig


@dataclass(frozen=True, kw_only=True)
class Config(RecurrentConfig):
    reset: Literal["after", "before"] = "after"

    def build(self) -> "GRU":
        return GRU(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=6),
            cls(dim=5, width=4, num_layers=3),
            cls(dim=5, width=4, num_layers=2, reset="before"),
            cls(dim=3, bias=False, reset="before"),
        )


class State(NamedTuple):
    h: Tensor  # B L W


@constructed_from(Config)
class GRU(HiddenAlone[State]):
    """Cho's layer, any number deep."""

    config: Config

    def __init__(self, config: Config) -> None:
        cell, loop_gates = (torch.gru_cell, GATES["gru"]) if config.reset == "after" else (None, None)
        super().__init__(config, torch.gru, cell, nn.GRU, gates=3, loop_gates=loop_gates)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        return State(self.like(like).new_zeros(batch, len(self.levels), self.width))

    def update(self, state: State, x: Tensor) -> State:
        new = []
        for level, h in enumerate(state.h.unbind(1)):
            W, U, b, d = self.weights(level)
            x = self.advance(linear(x, W, b), h, U, d)
            new.append(x)
            x = self.drop(x, level)
        return State(new[0][:, None] if len(new) == 1 else torch.stack(new, dim=1))

    def read(self, state: State, x: Tensor) -> Tensor:
        return state.h[:, -1]

    def advance(self, from_x: Tensor, h: Tensor, U: Tensor, d: Tensor | None) -> Tensor:
        """The next h of one layer; `from_x` (B 3W) is W x + b of the gates r, z and the candidate n."""
        _, z, n = self.gate(from_x, h, U, d)
        return (n + z * (h - n)).to(h.dtype)

    def gate(self, from_x: Tensor, h: Tensor, U: Tensor, d: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The reset gate r, the update gate z and the candidate n: B W each."""
        width = self.width
        if self.config.reset == "after":
            from_h = linear(h, U, d)
            r, z = torch.sigmoid(from_x[:, : 2 * width] + from_h[:, : 2 * width]).chunk(2, dim=-1)
            return r, z, torch.tanh(from_x[:, 2 * width :] + r * from_h[:, 2 * width :])
        gates, new = (None, None) if d is None else (d[: 2 * width], d[2 * width :])
        r, z = torch.sigmoid(from_x[:, : 2 * width] + linear(h, U[: 2 * width], gates)).chunk(2, dim=-1)
        return r, z, torch.tanh(from_x[:, 2 * width :] + linear(r * h, U[2 * width :], new))

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if self.config.reset == "before" and x.shape[1] > 1 and not onnx.is_exporting():
            return self.hoisted(x, state)
        return super().forward(x, state)

    def hoisted(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Layer by layer, with one product for the inputs of all steps."""
        finals = []
        for level, h in enumerate(state.h.unbind(1)):
            W, U, b, d = self.weights(level)
            outputs = []
            for from_x in linear(x, W, b).unbind(1):
                h = self.advance(from_x, h, U, d)
                outputs.append(h)
            finals.append(h)
            x = self.drop(torch.stack(outputs, dim=1), level)
        return x, State(torch.stack(finals, dim=1))

    def exported_settings(self) -> dict[str, Any]:
        return {"linear_before_reset": int(self.config.reset == "after")}

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        if (
            self.config.reset == "before" and not onnx.is_exporting()
        ):  # torch's packed kernel computes only the other kind
            return Layer.ragged(self, x, lengths, state)
        return super().ragged(x, lengths, state)

    def compute_gates(self, level: int, x: Tensor, state: State) -> dict[str, Tensor]:
        W, U, b, d = self.weights(level)
        reset, keep, candidate = self.gate(linear(x, W, b), state.h[:, level], U, d)
        return {"reset": reset, "keep": keep, "candidate": candidate}
