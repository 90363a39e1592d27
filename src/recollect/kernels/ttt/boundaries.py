"""The inner model at the boundaries of a sequence of full mini-batches, on any device, with a backward pass of its own.

Only this part of test-time training waits for the mini-batch before; outputs are read from the models at the
boundaries, all at once. So the loops hold as few operations as they can: what does not depend on the inner model is
computed before them, what nothing in them depends on after them, for all mini-batches together. Saved for the backward
pass are the inputs and the models at the boundaries; it runs backwards over the mini-batches once, for the gradient of
the model at each boundary.

The inner model predicts v from k by k + LN(z), and ∂ℓ/∂z is L(u), u = (k + β − v)γ + γ² n, where n is z normalised and
L(u) = r (u − mean(u) − n mean(u n)), r = 1/deviation: the backward pass of a LayerNorm. L is symmetric, so from the
gradient d of L(u) come those of u, L(d), and of z: L(γ² L(d) − r (mean(u n) d + mean(d n) u)) − r n mean(d L(u)).

N mini-batches, G rows and heads, b steps in a mini-batch, d the width of a head, h that of the hidden layer. Biases of
the first inner layer are its last row: k has a last feature of 1.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

EPS = 1e-5


class Linear(NamedTuple):
    """The inner model of ttt-linear, at one boundary or (N+1 first) at all of them."""

    weight: Tensor  # G d+1 d


class Mlp(NamedTuple):
    """The inner model of ttt-mlp, at one boundary or (N+1 first) at all of them."""

    up: Tensor  # G d+1 h
    down: Tensor  # G h d
    bias: Tensor  # G 1 d


class Steps(NamedTuple):
    """What the inner model is trained on."""

    k: Tensor  # N G b d+1, its last feature 1
    moves: Tensor  # N G b d+1: k times the rate of its step, the last feature 0 where biases are not trained
    rate: Tensor  # N G b 1
    target: Tensor  # N G b d: (k + β − v)γ
    scale: Tensor  # G 1 d: γ²


def linear(start: Linear, first: Linear, steps: Steps) -> Linear:
    """The model at all N+1 boundaries from that at the first; `first` is added at the second."""
    return Linear(_Linear.apply(*start, *first, steps.k, steps.moves, steps.target, steps.scale))  # pyright: ignore[reportArgumentType]


def mlp(start: Mlp, first: Mlp, steps: Steps, biased: bool) -> Mlp:
    """The model at all N+1 boundaries from that at the first; `first` is added at the second."""
    return Mlp(*_Mlp.apply(*start, *first, *steps, biased))  # pyright: ignore[reportGeneralTypeIssues]


class Normal(NamedTuple):
    """z normalised."""

    z: Tensor
    n: Tensor
    mean: Tensor
    r: Tensor

    @classmethod
    def of(cls, z: Tensor) -> "Normal":
        return cls(z, *torch.native_layer_norm(z, z.shape[-1:], None, None, EPS))

    def inward(self, d: Tensor) -> Tensor:
        """L(d)."""
        shape, wanted = d.shape[-1:], [True, False, False]
        return torch.ops.aten.native_layer_norm_backward(d, self.z, shape, self.mean, self.r, None, None, wanted)[0]

    def at(self, i: int) -> "Normal":
        return Normal(*(part[i] for part in self))


class Slopes(NamedTuple):
    """∂ℓ/∂z of every step and what its derivative needs, for all mini-batches or for one."""

    normal: Normal
    slope: Tensor  # L(u)
    u: Tensor  # r u
    met: Tensor  # r mean(u n)
    n: Tensor  # n / d
    rn: Tensor  # r n / d

    @classmethod
    def of(cls, z: Tensor, steps: Steps) -> "Slopes":
        normal, size = Normal.of(z), z.shape[-1]
        u, n = torch.addcmul(steps.target, normal.n, steps.scale), normal.n / size
        met = (u * n).sum(dim=-1, keepdim=True)
        return cls(normal, normal.inward(u), normal.r * u, normal.r * met, n, normal.r * n)

    def at(self, i: int) -> "Slopes":
        return Slopes(self.normal.at(i), *(part[i] for part in self[1:]))

    def backward(self, d: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of u and z from that of the slope."""
        by_u = self.normal.inward(d)
        along = (d * self.n).sum(dim=-1, keepdim=True)
        by_n = torch.addcmul(scale * by_u, self.met, d, value=-1).addcmul_(self.u, along, value=-1)
        length = (d * self.slope).sum(dim=-1, keepdim=True)
        return by_u, self.normal.inward(by_n).addcmul_(self.rn, length, value=-1)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, weight: Tensor, first: Tensor, k: Tensor, moves: Tensor, target: Tensor, scale: Tensor
    ) -> Tensor:
        weights = weight.new_empty(len(k) + 1, *weight.shape)
        weights[0] = weight
        for i in range(len(k)):
            normal = Normal.of(torch.bmm(k[i], weights[i]))
            slope = normal.inward(torch.addcmul(target[i], normal.n, scale))
            torch.baddbmm(weights[i], moves[i].mT, slope, alpha=-1, out=weights[i + 1])
            if i == 0:
                weights[1] += first
        ctx.save_for_backward(weights, k, moves, target, scale)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_weights: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        weights, k, moves, target, scale = ctx.saved_tensors
        before = weights[:-1]
        slopes = Slopes.of(k @ before, Steps(k, moves, moves, target, scale))
        after, by_u, by_z = torch.empty_like(before), torch.empty_like(target), torch.empty_like(target)
        here = by_weights[-1]
        for i in reversed(range(len(k))):
            after[i] = here
            by_slope = torch.bmm(moves[i], here).neg_()
            by_u[i], by_z[i] = slopes.at(i).backward(by_slope, scale)
            here = torch.baddbmm(by_weights[i] + here, k[i].mT, by_z[i])
        by_moves = (slopes.slope @ after.mT).neg_()
        by_scale = (by_u * slopes.normal.n).sum(dim=(0, 2))[:, None]
        return here, after[0], by_z @ before.mT, by_moves, by_u, by_scale


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        up: Tensor,
        down: Tensor,
        bias: Tensor,
        first_up: Tensor,
        first_down: Tensor,
        first_bias: Tensor,
        k: Tensor,
        moves: Tensor,
        rate: Tensor,
        target: Tensor,
        scale: Tensor,
        biased: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ups, downs, biases = (part.new_empty(len(k) + 1, *part.shape) for part in (up, down, bias))
        ups[0], downs[0], biases[0] = up, down, bias
        for i in range(len(k)):
            z = torch.bmm(k[i], ups[i])
            seen = gelu(z)
            normal = Normal.of(torch.baddbmm(biases[i], seen, downs[i]))
            slope = normal.inward(torch.addcmul(target[i], normal.n, scale))
            inner, slope = gelu_backward(torch.bmm(slope, downs[i].mT), z), rate[i] * slope
            torch.baddbmm(ups[i], moves[i].mT, inner, alpha=-1, out=ups[i + 1])
            torch.baddbmm(downs[i], seen.mT, slope, alpha=-1, out=downs[i + 1])
            torch.sub(biases[i], slope.sum(dim=1, keepdim=True), alpha=int(biased), out=biases[i + 1])
            if i == 0:
                ups[1] += first_up
                downs[1] += first_down
                biases[1] += first_bias
        ctx.save_for_backward(ups, downs, biases, k, moves, rate, target, scale)
        ctx.biased = int(biased)
        return ups, downs, biases

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_ups: Tensor, by_downs: Tensor, by_biases: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        ups, downs, biases, *given = ctx.saved_tensors
        steps = Steps(*given)
        k, moves, rate, target, scale = steps
        before = Mlp(ups[:-1], downs[:-1], biases[:-1])
        z = k @ before.up
        seen = gelu(z)
        slopes = Slopes.of(seen @ before.down + before.bias, steps)
        met = slopes.slope @ before.down.mT  # the gradient of `seen`, before GELU's derivative
        inner, bend = gelu_backward(met, z), met * gelu_curvature(z)
        moved = rate * slopes.slope
        after = Mlp(*(torch.empty_like(part) for part in before))
        by_u, by_z, by_hidden = torch.empty_like(target), torch.empty_like(target), torch.empty_like(z)
        here = Mlp(by_ups[-1], by_downs[-1], by_biases[-1])
        for i in reversed(range(len(k))):
            for part, now in zip(after, here, strict=True):
                part[i] = now
            by_moved = torch.baddbmm(ctx.biased * here.bias, seen[i], here.down)  # its negative, as of the next two
            by_seen = torch.bmm(moved[i], here.down.mT)
            by_inner = torch.bmm(moves[i], here.up)
            by_met = gelu_backward(by_inner, z[i])
            by_slope = torch.baddbmm(rate[i] * by_moved, by_met, before.down[i]).neg_()
            by_u[i], by_z[i] = slopes.at(i).backward(by_slope, scale)
            by_seen = torch.baddbmm(by_seen, by_z[i], before.down[i].mT, beta=-1)
            by_hidden[i] = gelu_backward(by_seen, z[i]).addcmul_(by_inner, bend[i], value=-1)
            by_down = torch.baddbmm(by_downs[i] + here.down, seen[i].mT, by_z[i])
            here = Mlp(
                torch.baddbmm(by_ups[i] + here.up, k[i].mT, by_hidden[i]),
                by_down.baddbmm_(by_met.mT, slopes.slope[i], alpha=-1),
                by_biases[i] + here.bias + by_z[i].sum(dim=1, keepdim=True),
            )
        by_moves = (inner @ after.up.mT).neg_()
        by_rate = -(slopes.slope * (seen @ after.down + ctx.biased * after.bias)).sum(dim=-1, keepdim=True)
        by_scale = (by_u * slopes.normal.n).sum(dim=(0, 2))[:, None]
        first = (part[0] for part in after)
        return (*here, *first, by_hidden @ before.up.mT, by_moves, by_rate, by_u, by_scale, None)


def gelu(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


def gelu_backward(d: Tensor, x: Tensor) -> Tensor:
    """d times the derivative of GELU's tanh form."""
    return torch.ops.aten.gelu_backward(d, x, approximate="tanh")


def gelu_curvature(x: Tensor) -> Tensor:
    """The second derivative of GELU's tanh form."""
    scale, cube = 0.7978845608028654, 0.044715  # √(2/π)
    t = torch.tanh(scale * (x + cube * x**3))
    p = scale * (1 + 3 * cube * x**2)  # of the tanh's argument
    return (1 - t**2) * (p + 0.5 * x * (6 * scale * cube * x - 2 * t * p**2))
