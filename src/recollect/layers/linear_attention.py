"""Linear attention (Katharopoulos 2020): attention without the softmax, so that its cache is a sum.

STATE   S = Σ φ(k) vᵀ,  z = Σ φ(k)
UPDATE  S ← S + φ(k) vᵀ;  z ← z + φ(k)
READ    y = W_o (φ(q)·S) / (φ(q)·z), or without the denominator
GROWS   no
FAST    chunked: attention inside a chunk, sums between chunks
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from einops import einsum, rearrange
from torch import Tensor, nn
from torch.nn.functional import elu, pad

from ..core import state as states
from ..core.contract import Cell, ContractError, Cost, Memory
from ..core.contract import Config as BaseConfig
from .keywords import constructed_from

CHUNK = 64  # steps computed together as attention


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`feature` is φ; `normalise` divides by φ(q)·z (needs positive features)."""

    width: int | None = None
    heads: int = 1
    head_dim: int | None = None
    feature: Literal["elu", "identity"] = "elu"
    normalise: bool = True
    project: bool = True
    bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim is None and self.dim % self.heads:
            raise ContractError(f"linear-attention: expected heads to divide dim {self.dim}, found {self.heads} heads")
        if self.normalise and self.feature == "identity":
            raise ContractError("linear-attention: feature 'identity' can be negative; set normalise=False")
        if not self.project and (self.size * self.heads != self.dim or self.width not in (None, self.dim)):
            raise ContractError("linear-attention: without projections heads·head_dim and width must be dim")

    @property
    def size(self) -> int:
        return self.head_dim or self.dim // self.heads

    def build(self) -> "LinearAttention":
        return LinearAttention(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=6, heads=2),
            cls(dim=4, width=5, heads=2, head_dim=3, feature="identity", normalise=False, bias=True),
            cls(dim=4, project=False),
        )


class State(NamedTuple):
    sums: Tensor  # B H d d, float32 or better
    total: Tensor  # B H d, float32 or better


@constructed_from(Config)
class LinearAttention(Cell[State]):
    """Attention whose state is one matrix a head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        if config.project:
            inner = config.heads * config.size
            self.q, self.k, self.v = (nn.Linear(self.dim, inner, bias=config.bias) for _ in range(3))
            self.out = nn.Linear(inner, self.width, bias=config.bias)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        like, heads, size = self.like(like), self.config.heads, self.config.size
        dtype = torch.promote_types(like.dtype, torch.float32)
        return State(
            like.new_zeros(batch, heads, size, size, dtype=dtype),
            like.new_zeros(batch, heads, size, dtype=dtype),
        )

    def update(self, state: State, x: Tensor) -> State:
        k, v = self.key(x, state), self.value(x, state)  # B H d
        return State(state.sums + k[..., :, None] * v[..., None, :], state.total + k)

    def read(self, state: State, x: Tensor) -> Tensor:
        q = self.query(x, state)
        y = einsum(q, state.sums, "b h k, b h k v -> b h v")
        if self.config.normalise:
            y = y / (q * state.total).sum(dim=-1, keepdim=True)
        return self.merge(y, x)

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if x.shape[1] == 1:
            return self.unroll(x, state)
        return self.chunked(self.query(x, state), self.key(x, state), self.value(x, state), x, state)

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        if torch.compiler.is_exporting():  # how many chunks there are depends on the length
            return super().ragged(x, lengths, state)
        nothing = (torch.arange(x.shape[1], device=x.device) >= lengths[:, None])[..., None, None]
        k = self.key(x, state).masked_fill(nothing, 0)  # zero keys add nothing to the sums
        return self.chunked(self.query(x, state), k, self.value(x, state), x, state)

    def chunked(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, state: State) -> tuple[Tensor, State]:
        """q, k, v: B T H d, features applied. A fixed number of operations, whatever T."""
        steps = x.shape[1]
        chunk = min(CHUNK, steps)
        q, k, v = (
            rearrange(pad(t, (0, 0, 0, 0, 0, -steps % chunk)), "b (n c) h d -> b h n c d", c=chunk) for t in (q, k, v)
        )
        sums = torch.cat([state.sums[:, :, None], k.mT @ v], dim=2).cumsum(dim=2)  # B H n+1 d d
        scores = (q @ k.mT).tril()  # B H n c c
        y = scores @ v + q @ sums[:, :, :-1]
        totals = torch.cat([state.total[:, :, None], k.sum(dim=3)], dim=2).cumsum(dim=2)  # B H n+1 d
        if self.config.normalise:
            weight = scores.sum(dim=-1) + einsum(q, totals[:, :, :-1], "b h n c d, b h n d -> b h n c")
            y = y / weight.masked_fill(weight == 0, 1)[..., None]  # zero only for padding
        y = rearrange(y, "b h n c d -> b (n c) h d")[:, :steps]
        return self.merge(y, x), State(sums[:, :, -1].clone(), totals[:, :, -1].clone())

    def query(self, x: Tensor, state: State) -> Tensor:
        return self.features(self.split(self.q(x) if self.config.project else x, state))

    def key(self, x: Tensor, state: State) -> Tensor:
        return self.features(self.split(self.k(x) if self.config.project else x, state))

    def value(self, x: Tensor, state: State) -> Tensor:
        return self.split(self.v(x) if self.config.project else x, state)

    def split(self, x: Tensor, state: State) -> Tensor:
        """… (H d) → … H d, in the dtype of the sums."""
        return x.unflatten(-1, (self.config.heads, self.config.size)).to(state.sums.dtype)

    def merge(self, y: Tensor, x: Tensor) -> Tensor:
        y = y.flatten(-2).to(x.dtype)
        return self.out(y) if self.config.project else y

    def features(self, x: Tensor) -> Tensor:
        return elu(x) + 1 if self.config.feature == "elu" else x

    def explain(self, state: State, x: Tensor) -> dict[str, Tensor]:
        """`written`, the share of the matrix that this step writes, and `query`, the query's features: B H, B H d."""
        after = self.update(state, x)
        norm = (after.sums - state.sums).flatten(2).norm(dim=-1) / after.sums.flatten(2).norm(dim=-1).clamp(min=1e-12)
        return {"written": norm, "query": self.query(x, state)}

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        c = self.config
        inner = c.heads * c.size
        products = inner * c.size + (3 * self.dim * inner + inner * self.width if c.project else 0)
        return Cost(2 * batch * steps * products, states.nbytes(self.initial_state(1)) * batch)
