"""The general attention model: a score, an alignment, a weighted sum of values.

All attention in the lineage is an instance of it: causal self-attention, full attention in an encoder,
attention to a source, soft alignment inside a recurrent decoder.
"""

from dataclasses import dataclass
from typing import Any

import torch
from einops import einsum
from torch import Tensor, nn
from torch.nn.functional import dropout, linear, scaled_dot_product_attention

from ..core.contract import Config, ContractError
from ..kernels import onnx
from .alignment import AlignmentName, Places, build_alignment
from .score import ScoreName, build_score


@dataclass(frozen=True, kw_only=True)
class AttendConfig(Config):
    """Settings of every attention layer.

    `project=False` makes attention parameter-free: queries, keys and values are the inputs themselves.
    `kv_heads` fewer than `heads` share keys and values between heads. `window` limits the distance of keys
    (for the alignment `local`: half the width of the bell's reach).
    """

    width: int | None = None
    heads: int = 1
    kv_heads: int | None = None
    head_dim: int | None = None
    score: ScoreName = "scaled"
    alignment: AlignmentName = "softmax"
    window: int | None = None
    project: bool = True
    bias: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim is None and self.dim % self.heads:
            raise ContractError(f"attention: expected heads to divide dim {self.dim}, found {self.heads} heads")
        if self.heads % self.groups:
            raise ContractError(
                f"attention: expected kv_heads to divide heads {self.heads}, found {self.kv_heads} kv_heads"
            )
        if not self.project and (
            self.out != self.dim or self.size * self.heads != self.dim or self.groups != self.heads
        ):
            raise ContractError(
                "attention: without projections width, heads·head_dim and kv_heads·head_dim all must be dim; "
                f"found dim {self.dim}, width {self.out}, {self.heads} heads of {self.size}, {self.groups} kv_heads"
            )
        if self.alignment == "local" and self.window is None:
            raise ContractError("attention: alignment 'local' needs a window")

    @property
    def size(self) -> int:
        """Width of one head."""
        return self.head_dim or self.dim // self.heads

    @property
    def groups(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def out(self) -> int:
        return self.width or self.dim


class Heads(nn.Module):
    """The projections: inputs to queries, keys and values by head, and heads back to one output."""

    def __init__(self, config: AttendConfig, source_dim: int | None = None) -> None:
        super().__init__()
        self.config = config
        source = source_dim or config.dim
        if config.project:
            self.q = nn.Linear(config.dim, config.heads * config.size, bias=config.bias)
            self.k = nn.Linear(source, config.groups * config.size, bias=config.bias)
            self.v = nn.Linear(source, config.groups * config.size, bias=config.bias)
            self.out = nn.Linear(config.heads * config.size, config.out, bias=config.bias)

    def query(self, x: Tensor) -> Tensor:
        """B T D → B T H d."""
        return self._split(self.q(x) if self.config.project else x)

    def key(self, x: Tensor) -> Tensor:
        """B S D → B S G d."""
        return self._split(self.k(x) if self.config.project else x)

    def value(self, x: Tensor) -> Tensor:
        """B S D → B S G d, in storage of its own, since it becomes part of a state."""
        return self._split(self.v(x) if self.config.project else x.clone())

    def project_all(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of the same x; in training on a GPU, by one product instead of three."""
        if not (self.config.project and x.is_cuda and torch.is_grad_enabled()):
            return self.query(x), self.key(x), self.value(x)
        return self.project_joined(x)

    def project_joined(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of the same x by one product."""
        if not self.config.project:
            return self.query(x), self.key(x), self.value(x)
        parts = self.q, self.k, self.v
        bias = torch.cat([part.bias for part in parts]) if self.config.bias else None
        y = linear(x, torch.cat([part.weight for part in parts]), bias)
        q, k, v = y.split([part.out_features for part in parts], dim=-1)
        return self._split(q), self._split(k), self._split(v)

    def merge(self, y: Tensor) -> Tensor:
        """B T H d → B T W."""
        y = y.flatten(2)
        return self.out(y) if self.config.project else y

    def _split(self, x: Tensor) -> Tensor:
        rows, steps, wide = x.shape
        return x.view(rows, steps, wide // self.config.size, self.config.size)

    def load_torch(self, module: nn.MultiheadAttention) -> None:
        """Copy the weights of a `torch.nn.MultiheadAttention` of the same size."""
        if module.in_proj_weight is None or module.bias_k is not None:
            raise ContractError("load_torch: expected a MultiheadAttention with one in_proj_weight and no bias_k")
        ours = (self.config.dim, self.config.heads, self.config.groups, self.config.bias)
        theirs = (module.embed_dim, module.num_heads, module.num_heads, module.in_proj_bias is not None)
        if ours != theirs or not self.config.project:
            raise ContractError(
                f"load_torch: expected a MultiheadAttention with dim, heads, kv_heads, bias = {ours}, found {theirs}"
            )
        with torch.no_grad():
            for name, weight in zip("qkv", module.in_proj_weight.chunk(3), strict=True):
                getattr(self, name).weight.copy_(weight)
            self.out.weight.copy_(module.out_proj.weight)
            if self.config.bias:
                for name, bias in zip("qkv", module.in_proj_bias.chunk(3), strict=True):
                    getattr(self, name).bias.copy_(bias)
                self.out.bias.copy_(module.out_proj.bias)

    def flops(self, queries: int, keys: int) -> int:
        c = self.config
        if not c.project:
            return 0
        wide = c.heads * c.size
        return 2 * queries * wide * (c.dim + c.out) + 4 * keys * c.groups * c.size * self.k.in_features


class Attend(nn.Module):
    """Score, alignment, weighted value. Uses a fused kernel wherever score and alignment allow it."""

    def __init__(self, config: AttendConfig, *, predict: bool = False) -> None:
        super().__init__()
        self.config = config
        self.score = build_score(config.score, config.heads, config.size)
        self.alignment = build_alignment(
            config.alignment, config.heads, config.size, config.window or 1, predict=predict
        )
        self.fused = self.alignment.plain and self.score.is_dot  # whether torch's fused kernel computes it

    def forward(self, q: Tensor, k: Tensor, v: Tensor, places: Places, *, bias: Tensor | None = None) -> Tensor:
        """q: B T H d, k and v: B S G d, bias: B|1 H T S → B T H d."""
        if self.fused:
            return self.kernel(q, k, v, attn_mask=self.mask(places, bias, q.dtype))
        rate = self.config.dropout if self.training else 0.0
        weights = dropout(self.weights(q, k, places, bias=bias), rate, training=rate > 0)
        return einsum(weights, self._to_heads(v), "b h t s, b h s d -> b t h d")

    def mask(self, places: Places, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        """What a fused kernel takes: B 1 T S of booleans, or with a bias the numbers to add, B H T S."""
        visible = places.visible[:, None]
        return visible if bias is None else bias.to(dtype).masked_fill(~visible, float("-inf"))

    def causal(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Causal attention: each query sees the keys up to its own position, without an explicit mask."""
        return self.kernel(q, k, v, is_causal=True)

    def kernel(self, q: Tensor, k: Tensor, v: Tensor, **mask: Any) -> Tensor:
        query, scale = self.score.as_dot(q.transpose(1, 2))
        if onnx.is_exporting() and not mask.get("is_causal"):
            seen = mask.get("attn_mask")
            if seen is not None:  # ONNX asks for a row of the mask for each query
                seen = seen.expand(-1, -1, query.shape[2], -1)
            y = onnx.attend(query, k.transpose(1, 2), v.transpose(1, 2), scale, mask=seen)
            return y.transpose(1, 2)
        y = scaled_dot_product_attention(
            query,
            k.transpose(1, 2),
            v.transpose(1, 2),
            dropout_p=self.config.dropout if self.training else 0.0,
            scale=scale,
            enable_gqa=self.config.groups != self.config.heads,
            **mask,
        )
        return y.transpose(1, 2)

    def weights(self, q: Tensor, k: Tensor, places: Places, *, bias: Tensor | None = None) -> Tensor:
        """The attention weights, B H T S."""
        query = q.transpose(1, 2)
        scores = self.score(query, self._to_heads(k))
        if bias is not None:
            scores = scores + bias.to(scores.dtype)
        return self.alignment(scores, query, places)

    def _to_heads(self, k: Tensor) -> Tensor:
        """B S G d → B H S d, each group's keys for all heads that share them."""
        return k.transpose(1, 2).repeat_interleave(self.config.heads // self.config.groups, dim=1)

    def flops(self, queries: int, pairs: int) -> int:
        """Matrix-product FLOPs for `queries` queries that see `pairs` keys in all."""
        c = self.config
        weights = self.score.flops(c.heads, c.size, queries, pairs) + self.alignment.flops(c.heads, c.size, queries)
        return weights + 2 * c.heads * c.size * pairs
