"""Matrix memory: keys and values in one matrix a head, with dials for how it forgets and how it is written.

STATE   S (d_k × d_v of each head), and a clock with rotary places
UPDATE  S ← Λ S, Λ = none, a fixed rate, a rate a step, or a rate a step and channel, in (0, 1) or (−1, 1);
        then add: S ← S + β k vᵀ; or delta: S ← S + β k (v − Sᵀ k)ᵀ
READ    y = W_o (silu(W_g x) · norm(Sᵀ q + D v)), norm, gate and shortcut there or not
GROWS   no
FAST    chunked: attention inside a chunk, a matrix between chunks

with k, q = φ(W_k x), φ(W_q x) and v = W_v x for each head. The layers of history are settings of this one, each in a
file of its own: `retention`, `gla`, `mamba2`, `delta`, `gated-delta`. `linear-attention` is the one that adds, forgets
nothing and normalises; its file is older than this one.

The normaliser is one more column of S, whose value is always 1: what it reads is the sum of the weights.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from einops import einsum
from torch import Tensor, nn
from torch.nn.functional import elu, logsigmoid, normalize, pad, rms_norm, silu, softplus

from ..core import state as states
from ..core.contract import Cell, ContractError, Cost, Memory
from ..core.contract import Config as BaseConfig
from ..kernels import matrix as chunked
from .keywords import constructed_from
from .position import next_positions, rotate

ForgetName = Literal["none", "fixed", "step", "channel"]
FeatureName = Literal["identity", "elu", "silu"]
STEPS = 0.001, 0.1  # the steps Δ that heads start from, as in Mamba
RATES = 1.0, 16.0  # the rates A that they start from
EPSILON = 1e-6  # of norms
SLOWNESS = 16  # by how much the rates of channels are slowed down, as in GLA


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`forget` is the decay of S before each write:

    - fixed: γ of each head, 1 − 1/32, 1 − 1/64, … as in RetNet
    - step: exp(−A·Δ) of each head, Δ = softplus(w·x + b), as in Mamba-2
    - channel: σ(W x + b)^(1/16) of each row of S, as in GLA; `rank` is that of W (none: full)

    `signed` turns a decay a into 2a − 1. With `write="delta"` what S holds at the key is taken away first. `beta` is
    the largest strength of a write, β = beta·σ(w·x + b); none: 1. `tied` takes β = Δ instead. `unit` gives keys and
    queries the length 1, `rotary` turns them by their place, `shared` has one key and query for all heads. `skip` adds
    D v to what is read, D one number a head. The norm is one of each head and stands before the gate; with `norm_last`
    it is one of all heads together, behind the gate, as in Mamba-2.
    """

    width: int | None = None
    heads: int = 1
    head_dim: int | None = None
    value_dim: int | None = None
    forget: ForgetName = "none"
    signed: bool = False
    rank: int | None = None
    write: Literal["add", "delta"] = "add"
    beta: float | None = None
    tied: bool = False
    feature: FeatureName = "identity"
    unit: bool = False
    normalise: bool = False
    rotary: bool = False
    shared: bool = False
    out_norm: bool = False
    out_gate: bool = False
    norm_last: bool = False
    skip: bool = False
    bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.head_dim is None or self.value_dim is None) and self.dim % self.heads:
            raise ContractError(f"matrix: expected heads to divide dim {self.dim}, found {self.heads} heads")
        if self.normalise and (self.feature != "elu" or self.write == "delta" or self.signed or self.rotary):
            raise ContractError(
                "matrix: normalise=True needs weights that are positive: feature='elu', write='add', signed=False and "
                "rotary=False"
            )
        if self.signed and self.forget == "none":
            raise ContractError("matrix: signed=True needs something that is forgotten; set forget")
        if self.rank is not None and self.forget != "channel":
            raise ContractError(f"matrix: expected rank with forget='channel' alone, found forget={self.forget!r}")
        if self.tied and (self.forget != "step" or self.beta is not None):
            raise ContractError("matrix: tied=True takes β from forget='step', without beta")
        if self.write == "delta" and not self.unit:
            raise ContractError("matrix: write='delta' needs keys of length 1; set unit=True")
        if self.write == "delta" and self.tied:
            raise ContractError("matrix: tied=True has strengths beyond 2, with which write='delta' grows; set beta")
        if self.beta is not None and not 0 < self.beta <= 2:
            raise ContractError(f"matrix: expected beta over 0, up to 2, found {self.beta:g}")
        if self.rotary and self.key_size % 2:
            raise ContractError(f"matrix: rotary places need an even head width, found {self.key_size}")

    @property
    def key_size(self) -> int:
        return self.head_dim or self.dim // self.heads

    @property
    def value_size(self) -> int:
        return self.value_dim or self.dim // self.heads

    def build(self) -> "Matrix":
        return Matrix(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=6, heads=2),
            cls(
                dim=4,
                heads=2,
                head_dim=3,
                value_dim=2,
                width=5,
                feature="elu",
                normalise=True,
                forget="step",
                bias=True,
                skip=True,
            ),
            cls(dim=4, heads=2, forget="channel", signed=True, write="delta", unit=True, beta=2.0, shared=True),
            cls(dim=4, head_dim=3, write="delta", unit=True, feature="silu"),
            cls(dim=4, heads=2, out_norm=True, norm_last=True),
        )


