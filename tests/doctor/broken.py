"""One deliberately broken module for each case that `recollect doctor` must name."""

from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recollect.core.contract import Cell, Config, Cost
from recollect.layers import combine, cross_attention, lstm

spec = util.spec_from_file_location("doctor_good", Path(__file__).with_name("good.py"))
good = util.module_from_spec(spec)
spec.loader.exec_module(good)


Reader = cross_attention.Config(dim=4, memory_dim=3)


class NotCausal(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.conv, self.out = nn.Conv1d(dim, dim, 3, padding="same"), nn.Linear(dim, dim)

    def forward(self, x):
        return self.out(self.conv(x.transpose(1, 2)).transpose(1, 2))


class NormOverTime(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.up, self.norm = nn.Linear(dim, dim), nn.InstanceNorm1d(dim)

    def forward(self, x):
        return self.norm(self.up(x).transpose(1, 2)).transpose(1, 2)


class NormByHand(nn.Module):
    def forward(self, x):
        return (x - x.mean(dim=1, keepdim=True)) / (x.std(dim=1, keepdim=True) + 1e-5)


class Unmasked(nn.TransformerEncoderLayer):
    def __init__(self, dim=4):
        super().__init__(dim, 2, 8, batch_first=True)


class RestartingAttention(good.CachedAttention):
    restarts = True


class Restarting(good.CachedTransformer):
    attention = RestartingAttention


class Forgetful(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x, h=None):
        return self.gru(x)


class WritingCell(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x, h):
        return h.mul_(0.5).add_(self.linear(x))


class InPlace(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.cell = WritingCell(dim)

    def forward(self, x, h=None):
        h = x.new_zeros(len(x), x.shape[2]) if h is None else h
        return torch.stack([self.cell(x_t, h).clone() for x_t in x.unbind(1)], dim=1), h


class AppendsToItsCache(nn.Module):
    """The tensors are left alone, the list that holds them is not."""

    def forward(self, x, seen=None):
        seen = [] if seen is None else seen
        seen.append(x.sum(dim=1))
        before = sum(seen[:-1], torch.zeros_like(seen[0]))
        return before[:, None] + x.cumsum(dim=1), seen


class AlwaysDropout(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5, training=True)


class DropoutLeftOn(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.up, self.drop = nn.Linear(dim, dim), AlwaysDropout()

    def forward(self, x):
        return self.drop(self.up(x))


class CountsItsCalls(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class LeakyPadding(nn.Module):
    """Is told the lengths, and reads on."""

    def __init__(self, dim=4):
        super().__init__()
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x, h=None, lengths=None):
        return self.gru(x, h)


class LeakyMean(nn.Module):
    """Subtracts a mean over the batch, padding included; the mask is not used."""

    def __init__(self, dim=4):
        super().__init__()
        self.up = nn.Linear(dim, dim)

    def forward(self, x, key_padding_mask=None):
        y = self.up(x)
        return y if key_padding_mask is None else y - y.mean(dim=(0, 1))


class WrongCosts(good.Wrapped):
    def cost(self, batch, steps):
        flops, kept = super().cost(batch, steps)
        return 2 * flops, kept + 8


class Neighbours(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.up = nn.Linear(dim, dim)

    def forward(self, x):
        return self.up(x - x.mean(dim=0))


class State(NamedTuple):
    total: Tensor  # B D


class OurInPlace(Cell[State]):
    """A layer of the contract that writes into its state and declares no product though it has one."""

    def __init__(self, dim=4):
        super().__init__()
        self.dim = self.width = dim
        self.out = nn.Linear(dim, dim)

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return State(self.like(like).new_zeros(batch, self.dim))

    def update(self, state, x):
        return State(state.total.add_(x))

    def read(self, state, x):
        return self.out(state.total)

    def cost(self, batch, steps, source=0):
        return Cost(0, batch * self.dim * self.like().element_size())


class OwesWork(OurInPlace):
    """Pure, and declares no product though it has one."""

    def update(self, state, x):
        return State(state.total + x)


@dataclass(frozen=True, kw_only=True)
class OwesWorkConfig(Config):
    def build(self):
        return OwesWork(self.dim)


stack = combine.StackConfig(dim=4, layers=(lstm.Config(dim=4), OwesWorkConfig(dim=4)))


class NotFinite(nn.Module):
    def forward(self, x):
        return x * float("nan")


class KeepsItsCache(nn.Module):
    """The cache is on the module, so that no call stands alone."""

    cache = None

    def forward(self, x):
        self.cache = x if self.cache is None else torch.cat([self.cache, x], dim=1)
        return x + self.cache.mean(dim=1, keepdim=True)


class Pooled(nn.Module):
    """Not over sequences: one output for all of x."""

    def forward(self, x):
        return x.mean(dim=1)


class WrongWidth(nn.Module):
    def forward(self, x):
        return x @ torch.zeros(9, 9, dtype=x.dtype)


class TimeFirst(nn.Module):
    """A recurrent layer that takes steps first, given rows first."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.wide = nn.Linear(dim, 2 * dim)
        self.lstm = nn.LSTM(2 * dim, dim)

    def forward(self, x):
        return self.lstm(self.wide(x))[0]


class Doubled(nn.Module):
    """A module whose first part takes twice its width."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.mix = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.mix(torch.cat([x, x], dim=-1))


class CostsByName(Doubled):
    """A module whose costs come in a form that is not understood."""

    def cost(self, batch, steps):
        return {"flops": 1, "state_bytes": 2}

    def forward(self, x, state=None):
        return self.mix(torch.cat([x, x], dim=-1)), x[:, -1]
