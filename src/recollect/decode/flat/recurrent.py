"""One step of rnn, lstm and gru. Torch's own cells read matrices row by row, which takes a CPU twice as long."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from ...layers.recurrent import Recurrent
from ...layers.rnn import Rnn
from .matrix import lay_out, multiply


class Level:
    """One layer of a stack: the pre-activations of its gates, W x + b and U h + d."""

    def __init__(self, layer: Recurrent[Any], level: int, packing: str | None) -> None:
        W, U, self.b, self.d = layer.weights(level)
        self.W, self.U = lay_out(W, self.b, packing), lay_out(U, self.d, packing)

    def from_x(self, x: Tensor) -> Tensor:
        return multiply(x, self.W, self.b)

    def from_h(self, h: Tensor) -> Tensor:
        return multiply(h, self.U, self.d)


class RecurrentStack(ABC):
    """A recurrent layer, any number of levels deep."""

    @staticmethod
    def supports(layer: Any) -> bool:
        """On a CPU alone: a GPU has kernels for whole stacks."""
        return not layer.like().is_cuda

    def __init__(self, layer: Recurrent[Any], packing: str | None) -> None:
        self.levels = [Level(layer, level, packing) for level in layer.levels]
        self.width = layer.width

    def start(self, own: Any, clock: Any) -> None:
        self.h = list(own.h.unbind(1))

    def __call__(self, x: Tensor, clock: Any, ops: Any) -> Tensor:
        for i, level in enumerate(self.levels):
            x = self.h[i] = self.advance(i, level, x)
        return x

    def finish(self, own: Any, clock: Any) -> Any:
        return own._replace(h=torch.stack(self.h, dim=1))

    @abstractmethod
    def advance(self, i: int, level: Level, x: Tensor) -> Tensor:
        """The next h of one level."""


class RnnStack(RecurrentStack):
    def __init__(self, layer: Rnn, packing: str | None) -> None:
        super().__init__(layer, packing)
        self.activation = layer.activation

    def advance(self, i: int, level: Level, x: Tensor) -> Tensor:
        return self.activation(level.from_x(x).add_(level.from_h(self.h[i])))


class GruStack(RecurrentStack):
    @staticmethod
    def supports(layer: Any) -> bool:
        """Not with a reset gate before the product."""
        return RecurrentStack.supports(layer) and layer.config.reset == "after"

    def advance(self, i: int, level: Level, x: Tensor) -> Tensor:
        h, width = self.h[i], self.width
        from_x, from_h = level.from_x(x), level.from_h(h)
        gates = torch.sigmoid(from_x[:, : 2 * width] + from_h[:, : 2 * width])
        new = torch.tanh(torch.addcmul(from_x[:, 2 * width :], gates[:, :width], from_h[:, 2 * width :]))
        return torch.lerp(new, h, gates[:, width:])


class LstmStack(RecurrentStack):
    def start(self, own: Any, clock: Any) -> None:
        super().start(own, clock)
        self.c = list(own.c.unbind(1))

    def advance(self, i: int, level: Level, x: Tensor) -> Tensor:
        width = self.width
        sums = level.from_x(x).add_(level.from_h(self.h[i]))
        gates = torch.sigmoid(sums)
        new = torch.tanh(sums[:, 2 * width : 3 * width])
        self.c[i] = torch.addcmul(gates[:, width : 2 * width] * self.c[i], gates[:, :width], new)
        return gates[:, 3 * width :] * torch.tanh(self.c[i])

    def finish(self, own: Any, clock: Any) -> Any:
        return super().finish(own, clock)._replace(c=torch.stack(self.c, dim=1))
