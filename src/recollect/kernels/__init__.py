"""GPU kernels in Triton, and loops with a backward pass of their own, that replace many small operations by few.

Each is a second form of a computation in plain PyTorch, which remains the definition and is used where there is no GPU,
no Triton, another dtype or a size that no kernel was written for. Kernels take tensors and plain settings and import no
layer; which kernel a layer uses is decided by the layer.
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
    """Whether kernels may run on this tensor: float32 on a GPU with enough shared memory, in plain eager mode.

    A counter of FLOPs or a compiler would not see the operations inside a kernel. With TRITON_INTERPRET=1 kernels run,
    slowly, on a CPU too, also in float64: so they are tested without a GPU.
    """
    if tensor.is_cuda:
        return tensor.dtype == torch.float32 and can_launch(tensor)
    if not is_plain_eager() or not installed():
        return False
    lowered = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return interpreted() and not lowered  # the interpreter multiplies the bits of bfloat16, not its numbers


def can_launch(tensor: Tensor) -> bool:
    """Whether kernels may run on the device of this tensor: a GPU with enough shared memory, in plain eager mode."""
    return tensor.is_cuda and is_plain_eager() and installed() and has_shared_memory(tensor.device)


def is_gpu_shared() -> bool:
    """Whether other processes use the GPU at the same time (MPS): a cooperative launch would block them."""
    default = os.path.join(gettempdir(), "nvidia-mps")
    return os.path.exists(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", default))


def is_plain_eager() -> bool:
    """Whether no compiler, tracer, dispatch mode, functional transform or forward-mode derivative is active."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return False
    tangents = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    return not (tangents or is_in_torch_dispatch_mode())


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The dtype in which autocast would compute a product of x; that of x where it is off."""
    kind = x.device.type
    lower = torch.is_autocast_enabled(kind) and x.dtype != torch.float64
    return torch.get_autocast_dtype(kind) if lower else x.dtype


@cache
def installed() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def interpreted() -> bool:
    """Whether Triton interprets kernels on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def has_shared_memory(device: torch.device) -> bool:
    """Whether a thread block may use the 192 KB of shared memory that the widest heads take (Hopper has 227)."""
    available = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return torch.version.hip is None and available >= 192 * 1024
