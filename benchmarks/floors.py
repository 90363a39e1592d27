"""What no program can beat on this machine: bytes over bandwidth, FLOPs over the peak, or a chain of barriers.

Bandwidth and peak are measured in the run itself, by the largest copy, read and matrix product of the size in question.
Weights that fit into a cache are read at the cache's speed when they are read over and over, so the bandwidth is that
of as many bytes as a call touches.

A recurrence cannot begin a step before the last one has ended. On a GPU its weights stay in the multiprocessors, and
between steps these must meet: in one cluster of 16 blocks, where the recurrent weights fit into their shared memory,
or else over the whole grid.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from .measure import seconds_of

CLUSTER_BARRIER, GRID_BARRIER = 0.25e-6, 0.98e-6  # seconds, measured on an H200
CLUSTER_BYTES = 16 * 227 * 1024  # shared memory of a cluster
SIZES = {"cpu": (2**20, 2**28), "cuda": (2**25, 2**31)}  # of blocks that can be timed: less is all overhead
PRODUCTS = {"cpu": (512, 1024, 2048), "cuda": (4096, 8192)}  # sizes of matrices, of which the fastest counts
CALLS = {"cpu": 4, "cuda": 20}


def floor(
    device: str,
    *,
    flops: float = 0.0,
    bytes: float = 0.0,
    times: int = 1,
    dtype: torch.dtype = torch.float32,
    steps: int = 0,
    recurrent: float = 0.0,
) -> dict[str, Any]:
    """The largest of the bounds that apply: `seconds`, and what sets the `bound`.

    `bytes` must move at least once a call, or `times` where they cannot be kept. `steps` one after the other meet at
    barriers, `recurrent` bytes of weights being used in each; that bound is known for a GPU only.
    """
    bounds = {
        f"FLOPs, {str(dtype)[6:]} matrix product": flops / peak(device, dtype) if flops else 0.0,
        "bytes": times * bytes / bandwidth(device, bytes) if bytes else 0.0,
    }
    if steps and device == "cuda":
        near = recurrent <= CLUSTER_BYTES
        each = CLUSTER_BARRIER if near else GRID_BARRIER
        bounds[f"{steps:,} barriers of {'a cluster' if near else 'the grid'}"] = steps * each
    bound = max(bounds, key=lambda name: bounds[name])
    return {"seconds": bounds[bound], "bound": bound, "flops": flops, "bytes": times * bytes}


def bandwidth(device: str, size: float = math.inf) -> float:
    """Bytes a second, of reading or copying blocks of about `size` bytes again and again."""
    least, most = SIZES[device]
    return _bandwidth(device, 2 ** math.ceil(math.log2(min(max(size, least), most))))


@cache
def _bandwidth(device: str, size: int) -> float:
    x = torch.ones(size // 4096, 1024, device=device)
    to, vector = torch.empty_like(x), torch.ones(1024, device=device)
    reading = size / _fastest(lambda: torch.mv(x, vector), device)
    return max(reading, 2 * size / _fastest(lambda: to.copy_(x), device))


@cache
def peak(device: str, dtype: torch.dtype) -> float:
    """FLOPs a second of large matrix products; in float32 with TF32, which cuDNN uses unless told otherwise."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return max(_product(device, dtype, size) for size in PRODUCTS[device])
    finally:
        torch.set_float32_matmul_precision(before)


def _product(device: str, dtype: torch.dtype, size: int) -> float:
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / _fastest(lambda: a @ b, device)


def _fastest(run: Callable[[], object], device: str, seconds: float = 0.1) -> float:
    """Seconds of a call, the least of some tries within about `seconds`."""
    seconds_of(run, 1, device)
    found, spent = math.inf, 0.0
    while spent < seconds:
        each = seconds_of(run, CALLS[device], device)
        found, spent = min(found, each), spent + CALLS[device] * each
    return found
