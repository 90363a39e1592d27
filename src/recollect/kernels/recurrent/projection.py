"""What the gates of all steps get from x, in one product each way: x Wᵀ + b.

cuDNN makes this product of float32 in TF32 unless that is forbidden for recurrent layers; torch's own products are made
so only where that is allowed, and on an H200 take five times as long otherwise. Here it is as cuDNN has it. Torch has
one setting for all threads, which is changed for the time of a product: those of other threads are coarse meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from ... import kernels


def project(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    """x: T B D, W: G D, b: G → T B G."""
    return Coarse.apply(x, W, b) if is_coarse(x) else linear(x, W, b)


def is_coarse(x: Tensor) -> bool:
    """Whether cuDNN would multiply such numbers in TF32."""
    cudnn: Any = torch.backends.cudnn
    allowed = cudnn.enabled and cudnn.rnn.fp32_precision == "tf32"
    return allowed and x.is_cuda and x.dtype == torch.float32 and kernels.unwatched()


class Setting:
    """Torch's precision of float32 products, kept by the first of several threads and put back by the last."""

    def __init__(self) -> None:
        self.lock, self.users, self.before = Lock(), 0, ""

    def take(self) -> None:
        with self.lock:
            if not self.users:
                self.before = torch.backends.cuda.matmul.fp32_precision
                if self.before != "tf32":  # to set it again would part it from the setting that it follows
                    torch.backends.cuda.matmul.fp32_precision = "tf32"
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users and self.before != "tf32":
                torch.backends.cuda.matmul.fp32_precision = self.before


_setting = Setting()


@contextmanager
def coarsely(wanted: bool) -> Iterator[None]:
    """Products of float32 in TF32, if `wanted`."""
    if not wanted:
        yield
        return
    _setting.take()
    try:
        yield
    finally:
        _setting.leave()


class Coarse(torch.autograd.Function):
    """The way back multiplies as the way forth, whatever torch is told between them; a second one is torch's own."""

    @staticmethod
    def forward(ctx: Any, x: Any, W: Any, b: Any):
        ctx.save_for_backward(x, W)
        with coarsely(True):
            return linear(x, W, b)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        (slope,), (x, W) = outer, ctx.saved_tensors
        of_x, of_W, of_b = ctx.needs_input_grad
        flat = slope.flatten(0, -2)
        with torch.autocast(x.device.type, enabled=False), coarsely(True):
            by_x = slope @ W if of_x else None
            by_W = flat.t() @ x.flatten(0, -2) if of_W else None
        return by_x, by_W, flat.sum(0) if of_b else None
