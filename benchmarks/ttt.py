"""Test-time training: forward and backward of a whole sequence, and a step, beside flash-linear-attention's kernels.

fla computes TTT-linear with two differences: the rate of the token that reads stands for those of all before it in the
mini-batch (ours: each has its own), and it reads z + LN(z) where the paper, and ours, read q + LN(z). With equal rates
the inner models are the same, and z can be had from the two outputs: `same_operation` looks. The work is the same.

"Plain" is the dual form in PyTorch, which is what there is of TTT-mlp elsewhere too. Compiled, it is compiled for one
mini-batch, since 128 of them in one graph take longer to compile than to train.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from recollect import kernels
from recollect.layers import ttt

from . import floors
from .exported import OPENED, layer_step
from .measure import Row, Run, attempt, compare, graphs, one_line, recover

EPS = 1e-5  # of our norms
FLA = ("chunk_ttt_linear", "fused_chunk_ttt_linear")
CONFIGS: dict[str, type[ttt.Config]] = {"ttt-linear": ttt.Config, "ttt-mlp": ttt.MlpConfig}


@dataclass(frozen=True)
class Shape:
    batch: int
    steps: int
    heads: int
    size: int
    mini_batch: int

    @property
    def dim(self) -> int:
        return self.heads * self.size

    def __str__(self) -> str:
        return f"B{self.batch} T{self.steps} H{self.heads} d{self.size} b{self.mini_batch}"


LARGE = Shape(batch=8, steps=2048, heads=16, size=64, mini_batch=16)
SMALL = Shape(batch=4, steps=256, heads=4, size=16, mini_batch=16)


def plain_form() -> Any:
    return mock.patch.object(kernels, "can_take", return_value=False)


def mixed(device: str, dtype: torch.dtype) -> Any:
    """Autocast, without a cache of weights, which a graph must not hold."""
    return torch.autocast(device, dtype, cache_enabled=False) if dtype != torch.float32 else nullcontext()


# The operation alone: q, k, v and rates in, y out


class Inputs:
    """What both operations take, as leaves; drawn anew for each round."""

    def __init__(self, shape: Shape, dtype: torch.dtype, device: str, *, level: bool = False) -> None:
        self.shape, self.dtype, self.level = shape, dtype, level
        outer = (shape.batch, shape.steps, shape.heads)
        self.q, self.k, self.v = (torch.empty(*outer, shape.size, device=device, dtype=dtype) for _ in range(3))
        self.rate = torch.empty(*outer, 1, device=device, dtype=dtype)
        self.gamma, self.beta = (torch.empty(shape.heads, 1, shape.size, device=device) for _ in range(2))
        self.weight = torch.empty(shape.batch, shape.heads, shape.size, shape.size, device=device)
        self.bias = torch.empty(shape.batch, shape.heads, 1, shape.size, device=device)
        self.slope = torch.empty(*outer, shape.size, device=device, dtype=dtype)  # of what comes out
        places = torch.arange(1, shape.mini_batch + 1, device=device)
        self.factors = 1 / places  # b, the mean of the gradients so far
        self.draw()
        for leaf in self.leaves:
            leaf.requires_grad_()

    @property
    def leaves(self) -> list[Tensor]:
        return [self.q, self.k, self.v, self.rate, self.gamma, self.beta, self.weight, self.bias]

    @torch.no_grad()
    def draw(self) -> None:
        for tensor in (self.q, self.k, self.v, self.slope):
            tensor.normal_()
        self.rate.uniform_(0, 1).div_(self.shape.size)
        if self.level:
            self.rate.fill_(0.5 / self.shape.size)
        self.gamma.normal_(1, 0.1)
        for tensor, spread in ((self.beta, 0.1), (self.weight, 0.02), (self.bias, 0.02)):
            tensor.normal_(0, spread)

    def ours(self) -> tuple[Tensor, Tensor]:
        """y (B T H d) and W after the last step, by our kernels, from what the layer would hand them."""
        from recollect.kernels.ttt import linear

        q, k, v, rate = (tensor.transpose(1, 2) for tensor in (self.q, self.k, self.v, self.rate.float()))
        inner = linear.Inner(self.weight, self.bias, torch.zeros_like(self.weight), torch.zeros_like(self.bias))
        offset = torch.zeros(self.shape.batch, dtype=torch.int64, device=self.q.device)
        with mixed(self.q.device.type, self.dtype):
            y, after = linear.run(q, k, v, rate, offset, self.factors, inner, (self.gamma, self.beta), True)
        return y.transpose(1, 2).to(self.dtype), after.weight

    def theirs(self, operation: Callable[..., Any], final: bool = False) -> tuple[Tensor, Tensor]:
        """The same by an operation of fla. Its rate is that of the place and the token together."""
        count = self.shape.steps // self.shape.mini_batch
        rate = self.rate * self.factors.repeat(count)[:, None, None].to(self.dtype)
        y, weight, _ = operation(
            self.q,
            self.k,
            self.v,
            self.gamma[:, 0].to(self.dtype),
            self.beta[:, 0].to(self.dtype),
            rate,
            scale=1.0,
            eps=EPS,
            chunk_size=self.shape.mini_batch,
            initial_state=self.weight,
            initial_state_bias=self.bias,
            output_final_state=final,
        )
        return y, weight

    def gradients(self, y: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(y, self.leaves, self.slope, allow_unused=True)


def apart(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).detach().float().norm() / expected.detach().float().norm())


def same_operation(operation: Callable[..., Any], shape: Shape, device: str) -> str:
    """How far fla's inner model, its gradients and its z are from ours, all rates being equal, in float32."""
    small = Shape(2, 4 * shape.mini_batch, shape.heads, shape.size, shape.mini_batch)
    given = Inputs(small, torch.float32, device, level=True)
    (y, weight), (o, other) = given.ours(), given.theirs(operation, final=True)
    gamma, beta = given.gamma[:, 0], given.beta[:, 0]
    z = o - (y - given.q)  # o = z + LN(z), y = q + LN(z)
    read = layer_norm(z, z.shape[-1:], eps=EPS) * gamma + beta
    seen = [given.k, given.v]
    toward = torch.randn_like(weight)
    mine, theirs = (torch.autograd.grad(w, seen, toward, retain_graph=True) for w in (weight, other))
    slopes = max(apart(a, b) for a, b in zip(mine, theirs, strict=True))
    return (
        f"W {apart(weight, other):.0e}, its gradients by k and v {slopes:.0e}, "
        f"what is read {apart(y - given.q, read):.0e} apart"
    )


