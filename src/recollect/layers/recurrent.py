"""What rnn, lstm and gru share: several layers deep, fused kernels for whole sequences, torch's weights.

The weights live in a `torch.nn` module, so that they load from and save to torch as they are. A whole chunk
runs that module's fused kernel. One step never does (at T = 1 on a CPU it costs 13 to 24 times a cell's step,
and Dynamo refuses it): it runs `update` and `read`, which are also the definition.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..core import state as states
from ..core.contract import Cell, Config, ContractError, Cost

S = TypeVar("S", bound=tuple[Tensor, ...])


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Config):
    """`width` is that of the hidden state (default: dim); `dropout` acts between layers, in training."""

    width: int | None = None
    num_layers: int = 1
    dropout: float = 0.0
    bias: bool = True


def layer_first(tensor: Tensor) -> Tensor:
    """B L W → L B W, as torch's kernels want it."""
    return tensor.transpose(0, 1).contiguous()


def batch_first(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """L B W → B L W in storage of its own, as a state wants it."""
    return tensor.transpose(0, 1).to(dtype).clone(memory_format=torch.contiguous_format)


class Recurrent(Cell[S]):
    """A stack of gated or plain recurrent cells. `fused` is the torch module that holds the weights."""

    fused: nn.RNNBase
    gates: int  # blocks of `width` rows in each weight matrix

    def __init__(self, config: RecurrentConfig, fused: Any, gates: int, **options: Any) -> None:
        super().__init__()
        self.config = config
        self.dim = config.dim
        self.width = config.width or config.dim
        self.gates = gates
        self.fused = fused(
            config.dim,
            self.width,
            config.num_layers,
            bias=config.bias,
            batch_first=True,
            dropout=config.dropout if config.num_layers > 1 else 0.0,
            **options,
        )
        self.levels = range(config.num_layers)

    @abstractmethod
    def run_fused(self, x: Any, state: S) -> tuple[Any, S]:
        """A whole chunk (or a packed sequence) through torch's kernel."""

    @abstractmethod
    def look(self, level: int, x: Tensor, state: S) -> dict[str, Tensor]:
        """The gates (B W each) of one layer, given that layer's input."""

    def explain(self, state: S, x: Tensor) -> dict[str, Tensor]:
        """The gates of every layer: B L W each."""
        (h, *_) = self.update(state, x)
        found = [self.look(level, x if level == 0 else h[:, level - 1], state) for level in self.levels]
        return {name: torch.stack([gates[name] for gates in found], dim=1) for name in found[0]}

    def forward(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        if x.shape[1] == 1:
            return self.unroll(x, state)
        return self.run_fused(x, state)

    def ragged(self, x: Tensor, lengths: Tensor, state: S) -> tuple[Tensor, S]:
        if x.shape[1] == 1:
            return super().ragged(x, lengths, state)
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        y, final = self.run_fused(packed, state)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        empty = (lengths == 0)[:, None, None]
        return y, states.map(lambda before, after: torch.where(empty, before, after), state, final)

    def weights(self, level: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """W (gates·width, in), U (gates·width, width) and the two biases of one layer."""
        fused = self.fused
        return (
            getattr(fused, f"weight_ih_l{level}"),
            getattr(fused, f"weight_hh_l{level}"),
            getattr(fused, f"bias_ih_l{level}") if self.config.bias else None,
            getattr(fused, f"bias_hh_l{level}") if self.config.bias else None,
        )

    def drop(self, x: Tensor, level: int) -> Tensor:
        """Dropout on what a layer hands to the one above."""
        if self.config.dropout and self.training and level + 1 < len(self.levels):
            return nn.functional.dropout(x, self.config.dropout)
        return x

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        rows = self.gates * self.width
        inputs = [self.dim] + [self.width] * (len(self.levels) - 1)
        flops = sum(2 * rows * (width + self.width) for width in inputs) * batch * steps
        return Cost(flops, states.nbytes(self.initial_state(1)) * batch)

    def load_torch(self, module: nn.RNNBase) -> None:
        """Take the weights of a `torch.nn` module of the same kind and size."""
        if type(module) is not type(self.fused) or module.bidirectional:
            raise ContractError(
                f"load_torch: expected a one-way {type(self.fused).__name__}, found "
                f"{'a bidirectional ' if module.bidirectional else ''}{type(module).__name__}"
                f"{'; build the encoder `bidirectional` for that' if module.bidirectional else ''}"
            )
        self.fused.load_state_dict(module.state_dict())

    def to_torch(self) -> nn.RNNBase:
        """A `torch.nn` module (batch first) with a copy of these weights."""
        options = {"nonlinearity": self.fused.nonlinearity} if isinstance(self.fused, nn.RNN) else {}
        kind: Any = type(self.fused)
        module = kind(
            self.dim,
            self.width,
            len(self.levels),
            bias=self.config.bias,
            batch_first=True,
            dropout=self.fused.dropout,
            **options,
        )
        module.load_state_dict(self.fused.state_dict())
        return module.to(self.like())
