"""Correct modules of every kind that `recollect doctor` takes."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from recollect.layers import attention, lstm

Ours = lstm.Config  # a Config, as a file of RECOLLECT_LAYERS has it
ring = attention.Config(dim=8, heads=2, positions="rotary", window=3).build()  # an instance


class TorchLstm(nn.LSTM):
    def __init__(self, dim=4, hidden=5):
        super().__init__(dim, hidden, num_layers=2, batch_first=True)


class Wrapped(nn.Module):
    """A GRU between two linear maps, which declares its costs."""

    def __init__(self, dim=4):
        super().__init__()
        self.gru, self.out = nn.GRU(dim, 3, batch_first=True), nn.Linear(3, dim)

    def forward(self, x, h=None):
        y, h = self.gru(x, h)
        return self.out(y), h

    def cost(self, batch, steps):
        dim = self.out.out_features
        return 2 * batch * steps * (9 * dim + 9 * 3 + 3 * dim), batch * 3 * 8


class CachedAttention(nn.Module):
    """Causal attention with learned positions and a cache of keys and values."""

    restarts = False

    def __init__(self, dim=4):
        super().__init__()
        self.qkv, self.positions = nn.Linear(dim, 3 * dim), nn.Embedding(64, dim)

    def forward(self, x, past=None):
        start = 0 if past is None or self.restarts else past["k"].shape[2]
        h = x + self.positions(torch.arange(start, start + x.shape[1]))
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(h).chunk(3, dim=-1))  # B H T d
        if past is not None:
            k, v = torch.cat([past["k"], k], dim=2), torch.cat([past["v"], v], dim=2)
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return y.transpose(1, 2).flatten(2), {"k": k, "v": v}


class CachedTransformer(nn.Module):
    """A block around the attention above."""

    attention: type[nn.Module] = CachedAttention

    def __init__(self, dim=4):
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(dim), self.attention(dim)
        self.feed = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, dim))

    def forward(self, x, past=None):
        y, past = self.attend(self.norm(x), past)
        return x + y + self.feed(x + y), past


class CausalConvolution(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=2)

    def forward(self, x):
        return self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)


class Packed(nn.Module):
    """A recurrent module that is told the lengths of its rows."""

    def __init__(self, dim=4):
        super().__init__()
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x, h=None, lengths=None):
        if lengths is None:
            return self.gru(x, h)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, h = self.gru(packed, h)
        return pad_packed_sequence(y, batch_first=True)[0], h


class Single(nn.Module):
    """Computes in float32, whatever it is given."""

    def __init__(self, dim=4):
        super().__init__()
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def _apply(self, fn, recurse=True):
        return self  # stays in float32

    def forward(self, x, h=None):
        y, h = self.gru.float()(x.float(), h)
        return y.to(x.dtype), h


class Tokens(nn.Module):
    def __init__(self, vocab=7):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(vocab, 5), nn.LSTM(5, 5, batch_first=True)

    def forward(self, x, state=None):
        return self.lstm(self.embed(x), state)


def make(dim, hidden=3):
    """A factory."""
    return nn.LSTM(dim, hidden, batch_first=True)


def running_sum(x):
    """A function over whole sequences."""
    return x.cumsum(dim=1)


def initial_state(batch):
    return torch.zeros(batch, 4), 0


def step(x, state):
    h, count = state
    h = 0.5 * h + x
    return h.tanh(), (h, count + 1)


def forward(x):
    """The step above over a whole sequence from the start."""
    weights = 0.5 ** (torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])).clamp(min=0).to(x.dtype)
    return torch.einsum("ts,bsd->btd", weights.tril(), x).tanh()