def fla(name: str) -> Callable[..., Any]:
    from fla.ops import ttt as operations  # pyright: ignore[reportMissingImports]

    return getattr(operations, name)


def operation(shape: Shape, device: str, dtype: torch.dtype) -> Row:
    """TTT-linear alone, forward and backward."""
    given = Inputs(shape, dtype, device)
    peers: dict[str, Run] = {}
    absent: dict[str, str] = {}
    checked: list[str] = []

    def run(forward: Callable[[], tuple[Tensor, Tensor]]) -> Run:
        return lambda: given.gradients(forward()[0])

    for name in FLA:
        try:
            theirs = fla(name)
            checked.append(f"{name}: {same_operation(theirs, shape, device)}")
            peers[f"fla {name}"] = run(lambda theirs=theirs: given.theirs(theirs))
        except Exception as error:
            absent[f"fla {name}"] = one_line(error)
            recover(device)
    ours = {"kernels": run(given.ours)}
    graphed, failed = graphs(ours | peers, device)
    ours |= {name: one for name, one in graphed.items() if name.startswith("kernels")}
    peers |= {name: one for name, one in graphed.items() if name.startswith("fla")}
    tokens = shape.batch * shape.steps
    each = shape.size * given.q.element_size() * shape.heads
    # forward: q, k, v in, y out; backward: q, k, v and ∂y in, three gradients out
    moved = 11 * tokens * each
    flops = 3 * tokens * shape.heads * 2 * (3 * shape.size**2 + 2 * shape.mini_batch * shape.size)
    return compare(
        f"ttt-linear operation forward+backward {shape} {str(dtype)[6:]}",
        ours,
        peers,
        device=device,
        rounds=9,
        seconds=0.1,
        fresh=given.draw,
        floor=floors.floor(device, flops=flops, bytes=moved, dtype=torch.bfloat16),
        absent=absent | failed,
        unit="tokens",
        amount=tokens,
        checked="with equal rates, float32, relative: " + "; ".join(checked) if checked else "",
        note="fla: rates of the reading token, and z in place of q beside the norm; the same work",
    )


