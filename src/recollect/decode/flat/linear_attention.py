"""One step of a residual block of linear attention."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import elu

from ...layers import linear_attention, norm
from .blocks import Clock, NormLinear, Operations, join_biases


class LinearAttentionBlock:
    """x + linear attention(norm(x))."""

    @staticmethod
    def supports(layer: linear_attention.LinearAttention) -> bool:
        return layer.config.project

    def __init__(self, own: norm.Norm, layer: linear_attention.LinearAttention) -> None:
        three, config = (layer.q, layer.k, layer.v), layer.config
        weight = torch.cat([part.weight for part in three]).detach()
        self.inward = NormLinear.of(own, weight, join_biases(*three))
        self.out, self.bias = layer.out.weight.detach().contiguous(), layer.out.bias
        self.shape = 3, config.heads, config.size
        self.positive, self.normalise = config.feature == "elu", config.normalise

    def start(self, own: linear_attention.State, clock: Clock) -> None:
        self.sums, self.total = own

    def __call__(self, x: Tensor, clock: Clock, ops: Operations) -> Tensor:
        qkv = self.inward(ops, x).unflatten(1, self.shape).to(self.sums.dtype)  # B 3 H d
        qk, v = qkv[:, :2], qkv[:, 2]
        q, k = (elu(qk) + 1 if self.positive else qk).unbind(1)  # B H d
        self.sums = torch.addcmul(self.sums, k[..., None], v[..., None, :])
        self.total = self.total + k
        y = (q[..., None, :] @ self.sums)[..., 0, :]
        if self.normalise:
            y = y / (q * self.total).sum(dim=-1, keepdim=True)
        return ops.linear_add(y.flatten(1).to(x.dtype), self.out, self.bias, x)

    def finish(self, own: Any, clock: Clock) -> linear_attention.State:
        return linear_attention.State(self.sums, self.total)
