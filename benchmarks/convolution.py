"""Causal convolutions beside conv1d as one calls it oneself: zeros before the first step, channels before steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

import recollect

from .floors import floor
from .measure import AS_CALLED, Row, Run, attempt, compare, graphs

TOLERANCE = {torch.float32: 5e-3, torch.bfloat16: 5e-2}  # of the largest entry; in float32 cuDNN multiplies in TF32


@dataclass(frozen=True)
class Shape:
    batch: int
    steps: int
    channels: int
    kernel: int
    dilation: int

    def __str__(self) -> str:
        return f"B{self.batch} T{self.steps} D{self.channels} k{self.kernel} dilation {self.dilation}"


SHAPES = {
    "cpu": (Shape(8, 256, 32, 7, 8), Shape(4, 128, 256, 3, 1)),
    "cuda": (
        Shape(200, 784, 28, 7, 1),
        Shape(200, 784, 28, 7, 64),
        Shape(32, 1020, 10, 8, 64),
        Shape(64, 256, 384, 3, 4),
        Shape(1, 65_536, 512, 3, 1),
    ),
}


def convolution(device: str) -> Iterator[Row]:
    """A causal convolution forward and backward, narrow and wide, beside conv1d."""
    for dtype in (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float32,):
        for shape in SHAPES[device]:
            title = f"convolution forward+backward {shape} {str(dtype)[6:]}"
            yield attempt(title, device, partial(timed, title, shape, device, dtype))


def timed(title: str, shape: Shape, device: str, dtype: torch.dtype) -> Row:
    built: Any = recollect.build("conv", dim=shape.channels, kernel=shape.kernel, dilation=shape.dilation)
    layer = built.to(device, dtype)
    x = torch.randn(shape.batch, shape.steps, shape.channels, device=device, dtype=dtype, requires_grad=True)
    slope = torch.randn_like(x).detach()

    def gradients(y: Tensor) -> list[Tensor]:
        return [y.detach(), *torch.autograd.grad(y, [x, *layer.parameters()], slope)]

    def ours() -> list[Tensor]:
        return gradients(layer(x, layer.initial_state(shape.batch))[0])

    def theirs() -> list[Tensor]:
        before = pad(x.mT, ((shape.kernel - 1) * shape.dilation, 0))
        return gradients(conv1d(before, layer.conv.weight, layer.conv.bias, dilation=shape.dilation).mT)

    for found, expected in zip(ours(), theirs(), strict=True):
        gap = float((found.float() - expected.float()).abs().max() / expected.float().abs().max())
        assert gap <= TOLERANCE[dtype], f"expected what conv1d gives, found a difference of {gap:.2g}"
    peers: dict[str, Run] = {"conv1d": theirs}
    replays, failed = graphs({AS_CALLED: ours}, device)
    their_replays, their_failed = graphs(peers, device)
    tokens = shape.batch * shape.steps
    return compare(
        title,
        {AS_CALLED: ours} | replays,
        peers | their_replays,
        device=device,
        rounds=5 if device == "cpu" else 9,
        fresh=lambda: x.normal_(),
        floor=floor(
            device,
            flops=3 * layer.cost(shape.batch, shape.steps).flops,
            bytes=5 * tokens * shape.channels * x.element_size(),  # x, y and their slopes, x once more
            dtype=dtype,
        ),
        absent=failed | their_failed,
        unit="tokens",
        amount=tokens,
        checked="outputs and every gradient",
    )


ROWS = {"convolution": convolution}