# The layer: projections, rates, norm and output too


class Sequence:
    """Forward and backward of a layer over a whole sequence, in several forms."""

    def __init__(self, kind: str, shape: Shape, device: str, dtype: torch.dtype) -> None:
        self.shape, self.device, self.dtype = shape, device, dtype
        self.layer = CONFIGS[kind](dim=shape.dim, heads=shape.heads, mini_batch=shape.mini_batch).build().to(device)
        self.x, self.slope = (torch.randn(shape.batch, shape.steps, shape.dim, device=device) for _ in range(2))
        self.x.requires_grad_()
        self.compiled: Any = None

    @torch.no_grad()
    def draw(self) -> None:
        self.x.normal_()

    def gradients(self, forward: Callable[[Tensor, Any], Tensor]) -> tuple[Tensor, ...]:
        with mixed(self.device, self.dtype):
            y = forward(self.x, self.layer.initial_state(self.shape.batch))
        return torch.autograd.grad(y, [self.x, *self.layer.parameters()], self.slope.to(y.dtype), allow_unused=True)

    def as_called(self) -> tuple[Tensor, ...]:
        return self.gradients(lambda x, state: self.layer(x, state)[0])

    def plain(self) -> tuple[Tensor, ...]:
        with plain_form():
            return self.as_called()

    def by_mini_batch(self) -> tuple[Tensor, ...]:
        """Plain, with what happens in one mini-batch compiled."""
        self.compiled = self.compiled or torch.compile(self.layer.mini_batch, dynamic=False)
        with mock.patch.object(self.layer, "mini_batch", self.compiled):
            return self.plain()

    def unrolled(self) -> tuple[Tensor, ...]:
        """The definition: one step after the other."""
        return self.gradients(lambda x, state: self.layer.unroll(x, state)[0])

    def with_fla(self, operation: Callable[..., Any]) -> tuple[Tensor, ...]:
        """Our layer with fla's operation inside."""
        layer, shape = self.layer, self.shape
        outer = (shape.batch, shape.steps, shape.heads)

        def forward(x: Tensor, state: Any) -> Tensor:
            q, k, v = (project(x).view(*outer, shape.size) for project in (layer.q, layer.k, layer.v))
            factors = layer.factors(x.device).repeat(shape.steps // shape.mini_batch)[:, None, None]
            rate = torch.sigmoid(layer.rate(x))[..., None] * factors * (layer.config.rate / shape.size)
            y, _, _ = operation(
                q,
                k,
                v,
                layer.norm_weight[:, 0].to(q.dtype),
                layer.norm_bias[:, 0].to(q.dtype),
                rate.to(q.dtype),
                scale=1.0,
                eps=EPS,
                chunk_size=shape.mini_batch,
                initial_state=state.model.weights[0],
                initial_state_bias=state.model.biases[0],
            )
            return layer.out(layer.out_norm(y.flatten(2)))

        return self.gradients(forward)


def sequence(kind: str, shape: Shape, device: str, dtype: torch.dtype) -> Row:
    """A layer, forward and backward."""
    runs = Sequence(kind, shape, device, dtype)
    expected = runs.plain()
    ours: dict[str, Run] = {"as called": runs.as_called}
    peers: dict[str, Run] = {"plain": runs.plain, "plain, compiled by mini-batch": runs.by_mini_batch}
    absent: dict[str, str] = {}
    if device == "cpu":
        peers = {"step by step": runs.unrolled, "plain, compiled by mini-batch": runs.by_mini_batch}
    for name in FLA if kind == "ttt-linear" and device == "cuda" else ():
        try:
            theirs = fla(name)
            runs.with_fla(theirs)
            peers[f"fla {name}"] = lambda theirs=theirs: runs.with_fla(theirs)
        except Exception as error:
            absent[f"fla {name}"] = one_line(error)
            recover(device)
    if kind == "ttt-mlp":
        absent["fla"] = "has no TTT-mlp"
    checked: list[str] = []
    for name, run in [*ours.items(), *list(peers.items())[:2]]:
        try:
            found: Any = run()
            worst = max(apart(a, b) for a, b in zip(found, expected, strict=True) if b is not None and b.any())
            checked.append(f"{name} {worst:.0e}")
        except Exception as error:
            absent[name] = one_line(error)
            peers.pop(name, None)
            recover(device)
    graphed, failed = graphs(ours | {name: run for name, run in peers.items() if name.startswith("plain")}, device)
    ours |= {name: run for name, run in graphed.items() if "compiled" not in name}
    peers |= {name: run for name, run in graphed.items() if "compiled" in name}
    cost = runs.layer.cost(shape.batch, shape.steps)
    tokens = shape.batch * shape.steps
    weights = sum(p.numel() for p in runs.layer.parameters())
    return compare(
        f"{kind} layer forward+backward {shape} {str(dtype)[6:]}",
        ours,
        peers,
        device=device,
        rounds=7,
        seconds=0.2,
        fresh=runs.draw,
        floor=floors.floor(device, flops=3 * cost.flops, bytes=4 * (4 * tokens * shape.dim + 3 * weights), dtype=dtype),
        absent=absent | failed,
        unit="tokens",
        amount=tokens,
        checked="gradients against the plain form, relative: " + ", ".join(checked),
    )


def step(kind: str, shape: Shape, device: str, batch: int) -> Row:
    """One token through a layer."""
    layer = CONFIGS[kind](dim=shape.dim, heads=shape.heads, mini_batch=shape.mini_batch).build().to(device).eval()
    x = torch.randn(batch, 1, shape.dim, device=device)
    with torch.no_grad():
        _, state = layer(torch.randn(batch, 5, shape.dim, device=device), layer.initial_state(batch))
        fast = torch.compile(layer.unroll, dynamic=False)

        def ours() -> Any:
            with torch.no_grad():
                return layer(x, state)

        def theirs() -> Any:
            with torch.no_grad():
                return fast(x, state)

        far = apart(theirs()[0], ours()[0])
    runs: dict[str, Run] = {"compiled": theirs}
    mine, absent = graphs({"as called": ours}, device)
    if device == "cpu":
        mine[OPENED] = layer_step(layer, x, state)
        far = max(far, apart(torch.from_numpy(layer_step(layer, x, state)()), ours()[0][:, 0]))
    other, failed = graphs(runs, device)
    weights = sum(p.numel() for p in layer.parameters())
    cost = layer.cost(batch, 1)
    return compare(
        f"{kind} step B{batch} H{shape.heads} d{shape.size} float32",
        {"as called": ours} | mine,
        runs | other,
        device=device,
        rounds=15,
        fresh=lambda: x.normal_(),
        floor=floors.floor(device, flops=cost.flops, bytes=4 * weights + 2 * cost.state_bytes),
        absent={"fla": "has no step of TTT"} | absent | failed,
        unit="steps",
        checked=f"at most {far:.0e} apart",
    )


def everything(device: str) -> Iterator[Row]:
    """TTT-linear and TTT-mlp: a whole sequence forward and backward, and a step."""
    shape = LARGE if device == "cuda" else SMALL
    for dtype in (torch.bfloat16, torch.float32) if device == "cuda" else ():
        title = f"ttt-linear operation forward+backward {shape} {str(dtype)[6:]}"
        yield attempt(title, device, lambda dtype=dtype: operation(shape, device, dtype))
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    for kind in CONFIGS:
        title = f"{kind} layer forward+backward {shape} {str(dtype)[6:]}"
        yield attempt(title, device, lambda kind=kind: sequence(kind, shape, device, dtype))
        for batch in (1, shape.batch):
            title = f"{kind} step B{batch} H{shape.heads} d{shape.size} float32"
            yield attempt(title, device, lambda k=kind, b=batch: step(k, shape, device, b))


ROWS = {"ttt": everything}
