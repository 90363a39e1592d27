"""Gate activations of one step of rnn, gru and lstm, forward and backward, given W x + b and U h + d (B G each).

On a GPU those of gru and lstm are torch's own fused cell kernels.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

aten = torch.ops.aten


def is_fused(tensor: Tensor) -> bool:
    """Whether torch has a fused cell kernel for the device of this tensor."""
    return tensor.is_cuda


class Gates(ABC):
    """The part of a recurrent cell after its matrix products."""

    kind: str

    @abstractmethod
    def forward(
        self, from_x: Tensor, from_h: Tensor, h: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
        """The next h and c, and the tensors that `backward` needs; from_x and from_h are not among them."""

    @abstractmethod
    def backward(
        self, saved: tuple[Tensor, ...], grad_h: Tensor, grad_c: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """The gradients of from_x and from_h (one tensor where equal), of the old h beside U h, and of the old c."""


class RnnGates(Gates):
    kind = "rnn"

    def forward(self, from_x, from_h, h, c):
        h = (from_x + from_h).tanh_()
        return h, None, (h,)

    def backward(self, saved, grad_h, grad_c):
        grad_sum = aten.tanh_backward(grad_h, *saved)
        return grad_sum, grad_sum, None, None


class GruGates(Gates):
    kind = "gru"

    def forward(self, from_x, from_h, h, c):
        if is_fused(h):
            new, saved = aten._thnn_fused_gru_cell(from_x, from_h, h)
            return new, None, (saved,)
        both = 2 * h.shape[1]
        candidate_from_h = from_h[:, both:]
        gates = (from_x[:, :both] + from_h[:, :both]).sigmoid_()
        reset, update = gates.chunk(2, dim=-1)
        candidate = torch.addcmul(from_x[:, both:], reset, candidate_from_h).tanh_()
        return torch.lerp(candidate, h, update), None, (gates, candidate, candidate_from_h, h)

    def backward(self, saved, grad_h, grad_c):
        if is_fused(grad_h):
            grad_from_x, grad_from_h, direct, *_ = aten._thnn_fused_gru_cell_backward(grad_h, *saved, False)
            return grad_from_x, grad_from_h, direct, None
        gates, candidate, candidate_from_h, h = saved
        reset, update = gates.chunk(2, dim=-1)
        direct = grad_h * update
        grad_candidate = aten.tanh_backward(grad_h - direct, candidate)
        grad_gates = aten.sigmoid_backward(
            torch.cat([grad_candidate * candidate_from_h, grad_h * (h - candidate)], dim=-1), gates
        )
        return (
            torch.cat([grad_gates, grad_candidate], dim=-1),
            torch.cat([grad_gates, grad_candidate * reset], dim=-1),
            direct,
            None,
        )


class LstmGates(Gates):
    kind = "lstm"

    def forward(self, from_x, from_h, h, c):
        assert c is not None
        if is_fused(h):
            new_h, new_c, saved = aten._thnn_fused_lstm_cell(from_x, from_h, c)
            return new_h, new_c, (c, new_c, saved)
        width = h.shape[1]
        sums = from_x + from_h
        i, f = sums[:, : 2 * width].sigmoid().chunk(2, dim=-1)
        g, o = sums[:, 2 * width : 3 * width].tanh(), sums[:, 3 * width :].sigmoid()
        new_c = torch.addcmul(f * c, i, g)
        tanh_c = new_c.tanh()
        return o * tanh_c, new_c, (i, f, g, o, c, tanh_c)

    def backward(self, saved, grad_h, grad_c):
        if is_fused(grad_h):
            c, new_c, workspace = saved
            grad_sum, grad_c, _ = aten._thnn_fused_lstm_cell_backward_impl(grad_h, grad_c, c, new_c, workspace, False)
            return grad_sum, grad_sum, None, grad_c
        i, f, g, o, c, tanh_c = saved
        through_h = aten.tanh_backward(grad_h * o, tanh_c)
        grad_c = through_h if grad_c is None else grad_c + through_h
        grad_sum = torch.cat(
            [
                aten.sigmoid_backward(grad_c * g, i),
                aten.sigmoid_backward(grad_c * c, f),
                aten.tanh_backward(grad_c * i, g),
                aten.sigmoid_backward(grad_h * tanh_c, o),
            ],
            dim=-1,
        )
        return grad_sum, grad_sum, None, grad_c * f


GATES: dict[str, Gates] = {"rnn": RnnGates(), "gru": GruGates(), "lstm": LstmGates()}
