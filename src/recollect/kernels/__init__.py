"""Fewer, larger operations for many small ones: Triton kernels, and loops with a backward of their own.

A kernel is a second form of something that stands in plain PyTorch beside it, which stays the definition: it is used
where there is no GPU, no Triton, another dtype or a size that no kernel was written for.
"""

import os
from functools import cache
from importlib.util import find_spec
from tempfile import gettempdir

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode


def can_take(tensor: Tensor) -> bool:
    """Whether kernels may run on this tensor: float32 on a GPU that they fit on, and nothing that looks on.

    What looks on at the operations, such as a counter of FLOPs or a compiler, would see nothing of a kernel.
    With TRITON_INTERPRET=1 they run, slowly, on a CPU too, in float64 as well: so are they tested without a GPU.
    """
    if tensor.is_cuda:
        return tensor.dtype == torch.float32 and can_launch(tensor)
    if not unwatched() or not installed():
        return False
    wrong = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return interpreted() and not wrong  # the interpreter multiplies the bits of bfloat16, not its numbers


def can_launch(tensor: Tensor) -> bool:
    """Whether kernels may run where this tensor is: on a GPU that they fit on, and nothing looks on."""
    return tensor.is_cuda and unwatched() and installed() and suits(tensor.device)


def shared() -> bool:
    """Whether others run on the GPU meanwhile (MPS): programs that wait for one another would keep it from them."""
    default = os.path.join(gettempdir(), "nvidia-mps")
    return os.path.exists(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", default))


def unwatched() -> bool:
    """Whether no compiler, no counter of operations and no kind of derivative but backward would look into a kernel."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return False
    tangents = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    return not (tangents or is_in_torch_dispatch_mode())


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
