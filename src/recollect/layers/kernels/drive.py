"""What the gates of all steps get from x, in one product each way: x Wᵀ + b.

cuDNN makes this product of float32 in TF32 unless that is forbidden for recurrent layers; torch's own products are made
so only where that is allowed, and on an H200 take five times as long otherwise. Here it is as cuDNN has it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear


def project(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    """x: … D, W: G D, b: G → … G."""
    return Coarse.apply(x, W, b) if is_coarse(x) else linear(x, W, b)


def is_coarse(x: Tensor) -> bool:
    """Whether cuDNN would multiply such numbers in TF32."""
    allowed: Any = torch.backends.cudnn.rnn
    return x.is_cuda and x.dtype == torch.float32 and allowed.fp32_precision == "tf32"


@contextmanager
def coarsely(wanted: bool) -> Iterator[None]:
    """Products of float32 in TF32, if `wanted`; the setting is that of all threads, and is put back at once."""
    if not wanted:
        yield
        return
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before


class Coarse(torch.autograd.Function):
    """The way back multiplies as the way forth, whatever torch is told between them."""

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
