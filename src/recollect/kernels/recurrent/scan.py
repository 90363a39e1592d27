"""A linear recurrence h_t = decay_t·h_{t−1} + write_t, each channel by itself, computed in parallel over time.

Pieces of CHUNK steps run side by side, each from zero, with the product of its decays beside it; the same recurrence,
over the ends of the pieces, then carries the state from piece to piece. That is a loop of CHUNK operations for each
factor CHUNK of the length, and work that grows as the length does.

No logarithm and no division is taken: a decay of exactly 0, 1 or below 0 is as safe as any other, products that
underflow become the 0 that they stand for, and so do gradients.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

CHUNK = 16  # steps of a piece: all pieces take their first step together, then their second, …


def linear_scan(decay: Tensor, write: Tensor, start: Tensor) -> Tensor:
    """h after every step, B T W, from `start` (B W); decay and write: B T W."""
    batch, steps, width = write.shape
    if steps <= CHUNK:
        return torch.stack(list(_accumulate(decay.unbind(1), write.unbind(1), start)), dim=1)
    spare = -steps % CHUNK
    decays = pad(decay, (0, 0, 0, spare), value=1.0).view(batch, -1, CHUNK, width).unbind(2)  # B n W each
    writes = pad(write, (0, 0, 0, spare)).view(batch, -1, CHUNK, width).unbind(2)
    gains = [decays[0]]  # what is left of a piece's first state after each of its steps
    for own in decays[1:]:
        gains.append(gains[-1] * own)
    sums = [writes[0], *_accumulate(decays[1:], writes[1:], writes[0])]  # each piece from a state of zero
    ends = linear_scan(gains[-1], sums[-1], start)  # B n W
    first = torch.cat([start[:, None], ends[:, :-1]], dim=1)[:, :, None]
    h = torch.addcmul(torch.stack(sums, dim=2), torch.stack(gains, dim=2), first)  # B n c W
    return h.view(batch, steps + spare, width)[:, :steps]


def _accumulate(decays: tuple[Tensor, ...], writes: tuple[Tensor, ...], h: Tensor) -> Iterator[Tensor]:
    """h after each step, one step after the other."""
    for decay, write in zip(decays, writes, strict=True):
        h = torch.addcmul(write, decay, h)
        yield h
