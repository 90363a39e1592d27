"""The input projection of recurrent layers for all steps in one product, x Wᵀ + b, in cuDNN's precision.

cuDNN computes this float32 product in TF32 unless that is disabled for recurrent layers; torch's own products use TF32
only where that is enabled, and take five times as long on an H200 otherwise. Torch has one such setting for all
threads. It is changed for the duration of a product: float32 products of other threads may use TF32 meanwhile.
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
    """x Wᵀ + b for x: T B D, W: G D, b: G → T B G."""
    return Tf32Linear.apply(x, W, b) if uses_tf32(x) else linear(x, W, b)


def uses_tf32(x: Tensor) -> bool:
    """Whether cuDNN would compute products of such a tensor in TF32."""
    cudnn: Any = torch.backends.cudnn
    allowed = cudnn.enabled and cudnn.rnn.fp32_precision == "tf32"
    return allowed and x.is_cuda and x.dtype == torch.float32 and kernels.is_plain_eager()


class Precision:
    """Torch's precision of float32 products, set by the first thread that needs TF32 and restored by the last."""

    def __init__(self) -> None:
        self.lock, self.users, self.before = Lock(), 0, ""

    def set_tf32(self) -> None:
        with self.lock:
            if not self.users:
                self.before = torch.backends.cuda.matmul.fp32_precision
                if self.before != "tf32":  # to set it again would part it from the setting that it follows
                    torch.backends.cuda.matmul.fp32_precision = "tf32"
            self.users += 1

    def restore(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users and self.before != "tf32":
                torch.backends.cuda.matmul.fp32_precision = self.before


_precision = Precision()


@contextmanager
def use_tf32(wanted: bool) -> Iterator[None]:
    """Compute float32 products in TF32, if `wanted`."""
    if not wanted:
        yield
        return
    _precision.set_tf32()
    try:
        yield
    finally:
        _precision.restore()


class Tf32Linear(torch.autograd.Function):
    """x Wᵀ + b in TF32, backward too, whatever torch's setting is by then; a second derivative is torch's own."""

    @staticmethod
    def forward(ctx: Any, x: Any, W: Any, b: Any):
        ctx.save_for_backward(x, W)
        with use_tf32(True):
            return linear(x, W, b)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor):
        (grad_y,), (x, W) = outer, ctx.saved_tensors
        needs_x, needs_W, needs_b = ctx.needs_input_grad
        flat = grad_y.flatten(0, -2)
        with torch.autocast(x.device.type, enabled=False), use_tf32(True):
            grad_x = grad_y @ W if needs_x else None
            grad_W = flat.t() @ x.flatten(0, -2) if needs_W else None
        return grad_x, grad_W, flat.sum(0) if needs_b else None
