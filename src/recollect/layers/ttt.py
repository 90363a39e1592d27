"""Test-time training (Sun 2024, arXiv 2407.04620): the state is a small model, trained on each input.

STATE   weights W of an inner model f, the gradient G gathered since the last boundary, clock
UPDATE  G ← G + η(x)·∇ℓ(W; k, v),  ℓ = ½‖f(k; W) − v‖²;  at every b-th step W ← W − ρ·G, G ← 0
READ    y = W_o norm(f(q; W − ρ·G))
GROWS   no
FAST    dual form, one mini-batch of b steps at a time

with k, v, q = W_k x, W_v x, W_q x by head, f(k) = k + LN(inner(k)), and `inner` linear (`ttt-linear`) or a
two-layer MLP with GELU (`ttt-mlp`). W₀ and b₀ are learned; so is the inner rate η(x) = rate·σ(w·x + β)/d.
ρ is 1 as in the paper's equations, or with `average=True` (the authors' code, and the default) a learned
factor for each place in the mini-batch that starts at 1/place: the mean of the gradients, not their sum.

All gradients are taken at the W of the last boundary, so the steps of one mini-batch do not wait for each
other: that is the dual form. A boundary need not be where a chunk ends, since G and the clock are state, and
rows may stand at different places in their mini-batch: a chunk is laid out on a grid of mini-batches, each
row from its own place on, and empty places add nothing.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm

from ..core import state as states
from ..core.contract import Cell, ContractError, Cost, Memory
from ..core.contract import Config as BaseConfig
from . import ttt_fused, ttt_scan
from .position import rotate


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """`mini_batch` is b; None never steps: batch gradient descent from W₀.

    The switches turn the layer into its simpler relatives: with `norm`, `learn_rate`, `learn_start`,
    `average`, `out_norm` and `bias` off, `rate=head_dim` and `mini_batch=None`, ttt-linear is linear attention,
    unnormalised and with identity features. `rotary` turns q and k by their place in the mini-batch; `bias`
    gives the inner model biases, which are trained like its weights.
    """

    width: int | None = None
    heads: int = 1
    mini_batch: int | None = 16
    rate: float = 1.0
    norm: bool = True
    learn_rate: bool = True
    learn_start: bool = True
    average: bool = True
    out_norm: bool = True
    rotary: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ContractError(f"ttt: expected heads to divide dim {self.dim}, found {self.heads} heads")
        if self.rotary and self.size % 2:
            raise ContractError(f"ttt: rotary places need an even head width, found {self.size}")
        if self.mini_batch is None and (self.average or self.rotary):
            raise ContractError("ttt: mini_batch=None has no places in a mini-batch; set average and rotary to False")

    @property
    def size(self) -> int:
        return self.dim // self.heads

    def widths(self) -> tuple[int, ...]:
        """The widths of the inner model, from input to output."""
        return self.size, self.size

    def build(self) -> "Ttt":
        return Ttt(self)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return (
            cls(dim=8, heads=2, mini_batch=3),
            cls(dim=4, heads=1, mini_batch=4, average=False, rotary=True),
            cls(dim=8, width=3, heads=2, mini_batch=None, average=False),
            cls(dim=4, heads=2, mini_batch=1, norm=False, out_norm=False, learn_start=False, learn_rate=False),
        )


@dataclass(frozen=True, kw_only=True)
class MlpConfig(Config):
    """`expand` is how many times wider the inner model's hidden layer is."""

    rate: float = 0.1
    expand: int = 4

    def widths(self) -> tuple[int, ...]:
        return self.size, self.expand * self.size, self.size

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        return cls(dim=8, heads=2, mini_batch=3, rate=1.0, expand=2), cls(dim=4, mini_batch=4, average=False, expand=2)


class Model(NamedTuple):
    """The inner model, or a gradient of it: for each of its layers a matrix and a bias."""

    weights: tuple[Tensor, ...]  # B H in out
    biases: tuple[Tensor, ...]  # B H 1 out


