"""One decoding step of a Transformer block in five kernels, for up to 64 rows.

    qkv = norm_linear(x, …)         its norm, and W of queries, keys and values in one
    y   = attend_step(qkv, …)       rotates, keeps the new key and value in their slot, attends
    x   = linear_add(y, …, x)
    h   = norm_linear(x, …, "gelu")
    x   = linear_add(h, …, x)

At this size a step is bound by the launches and by reading the weights, so little is gained inside a kernel and much
between two: on a GPU that can (Hopper on), each starts while the one before it still runs, and has its weights under
way when that has ended (`overlap`; linear.py says what that requires of the order). Sums are float32.

How a kernel is launched is looked up by shape; the last, named arguments are there to try other ways. Nothing is
tuned while running, so a step can be captured after one call with the same tensors, which compiles the kernels and
makes the counters that `attend_step` needs for more than one span of slots.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false

import math
from functools import cache
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, relu, rms_norm
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from .. import installed, interpreted

Activation = Literal["none", "gelu", "gelu_tanh", "relu"]
Kind = Literal["layer", "rms", "none"]
Form = Literal["sum", "dot"]

SUMMED = 4  # up to so many rows a product is multiplied and summed, beyond it tensor cores do it
MOST = 64  # beyond so many rows of x a product is left to torch
MANY = 8192  # so is, for more than SUMMED rows of x, one with more rows of W than this,
WIDE = 1024  # and for more than 32, one of normed rows wider than this, which would not fit into registers
LINE = 512  # bytes that a warp loads at once, 16 a thread
FEW, BUSY = 66, 264  # programs: for every second multiprocessor of an H200 one, and two for each


class Launch(TypedDict, total=False):
    """Launch parameters of a product that replace those looked up by shape."""

    form: Form
    rows: int  # of W, to a program
    block: int  # columns of W in one go
    warps: int
    tall: int  # rows of x, to a program of the form "dot"
    registers: int  # of a thread of the form "dot", at most; 0: as many as it takes
    overlap: bool


_counters: dict[tuple[torch.device, int, int], Tensor] = {}


def usable(x: Tensor) -> bool:
    """Whether these kernels may run on such a tensor; with TRITON_INTERPRET=1 also, slowly, on a CPU."""
    if torch.compiler.is_compiling() or is_in_torch_dispatch_mode() or not complete():
        return False
    if x.is_cuda:
        good = x.dtype in (torch.float16, torch.bfloat16, torch.float32)
        return good and torch.version.hip is None and capability(x.device) >= (8, 0)
    return interpreted() and x.dtype in (torch.float16, torch.float32)  # it has no product of bfloat16


def norm_linear(
    x: Tensor,
    gain: Tensor | None,
    shift: Tensor | None,
    eps: float,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: Activation = "none",
    kind: Kind = "layer",
    **launch: Unpack[Launch],
) -> Tensor:
    """act((norm(x)·gain + shift)·Wᵀ + bias): x: B D, weight: N D → B N, in the dtype of x.

    Products of many rows, and with a vocabulary's weights of more than a few, are computed by torch.
    """
    wide = len(x) > 32 and x.shape[1] > WIDE and kind != "none"
    if "form" not in launch and (wide or is_large(x, weight)):
        return _large(x, gain, shift, eps, weight, bias, activation, kind)
    y = x.new_empty(len(x), len(weight))
    return _linear(x, gain, shift, eps, weight, bias, None, y, activation, kind, launch)


def linear_add(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor,
    **launch: Unpack[Launch],
) -> Tensor:
    """x·Wᵀ + bias + residual: x: B K, weight: N K, residual: B N → B N, in the dtype of the residual."""
    if "form" not in launch and is_large(x, weight) and x.dtype == weight.dtype == residual.dtype:
        return linear(x, weight, None if bias is None else bias.to(x.dtype)).add_(residual)
    y = torch.empty_like(residual)
    return _linear(x, None, None, 0.0, weight, bias, residual, y, "none", "none", launch)


def attend_step(
    qkv: Tensor,
    keys: Tensor,
    values: Tensor,
    clock: Tensor,
    heads: int,
    groups: int,
    rotary: tuple[Tensor, Tensor] | None,
    scale: float,
    *,
    span: int | None = None,
    block: int | None = None,
    warps: int | None = None,
    overlap: bool | None = None,
) -> Tensor:
    """qkv: B (H+2G)·d, queries first; keys, values: B S G d, written in place at slot `clock` (B, int64) → B H·d.

    Row b attends to its slots up to and with clock[b], which is not moved on. A clock of S or more keeps nothing.
    `rotary`: cosines and sines by position, S d/2 or, each pair's twice in a row, S d; pairs are neighbours, as in
    `position.rotate`. A program takes `span` slots, `block` at a time. Two steps on the same keys may not run at once.
    """
    (batch, slots, _, size), programs = keys.shape, qkv.shape[0] * heads
    _expect("qkv", qkv, (batch, (heads + 2 * groups) * size))
    _expect("keys", keys, (batch, slots, groups, size))
    _expect("values", values, (batch, slots, groups, size))
    _expect("clock", clock, (batch,))
    angles = 0
    if rotary is not None:
        angles = rotary[0].shape[1]
        for table in rotary:
            _expect("a rotary table", table, (table.shape[0], size if angles == size else size // 2))
        if size % 2 or len(rotary[0]) < slots:
            raise ValueError(
                f"expected an even head width and tables of {slots} positions, found {size} and {len(rotary[0])}"
            )
    width = power(size)
    few, busy = programs < FEW, programs >= BUSY and width <= 128
    block = block or max(16, (8_192 if busy else 16_384) // (width * keys.element_size()))
    span = span or (block if few else 8 * block if busy else 4 * block)
    if span % block:
        raise ValueError(f"expected a span that is a multiple of the block, found {span} and {block}")
    spans = -(-slots // span)
    from .attend import attend

    y = qkv.new_empty(batch, heads * size)
    sums = qkv.new_empty(programs * spans * (width + 2) if spans > 1 else 1, dtype=torch.float32)
    largest, weight = sums[programs * spans * width :], sums[programs * spans * (width + 1) :]
    cos, sin = rotary or (qkv, qkv)  # without a rotation, never read
    counted = _counted(keys, programs) if spans > 1 else clock  # of one span, never read
    with torch.cuda.device_of(qkv):
        attend[(programs, spans)](
            *(qkv, keys, values, clock, cos, sin, y, sums, largest, weight, counted),
            *(slots, spans, scale * math.log2(math.e)),
            HEADS=heads,
            GROUPS=groups,
            SIZE=size,
            WIDTH=width,
            SPAN=span,
            BLOCK=block,
            ROTARY=angles,
            num_warps=warps or (8 if few else 2 if busy else 4),
            **overlapping(qkv.device, overlap),
        )
    return y


def _linear(
    x: Tensor,
    gain: Tensor | None,
    shift: Tensor | None,
    eps: float,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    y: Tensor,
    activation: Activation,
    kind: Kind,
    given: Launch,
) -> Tensor:
    (batch, size), count = x.shape, len(weight)
    _expect("x", x, (batch, size))
    _expect("weight", weight, (count, size))
    for name, vector, length in (("gain", gain, size), ("shift", shift, size), ("bias", bias, count)):
        if vector is not None:
            _expect(name, vector, (length,))
    if residual is not None:
        _expect("residual", residual, (batch, count))
    from .linear import by_dot, by_sum

    form = given.get("form", "sum" if batch <= SUMMED else "dot")
    item = weight.element_size()
    launch: Any = (for_sum(count, size, item) if form == "sum" else for_dot(batch, count, size, item)) | given
    # An absent tensor is replaced by any other: it is never read.
    tensors = [x if t is None else t for t in (x, gain, shift, weight, bias, residual, y)]
    constants: dict[str, Any] = {
        "SIZE": size,
        "ROWS": launch["rows"],
        "BLOCK": launch["block"],
        "NORM": kind,
        "GAIN": gain is not None,
        "SHIFT": shift is not None,
        "BIAS": bias is not None,
        "ADD": residual is not None,
        "ACTIVATION": activation,
        "num_warps": launch["warps"],
        **overlapping(x.device, given.get("overlap")),
    }
    programs = -(-count // launch["rows"])
    with torch.cuda.device_of(x):
        if form == "sum":
            by_sum[(programs,)](*tensors, eps, count, BATCH=batch, **constants)
        else:
            tall, parts = launch["tall"], min(launch["warps"], launch["block"] // 16)
            grid = programs, -(-batch // tall)
            most = launch["registers"] or None
            by_dot[grid](*tensors, eps, count, batch, TALL=tall, PARTS=parts, maxnreg=most, **constants)
    return y


def is_large(x: Tensor, weight: Tensor) -> bool:
    return len(x) > MOST or (len(x) > SUMMED and len(weight) > MANY)


def _large(
    x: Tensor,
    gain: Tensor | None,
    shift: Tensor | None,
    eps: float,
    weight: Tensor,
    bias: Tensor | None,
    activation: Activation,
    kind: Kind,
) -> Tensor:
    """A product so large that one norm and torch's product cost less than a norm in every program."""
    gain, shift, bias = (None if t is None else t.to(x.dtype) for t in (gain, shift, bias))
    if kind == "layer":
        x = layer_norm(x, x.shape[1:], gain, shift, eps)
    else:
        x = rms_norm(x, x.shape[1:], gain, eps) if kind == "rms" else x if gain is None else x * gain
        x = x if shift is None else x + shift
    y = linear(x, weight.to(x.dtype), bias)
    if activation == "gelu_tanh":
        return gelu(y, approximate="tanh")
    return {"none": lambda y: y, "gelu": gelu, "relu": relu}[activation](y)


