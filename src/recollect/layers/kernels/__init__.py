"""Triton kernels: for what a GPU would else do in many small operations.

A kernel is a second form of something that stands in plain PyTorch beside it, which stays the definition: it is used
where there is no GPU, no Triton, another dtype or a size that no kernel was written for.
"""

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def can_take(tensor: Tensor) -> bool:
    """Whether kernels may run on this tensor: float32 on a GPU that they fit on.

    With TRITON_INTERPRET=1 they run, slowly, on a CPU too, in float64 as well: so are they tested without a GPU.
    """
    if torch.compiler.is_compiling() or not installed():
        return False
    if not tensor.is_cuda:
        return interpreted() and tensor.dtype in (torch.float32, torch.float64)
    return tensor.dtype == torch.float32 and suits(tensor.device)


@cache
def installed() -> bool:
    return find_spec("triton") is not None


def interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def suits(device: torch.device) -> bool:
    """Whether a block of threads may have the 192 KB that the widest heads take: 227 on Hopper, fewer before it."""
    shared = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return torch.version.hip is None and shared >= 192 * 1024
