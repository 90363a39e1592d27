"""The gates of one step of rnn, gru and lstm, forth and back, once their sums are known: B G from x, B G from h.

On a GPU gru and lstm are torch's own kernels for it, one each way.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

aten = torch.ops.aten


def is_fused(tensor: Tensor) -> bool:
    """Whether torch has a kernel for the gates where this tensor is."""
    return tensor.is_cuda


class Gates(ABC):
    kind: str

    @abstractmethod
    def forth(
        self, from_x: Tensor, from_h: Tensor, h: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
        """h, c, and what the way back needs; neither sum is kept."""

    @abstractmethod
    def back(
        self, kept: tuple[Tensor, ...], of_h: Tensor, of_c: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """The gradients of both sums (one tensor where they are equal), of h beside its sum, and of c."""


class RnnGates(Gates):
    kind = "rnn"

    def forth(self, from_x, from_h, h, c):
        h = (from_x + from_h).tanh_()
        return h, None, (h,)

    def back(self, kept, of_h, of_c):
        of_sum = aten.tanh_backward(of_h, *kept)
        return of_sum, of_sum, None, None


class GruGates(Gates):
    kind = "gru"

    def forth(self, from_x, from_h, h, c):
        if is_fused(h):
            new, kept = aten._thnn_fused_gru_cell(from_x, from_h, h)
            return new, None, (kept,)
        both = 2 * h.shape[1]
        candidate_of_h = from_h[:, both:]
        opened = (from_x[:, :both] + from_h[:, :both]).sigmoid_()
        reset, keep = opened.chunk(2, dim=-1)
        candidate = torch.addcmul(from_x[:, both:], reset, candidate_of_h).tanh_()
        return torch.lerp(candidate, h, keep), None, (opened, candidate, candidate_of_h, h)

    def back(self, kept, of_h, of_c):
        if is_fused(of_h):
            of_x, of_hidden, direct, *_ = aten._thnn_fused_gru_cell_backward(of_h, *kept, False)
            return of_x, of_hidden, direct, None
        opened, candidate, candidate_of_h, h = kept
        reset, keep = opened.chunk(2, dim=-1)
        direct = of_h * keep
        of_candidate = aten.tanh_backward(of_h - direct, candidate)
        of_opened = aten.sigmoid_backward(
            torch.cat([of_candidate * candidate_of_h, of_h * (h - candidate)], dim=-1), opened
        )
        return (
            torch.cat([of_opened, of_candidate], dim=-1),
            torch.cat([of_opened, of_candidate * reset], dim=-1),
            direct,
            None,
        )


class LstmGates(Gates):
    kind = "lstm"

    def forth(self, from_x, from_h, h, c):
        assert c is not None
        if is_fused(h):
            new, after, kept = aten._thnn_fused_lstm_cell(from_x, from_h, c)
            return new, after, (c, after, kept)
        width = h.shape[1]
        sums = from_x + from_h
        enter, forget = sums[:, : 2 * width].sigmoid().chunk(2, dim=-1)
        candidate, leave = sums[:, 2 * width : 3 * width].tanh(), sums[:, 3 * width :].sigmoid()
        after = torch.addcmul(forget * c, enter, candidate)
        shown = after.tanh()
        return leave * shown, after, (enter, forget, candidate, leave, c, shown)

    def back(self, kept, of_h, of_c):
        if is_fused(of_h):
            c, after, workspace = kept
            of_sum, of_c, _ = aten._thnn_fused_lstm_cell_backward_impl(of_h, of_c, c, after, workspace, False)
            return of_sum, of_sum, None, of_c
        enter, forget, candidate, leave, c, shown = kept
        through = aten.tanh_backward(of_h * leave, shown)
        of_c = through if of_c is None else of_c + through
        of_sum = torch.cat(
            [
                aten.sigmoid_backward(of_c * candidate, enter),
                aten.sigmoid_backward(of_c * c, forget),
                aten.tanh_backward(of_c * enter, candidate),
                aten.sigmoid_backward(of_h * shown, leave),
            ],
            dim=-1,
        )
        return of_sum, of_sum, None, of_c * forget


GATES: dict[str, Gates] = {"rnn": RnnGates(), "gru": GruGates(), "lstm": LstmGates()}