class State(NamedTuple):
    model: Model  # float32 or better
    gradient: Model  # gathered since the last boundary
    clock: Tensor  # B, int64


class Ttt(Cell[State]):
    """A layer whose state is an inner model, trained by gradient descent on its own input."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.dim, self.width = config.dim, config.width or config.dim
        heads, size, widths = config.heads, config.size, config.widths()
        self.biased = int(config.bias)  # without, the biases stay the zeros that they start as
        self.q, self.k, self.v = (nn.Linear(self.dim, self.dim, bias=False) for _ in range(3))
        self.out = nn.Linear(self.dim, self.width, bias=False)
        starts = [(torch.randn(heads, i, o) * 0.02, torch.zeros(heads, 1, o)) for i, o in pairwise(widths)]
        if config.learn_start:
            self.start_weights = nn.ParameterList([weight for weight, _ in starts])
            self.start_biases = nn.ParameterList([bias for _, bias in starts])
        if config.learn_rate:
            self.rate = nn.Linear(self.dim, heads)
        if config.norm:
            self.norm_weight = nn.Parameter(torch.ones(heads, 1, size))
            self.norm_bias = nn.Parameter(torch.zeros(heads, 1, size))
        if config.average and config.mini_batch is not None:
            self.place_offset = nn.Parameter(torch.zeros(config.mini_batch))
        if config.out_norm:
            self.out_norm = nn.LayerNorm(self.dim)

    def initial_state(
        self,
        batch: int,
        memory: Memory | None = None,
        like: Tensor | None = None,
        capacity: int | None = None,
    ) -> State:
        like = self.like(like)
        dtype = torch.promote_types(like.dtype, torch.float32)
        empty = Model(
            *(
                tuple(like.new_zeros(batch, self.config.heads, *shape, dtype=dtype) for shape in shapes)
                for shapes in (pairwise(self.config.widths()), [(1, o) for o in self.config.widths()[1:]])
            )
        )
        model = empty
        if self.config.learn_start:
            starts = Model(tuple(self.start_weights), tuple(self.start_biases))
            model = states.map(lambda zero, start: zero + start.to(dtype), empty, starts)
        else:
            model = states.map(torch.clone, empty)
        return State(model, empty, torch.zeros(batch, dtype=torch.int64, device=like.device))

    # The definition: one step at a time

    def update(self, state: State, x: Tensor) -> State:
        k, v, rate = self.project_pair(x[:, None], state)
        step = self.gradient(state.model, k, v, rate)
        gathered = states.map(torch.add, state.gradient, step)
        return self.step_at_boundary(state.model, gathered, state.clock + 1)

    def read(self, state: State, x: Tensor) -> Tensor:
        # Right after a boundary the model has been stepped and nothing is gathered: the same W − ρ·G.
        place = (state.clock[:, None] - 1) % (self.config.mini_batch or 1)
        q = self.query(x[:, None], state, place)
        factor = self.factors(place.device)[place][:, None, :, None]
        now = states.map(lambda w, g: w - factor * g, state.model, state.gradient)
        return self.merge(self.predict(now, q), x)[:, 0]

    def gradient(self, model: Model, k: Tensor, v: Tensor, rate: Tensor) -> Model:
        """η·∇ℓ at `model`, summed over the steps of k and v (B H T d); rate: B H T 1."""
        inputs, slopes = self.slopes(model, k, v, rate)
        return Model(
            tuple(x.mT @ slope for x, slope in zip(inputs, slopes, strict=True)),
            tuple(self.biased * slope.sum(dim=2, keepdim=True) for slope in slopes),
        )

    def step_at_boundary(self, model: Model, gathered: Model, clock: Tensor) -> State:
        """The state after a step: at a boundary the gathered gradient is applied; each row has its own clock."""
        if self.config.mini_batch is None:
            return State(model, gathered, clock)
        boundary = (clock % self.config.mini_batch == 0)[:, None, None, None]
        return State(*self.step(model, gathered, boundary, self.factors(clock.device)[-1]), clock)

    def step(self, model: Model, gathered: Model, boundary: Tensor, last: Tensor) -> tuple[Model, Model]:
        """W − ρ·G and 0 where `boundary` (B 1 1 1) is true, W and G elsewhere; `last` is ρ at a boundary."""
        return (
            states.map(lambda w, g: torch.where(boundary, w - last * g, w), model, gathered),
            states.map(lambda g: g.masked_fill(boundary, 0), gathered),
        )

    # The inner model

    def predict(self, model: Model, x: Tensor) -> Tensor:
        """f(x; W): B H T d."""
        z = x
        for i, (weight, bias) in enumerate(zip(*model, strict=True)):
            z = (gelu(z, approximate="tanh") if i else z) @ weight + bias
        return self.add_residual(x, z)

    def add_residual(self, x: Tensor, z: Tensor) -> Tensor:
        """f(x) from the output z of the inner model: x + LN(z), or z itself."""
        if not self.config.norm:
            return z
        return x + layer_norm(z, z.shape[-1:]) * self.norm_weight + self.norm_bias

    def slopes(self, model: Model, k: Tensor, v: Tensor, rate: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The inputs of each inner layer and η·∂ℓ/∂z of its sums, both B H T ·, for every step by itself."""
        inputs, sums = [k], []
        for i, (weight, bias) in enumerate(zip(*model, strict=True)):
            if i:
                inputs.append(gelu(sums[-1], approximate="tanh"))
            sums.append(inputs[-1] @ weight + bias)
        slope = self.loss_slope(k, v, sums[-1])
        slopes = [slope]
        for weight, z in zip(reversed(model.weights[1:]), reversed(sums[:-1]), strict=True):
            slope = (slope @ weight.mT) * gelu_slope(z)
            slopes.insert(0, slope)
        return inputs, [slope * rate for slope in slopes]

    def loss_slope(self, k: Tensor, v: Tensor, z: Tensor) -> Tensor:
        """∂ℓ/∂z for ℓ = ½‖f − v‖², where f = k + LN(z) or z."""
        if not self.config.norm:
            return z - v
        deviation = (z.var(dim=-1, keepdim=True, correction=0) + 1e-5).rsqrt()
        normal = (z - z.mean(dim=-1, keepdim=True)) * deviation
        slope = (k + normal * self.norm_weight + self.norm_bias - v) * self.norm_weight
        inward = slope.mean(dim=-1, keepdim=True) + normal * (slope * normal).mean(dim=-1, keepdim=True)
        return (slope - inward) * deviation

    # Projections

    def project_pair(
        self, x: Tensor, state: State, place: Tensor | None = None, *, widen: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The inner model's training pair k, v (B H T d) and its rate (B H T 1), for x: B T D."""
        if place is None:
            place = state.clock[:, None] % (self.config.mini_batch or 1)
        k, v = self.split(self.k(x), state, widen), self.split(self.v(x), state, widen)
        dtype = state.model.weights[0].dtype
        if self.config.learn_rate:
            rate = torch.sigmoid(rearrange(self.rate(x), "b t h -> b h t 1").to(dtype))
        else:
            rate = torch.ones_like(k[..., :1], dtype=dtype)
        return self.turn(k, place), v, rate * (self.config.rate / self.config.size)

    def query(self, x: Tensor, state: State, place: Tensor, *, widen: bool = True) -> Tensor:
        return self.turn(self.split(self.q(x), state, widen), place)

    def turn(self, x: Tensor, place: Tensor) -> Tensor:
        return rotate(x.transpose(1, 2), place).transpose(1, 2) if self.config.rotary else x

    def split(self, x: Tensor, state: State, widen: bool) -> Tensor:
        """B T (H d) → B H T d; `widen`: in the dtype of the inner model, whatever autocast is."""
        x = rearrange(x, "b t (h d) -> b h t d", h=self.config.heads)
        return x.to(state.model.weights[0].dtype) if widen or self.config.rotary else x

    def merge(self, y: Tensor, x: Tensor) -> Tensor:
        """B H T d → B T W."""
        return self.project(rearrange(y, "b h t d -> b t (h d)").to(x.dtype))

    def project(self, y: Tensor) -> Tensor:
        """The output projection of all heads: B T (H d) → B T W."""
        return self.out(self.out_norm(y) if self.config.out_norm else y)

    def factors(self, device: torch.device) -> Tensor:
        """The factor ρ of each place in the mini-batch."""
        size = self.config.mini_batch or 1
        if not self.config.average or self.config.mini_batch is None:
            dtype = torch.promote_types(self.out.weight.dtype, torch.float32)
            return torch.ones(size, device=device, dtype=dtype)
        places = torch.arange(1, size + 1, device=device, dtype=self.place_offset.dtype)
        return (1 / places + self.place_offset).clamp(min=0)

    # The fast form

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        steps = x.shape[1]
        if steps == 1:
            fused = ttt_fused.takes_step(self, x, state)
            return ttt_fused.run_step(self, x, state) if fused else self.one_step(x, state)
        if ttt_fused.takes_chunk(self, state):
            return ttt_fused.run_chunk(self, x, state)
        batch = self.config.mini_batch or steps
        offset = state.clock % batch if self.config.mini_batch else torch.zeros_like(state.clock)
        count = 1 if self.config.mini_batch is None else -(-(steps + self.spare(offset)) // batch)
        grid = torch.arange(count * batch, device=x.device)
        source = grid - offset[:, None]  # B N: which step stands here
        filled = (source >= 0) & (source < steps)
        place = (grid % batch).expand_as(source)
        laid = x.gather(1, source.clamp(0, steps - 1)[..., None].expand(-1, -1, x.shape[2]))
        k, v, rate = self.project_pair(laid, state, place)
        q = self.query(laid, state, place)
        rate = rate * filled[:, None, :, None]
        factors = self.factors(x.device)
        model, gathered, outputs = state.model, state.gradient, []
        run = ttt_scan.recompute(self.mini_batch, model)
        if done := ttt_scan.count_full(self, offset, steps):
            y, model, gathered = ttt_scan.run(self, done, model, gathered, q, k, v, rate, factors)
            outputs.append(y)
        for i in range(done, count):
            here = slice(i * batch, (i + 1) * batch)
            part = q[:, :, here], k[:, :, here], v[:, :, here], rate[:, :, here]
            full = ((offset + steps) >= (i + 1) * batch)[:, None, None, None]
            y, model, gathered = run(model, gathered, *part, full, factors)
            outputs.append(y)
        y = torch.cat(outputs, dim=2)
        at = (offset[:, None] + torch.arange(steps, device=x.device))[:, None, :, None]
        y = y.gather(2, at.expand(-1, y.shape[1], -1, y.shape[3]))
        return self.merge(y, x), State(model, gathered, state.clock + steps)

    def one_step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The dual form of one step: no W − ρ·G is ever made, and W stays as it is between boundaries."""
        place, clock = state.clock[:, None] % (self.config.mini_batch or 1), state.clock + 1
        factor = self.factors(x.device)[place][:, None, :, None]
        seen = self.query(x, state, place), *self.project_pair(x, state, place)
        y, total = self.dual(state.model, state.gradient, *seen, factor)
        return self.merge(y, x), self.after(state.model, total, clock)

    def after(self, model: Model, gathered: Model, clock: Tensor) -> State:
        """As `step_at_boundary`; where clocks are on the host, W is not copied when no row is at a boundary."""
        on_host = clock.device.type == "cpu" and not torch.compiler.is_compiling()
        if on_host and self.config.mini_batch and not bool((clock % self.config.mini_batch == 0).any()):
            return State(model, gathered, clock)
        return self.step_at_boundary(model, gathered, clock)

    def spare(self, offset: Tensor) -> int:
        """How many steps longer the grid is than the chunk: the largest offset, or its bound on a GPU."""
        if offset.device.type == "cpu" and not torch.compiler.is_compiling():
            return int(offset.max())
        return (self.config.mini_batch or 1) - 1

    def mini_batch(
        self, model: Model, gathered: Model, q: Tensor, k: Tensor, v: Tensor, rate: Tensor, full: Tensor, rho: Tensor
    ) -> tuple[Tensor, Model, Model]:
        """The outputs of one mini-batch, and the inner step that ends it where `full` (B 1 1 1); rho: b or 1."""
        y, total = self.dual(model, gathered, q, k, v, rate, rho[:, None])
        if self.config.mini_batch is None:
            return y, model, total
        return y, *self.step(model, total, full, rho[-1])

    def dual(
        self, model: Model, gathered: Model, q: Tensor, k: Tensor, v: Tensor, rate: Tensor, factor: Tensor
    ) -> tuple[Tensor, Model]:
        """The dual form: the outputs of one mini-batch at once, and the gradient gathered after it.

        q, k, v: B H b d; factor, the ρ of each step: b 1 or B 1 1 1. W_t = W − ρ_t (G + Σ_{s≤t} η_s x_sᵀ g_s), so
        q_t W_t needs no W_t: it is q_t (W − ρ_t G) minus attention from q_t to the earlier x_s with values η_s g_s.
        """
        inputs, slopes = self.slopes(model, k, v, rate)
        add = torch.addcmul if q.shape[2] == 1 else lambda total, a, b: total + a @ b
        total = Model(
            tuple(add(g, x.mT, slope) for g, x, slope in zip(gathered.weights, inputs, slopes, strict=True)),
            tuple(g + self.biased * s.sum(dim=2, keepdim=True) for g, s in zip(gathered.biases, slopes, strict=True)),
        )
        return self.read_dual(model, gathered, q, inputs, slopes, factor), total

    def read_dual(
        self, model: Model, gathered: Model, q: Tensor, inputs: list[Tensor], slopes: list[Tensor], factor: Tensor
    ) -> Tensor:
        """The outputs of one mini-batch in the dual form, from the inputs of each inner layer and their slopes."""
        z = q
        for i, (x, slope) in enumerate(zip(inputs, slopes, strict=True)):
            seen = gelu(z, approximate="tanh") if i else q
            earlier = (seen @ x.mT + self.biased).tril() @ slope
            moved = seen @ gathered.weights[i] + gathered.biases[i] + earlier
            z = seen @ model.weights[i] + model.biases[i] - factor * moved
        return self.add_residual(q, z)

    def explain(self, state: State, x: Tensor) -> dict[str, Tensor]:
        """The inner `loss` (B H) at the current weights, and the inner `rate` (B H)."""
        k, v, rate = self.project_pair(x[:, None], state)
        loss = 0.5 * (self.predict(state.model, k) - v).square().sum(dim=-1)
        return {"loss": loss[..., 0], "rate": rate[..., 0, 0]}

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        """FLOPs step by step: k forward and backward through the inner layers, q through W and G, and q times k."""
        c, pairs = self.config, list(pairwise(self.config.widths()))
        inner, met = [i * o for i, o in pairs], sum(i + o for i, o in pairs)
        products = c.heads * (3 * sum(inner) + sum(inner[1:]) + met) + 3 * self.dim**2 + self.dim * self.width
        products += self.dim * c.heads if c.learn_rate else 0
        with torch.no_grad():
            return Cost(2 * batch * steps * products, states.nbytes(self.initial_state(1)) * batch)


def gelu_slope(x: Tensor) -> Tensor:
    """The derivative of GELU's tanh form."""
    scale = 0.7978845608028654  # √(2/π)
    tanh = torch.tanh(scale * (x + 0.044715 * x**3))
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * scale * (1 + 3 * 0.044715 * x**2)