class State(NamedTuple):
    sums: Tensor  # B H d e, float32 or better; with a normaliser e is one more than the width of a value
    clock: Tensor | None  # B, int64; none without rotary places


class Gates(NamedTuple):
    """What the input says about forgetting and writing, in the dtype of the state."""

    decay: Tensor | None  # B T H 1|d, or 1 1 H 1
    log: Tensor | None  # of it, where it is positive
    beta: Tensor | None  # B T H 1


@constructed_from(Config)
class Matrix(Cell[State]):
    """A memory of keys and values that is one matrix a head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        heads, keys, values = config.heads, config.key_size, config.heads * config.value_size
        inner = keys if config.shared else heads * keys
        self.q, self.k = (nn.Linear(self.dim, inner, bias=config.bias) for _ in range(2))
        self.v = nn.Linear(self.dim, values, bias=config.bias)
        self.out = nn.Linear(values, self.width, bias=config.bias)
        if config.forget == "step":
            place = (torch.arange(heads) + 0.5) / heads
            steps, rates = (low * (high / low) ** place for low, high in (STEPS, RATES))
            self.rate = nn.Linear(self.dim, heads, bias=False)
            self.rate_bias = nn.Parameter(steps.expm1().log())  # softplus of it is the step
            self.log_rate = nn.Parameter(rates.log())
        if config.forget == "channel":
            self.low = nn.Linear(self.dim, config.rank, bias=False) if config.rank else None
            self.rate = nn.Linear(config.rank or self.dim, heads * keys, bias=False)
            self.rate_bias = nn.Parameter(torch.zeros(heads * keys))
        if config.beta is not None:
            self.strength = nn.Linear(self.dim, heads, bias=False)
            self.strength_bias = nn.Parameter(torch.zeros(heads))
        if config.out_gate:
            self.gate = nn.Linear(self.dim, values, bias=False)
        if config.out_norm:
            self.norm_weight = nn.Parameter(torch.ones(heads, config.value_size))
        if config.skip:
            self.skip = nn.Parameter(torch.ones(heads))

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        like, c = self.like(like), self.config
        dtype = torch.promote_types(like.dtype, torch.float32)
        sums = like.new_zeros(batch, c.heads, c.key_size, c.value_size + c.normalise, dtype=dtype)
        return State(sums, torch.zeros(batch, dtype=torch.int64, device=like.device) if c.rotary else None)

    # The definition: one step at a time

    def update(self, state: State, x: Tensor) -> State:
        return self.write(state, x[:, None], self.value(x[:, None], state))

    def write(self, state: State, x: Tensor, v: Tensor) -> State:
        """The state after x (B 1 D) with the value v (B 1 H e)."""
        k, v = self.key(x, state)[:, 0], v[:, 0]  # B H d, B H e
        gates, sums = self.gates(x, state), state.sums
        if gates.decay is not None:
            sums = gates.decay[:, 0, :, :, None] * sums
        if self.config.write == "delta":
            v = v - einsum(k, sums, "b h k, b h k v -> b h v")
        if gates.beta is not None:
            v = v * gates.beta[:, 0]
        return State(sums + k[..., :, None] * v[..., None, :], None if state.clock is None else state.clock + 1)

    def read(self, state: State, x: Tensor) -> Tensor:
        v = self.value(x[:, None], state) if self.config.skip else None
        return self.merge(self.recall(state, x)[:, None], x[:, None], v)[:, 0]

    def recall(self, state: State, x: Tensor) -> Tensor:
        """What the updated state answers to x (B D): B H e."""
        before = state if state.clock is None else state._replace(clock=state.clock - 1)
        q = self.query(x[:, None], before)[:, 0]
        return einsum(q, state.sums, "b h k, b h k v -> b h v")

    # The fast form

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if x.shape[1] == 1:
            v = self.value(x, state)
            state = self.write(state, x, v)
            return self.merge(self.recall(state, x[:, 0])[:, None], x, v), state
        if torch.compiler.is_exporting() and self.config.write == "delta":  # ONNX solves no triangular system
            return super().ragged(x, torch.full(x.shape[:1], x.shape[1], device=x.device), state)
        return self.run_chunks(x, state, None)

    def ragged(self, x: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        if torch.compiler.is_exporting():  # how many chunks there are depends on the length
            return super().ragged(x, lengths, state)
        return self.run_chunks(x, state, lengths)

    def run_chunks(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Some operations for each chunk; what lies beyond the length of a row changes nothing."""
        steps, gates = x.shape[1], self.gates(x, state)
        decay = None
        if gates.decay is not None:
            decay = chunked.Decay.of(gates.decay) if gates.log is None else chunked.Decay(gates.log)
        k = self.key(x, state)
        if lengths is not None:
            nothing = (torch.arange(steps, device=x.device) >= lengths[:, None])[..., None, None]
            k, decay = k.masked_fill(nothing, 0), None if decay is None else decay.still(nothing)
        v = self.value(x, state)
        y, sums = chunked.run(
            self.query(x, state),
            k,
            v,
            state.sums,
            decay=decay,
            beta=gates.beta,
            delta=self.config.write == "delta",
        )
        clock = None if state.clock is None else state.clock + (steps if lengths is None else lengths)
        return self.merge(y, x, v), State(sums, clock)

    # Projections of x: B T D

    def query(self, x: Tensor, state: State) -> Tensor:
        return self.features(self.q(x), state)

    def key(self, x: Tensor, state: State) -> Tensor:
        return self.features(self.k(x), state)

    def features(self, x: Tensor, state: State) -> Tensor:
        """φ of keys or queries: B T (H d) → B T H d."""
        c = self.config
        x = x.unflatten(-1, (-1, c.key_size)).to(state.sums.dtype)
        if c.feature != "identity":
            x = silu(x) if c.feature == "silu" else elu(x) + 1
        if c.unit:
            x = normalize(x, dim=-1)
        if state.clock is not None:
            x = rotate(x, next_positions(state.clock, x.shape[1]))
        return x.expand(-1, -1, c.heads, -1) if c.shared else x

    def value(self, x: Tensor, state: State) -> Tensor:
        """B T H e, with a one at the end where there is a normaliser."""
        v = self.v(x).unflatten(-1, (self.config.heads, -1)).to(state.sums.dtype)
        return pad(v, (0, 1), value=1.0) if self.config.normalise else v

    def gates(self, x: Tensor, state: State) -> Gates:
        c, dtype = self.config, state.sums.dtype
        log = beta = None
        if c.forget == "fixed":
            place = torch.arange(c.heads, device=x.device, dtype=dtype)[None, None, :, None]
            log = torch.log1p(-(0.5 ** (5 + place)))
        elif c.forget == "step":
            step = softplus(self.rate(x).to(dtype) + self.rate_bias.to(dtype))[..., None]
            log = -self.log_rate.to(dtype).exp()[:, None] * step
            beta = step if c.tied else None
        elif c.forget == "channel":
            rate = self.rate(x if self.low is None else self.low(x)).to(dtype) + self.rate_bias.to(dtype)
            log = logsigmoid(rate).unflatten(-1, (c.heads, -1)) / SLOWNESS
        if c.beta is not None:
            strength = self.strength(x).to(dtype) + self.strength_bias.to(dtype)
            beta = c.beta * torch.sigmoid(strength)[..., None]
        if log is None or not c.signed:
            return Gates(None if log is None else log.exp(), log, beta)
        return Gates(2 * log.exp() - 1, None, beta)

    def merge(self, y: Tensor, x: Tensor, v: Tensor | None) -> Tensor:
        """What was read (B T H e) → B T W. The values v are asked for by `skip` alone."""
        c = self.config
        if c.normalise:
            weight = y[..., -1:]
            y = y[..., :-1] / weight.masked_fill(weight == 0, 1)  # zero only for padding
        if c.skip and v is not None:
            y = y + self.skip.to(y.dtype)[:, None] * v[..., : c.value_size]
        y = self.normed(y) if c.out_norm and not c.norm_last else y
        if c.out_gate:
            y = silu(self.gate(x)).unflatten(-1, (c.heads, -1)) * y
        y = self.normed(y) if c.out_norm and c.norm_last else y
        return self.out(y.flatten(-2).to(x.dtype))

    def normed(self, y: Tensor) -> Tensor:
        """RMSNorm of each head, or of all together."""
        weight = self.norm_weight.to(y.dtype)
        if self.config.norm_last:
            return rms_norm(y, weight.shape, weight, eps=EPSILON)
        return rms_norm(y, y.shape[-1:], eps=EPSILON) * weight

    # What it does and costs

    def explain(self, state: State, x: Tensor) -> dict[str, Tensor]:
        """`size`, the norm of S after x; `written`, the share of it that x changed; `read`, what the query finds.

        And where there are such gates `forget`, the decay, and `strength`, β. `read` is B H e, `forget` B H or B H d,
        the others B H.
        """
        after = self.update(state, x)
        size, change = (part.flatten(2).norm(dim=-1) for part in (after.sums, after.sums - state.sums))
        found = {"size": size, "written": change / size.clamp(min=1e-12), "read": self.recall(after, x)}
        gates = self.gates(x[:, None], state)
        if gates.decay is not None:
            decay = gates.decay[:, 0].expand(len(x), -1, -1)
            found["forget"] = decay if self.config.forget == "channel" else decay[..., 0]
        if gates.beta is not None:
            found["strength"] = gates.beta[:, 0, :, 0]
        return found

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        c = self.config
        keys, values = c.heads * c.key_size, c.heads * c.value_size
        products = 2 * self.q.out_features * self.dim + values * (self.dim + self.width)
        products += c.heads * c.key_size * (c.value_size + c.normalise)  # read
        products += keys * c.value_size if c.write == "delta" else 0
        products += self.dim * values if c.out_gate else 0
        products += self.dim * c.heads if c.beta is not None else 0
        if c.forget == "step":
            products += self.dim * c.heads
        elif c.forget == "channel":
            products += (self.dim + keys) * c.rank if c.rank else self.dim * keys
        return Cost(2 * batch * steps * products, states.nbytes(self.initial_state(1)) * batch)