def for_sum(count: int, size: int, item: int) -> dict[str, int]:
    """Launch parameters of `by_sum`: a row of W to a warp, from 1,024 columns on to as many as load it in four goes."""
    line = LINE // item
    goes = max(1, -(-size // line))
    sharing = max(1, power(goes) // 4)
    warps = 8 if count > 8192 or sharing > 1 else 4
    return {"rows": max(1, warps // sharing), "block": min(power(size), line * sharing), "warps": warps}


def for_dot(batch: int, count: int, size: int, item: int) -> dict[str, int]:
    """16 rows of W, fewer where they would not fit into registers; its columns shared by 4 to 16 warps.

    With wide rows of narrow numbers a thread gets so few registers that two programs fit on a multiprocessor: those of
    two kernels, where they overlap. More than 32 rows of x are work enough for fewer, larger programs of fewer warps.
    """
    if batch > 32 and item == 2:
        return for_many(count, size)
    warps = 16 if size > 1024 else 4 if item == 2 else 8
    rows = 8 if size > 1024 and batch <= 16 else 16
    while rows > 1 and rows * size * item > warps * 32 * 4 * 64:
        rows //= 2
    block = min(max(16, power(size)), 256 if size <= 1024 else 1024)
    registers = 1024 // warps if item == 2 and size > 1024 and rows == 8 else 0  # 0: as many as it takes
    tall = 16 if batch <= 16 or item == 4 else 32
    return {"rows": rows, "block": block, "warps": warps, "tall": tall, "registers": registers}


def for_many(count: int, size: int) -> dict[str, int]:
    """As measured on an H200 for 64 rows of x with W of 768 and 3,072 columns; half as long as by the rule for few."""
    warps, room = (4, 96) if size <= 1024 else (8, 192)  # 4-byte registers of a thread that W may take
    rows = 32 if size > 1024 or count > 1024 else 16
    while rows > 1 and rows * size * 2 > warps * 32 * 4 * room:
        rows //= 2
    block = min(max(16, power(size)), 256 if size <= 1024 else 1024)
    return {
        "rows": rows,
        "block": block,
        "warps": warps,
        "tall": 32 if rows == 32 and size <= 1024 else 16,
        "registers": 0,
    }


def _counted(keys: Tensor, programs: int) -> Tensor:
    """Counters at zero, to which the kernel resets them; each cache has its own, since two may be in use at once.

    Created while a graph is captured they hold nothing until it runs: then each step zeroes its own.
    """
    key = keys.device, keys.data_ptr(), programs
    if key in _counters:
        return _counters[key]
    made = torch.zeros(programs, dtype=torch.int32, device=keys.device)
    if not (keys.is_cuda and torch.cuda.is_current_stream_capturing()):
        _counters[key] = made
    return made


def overlapping(device: torch.device, wanted: bool | None = None) -> dict[str, bool]:
    if interpreted() or device.type != "cuda":
        return {"OVERLAP": False}
    able = capability(device) >= (9, 0)
    on = able if wanted is None else wanted and able
    return {"OVERLAP": on, "launch_pdl": on}


def _expect(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape or not tensor.is_contiguous():
        how = "" if tensor.is_contiguous() else ", not contiguous"
        raise ValueError(f"expected {name} of shape {shape}, contiguous; found {tuple(tensor.shape)}{how}")


@cache
def complete() -> bool:
    """Whether Triton is installed and has all features that the kernels use."""
    if not installed():
        return False
    try:
        from . import attend, linear  # noqa: F401
    except ImportError:
        return False
    return True


@cache
def capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def power(size: int) -> int:
    """The smallest power of 2 that is not below `size`."""
    return 1 << (size - 1).bit_length()
