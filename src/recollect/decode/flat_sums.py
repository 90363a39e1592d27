"""A block of linear attention for one step: the sums that are its memory move on in a handful of operations."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import elu

from ..layers import linear_attention, norm
from .flat_block import Clock, Normed, Ways, biases
from .flat_matrix import lay


class Sums:
    """x + linear attention(norm(x))."""

    def __init__(self, own: norm.Norm, layer: linear_attention.LinearAttention, packing: str | None) -> None:
        three, config = (layer.q, layer.k, layer.v), layer.config
        weight = torch.cat([part.weight for part in three]).detach()
        self.inward = Normed.of(own, weight, biases(*three), packing)
        self.out, self.bias = lay(layer.out.weight, layer.out.bias, packing), layer.out.bias
        self.shape = 3, config.heads, config.size
        self.positive, self.normalise = config.feature == "elu", config.normalise

    def start(self, own: linear_attention.State, clock: Clock) -> None:
        self.sums, self.total = own

    def __call__(self, x: Tensor, clock: Clock, way: Ways) -> Tensor:
        qkv = self.inward(way, x).unflatten(1, self.shape).to(self.sums.dtype)  # B 3 H d
        qk, v = qkv[:, :2], qkv[:, 2]
        q, k = (elu(qk) + 1 if self.positive else qk).unbind(1)  # B H d
        self.sums = torch.addcmul(self.sums, k[..., None], v[..., None, :])
        self.total = self.total + k
        y = (q[..., None, :] @ self.sums)[..., 0, :]
        if self.normalise:
            y = y / (q * self.total).sum(dim=-1, keepdim=True)
        return way.linear_add(y.flatten(1).to(x.dtype), self.out, self.bias, x)

    def finish(self, own: Any, clock: Clock) -> linear_attention.State:
        return linear_attention.State(self.sums, self.total)
