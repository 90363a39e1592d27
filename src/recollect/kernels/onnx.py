"""Operators of ONNX that stand for many small operations in an exported graph: a cache written in place, attention.

Inside `exporting()` layers use these instead of PyTorch's own operations. They are symbols: they have a value only in
the exported file, so nothing but the exporter may run them. Opset 24 has all of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

OPSET = 24
RECURRENT = {"RNN": (0,), "LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}  # our gates in their order there
_active = False


def is_exporting() -> bool:
    """Whether a graph for ONNX is being traced."""
    return _active


@contextmanager
def exporting() -> Iterator[None]:
    """Layers called inside use the operators of this file."""
    global _active
    before, _active = _active, True
    try:
        yield
    finally:
        _active = before


def write_slots(slots: Tensor, new: Tensor, at: Tensor) -> Tensor:
    """Slots (B G C d) with `new` (B G T d) written from the slot `at` (B) of each row on.

    Where input and output are bound to the same memory, nothing else is copied.
    """
    return _symbol("TensorScatter", [slots, new, at], slots, {"axis": 2, "mode": "linear"})


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each pair of neighbours of x (B H T d) turned by its angle, whose cosine and sine are B T d/2 each."""
    return _symbol("RotaryEmbedding", [x, cos, sin], x, {"interleaved": 1})


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, mask: Tensor | None = None, lengths: Tensor | None = None
) -> Tensor:
    """softmax(scale·q kᵀ + mask) v, for q: B H T d, k: B G S d and v: B G S e.

    `mask` (B|1 H|1 T S) is boolean, True where a key may be seen, or added to the scores; `lengths` (B) lets each row
    see its first keys alone.
    """
    found = q.new_empty(*q.shape[:3], v.shape[3])  # its shape alone counts
    return _symbol("Attention", [q, k, v, mask, None, None, lengths], found, {"scale": scale})


def run_recurrent(
    kind: str,
    x: Tensor,
    weights: Sequence[Tensor | None],
    start: Sequence[Tensor],
    settings: dict[str, Any],
    lengths: Tensor | None = None,
) -> list[Tensor]:
    """A whole chunk through one recurrent layer: outputs (T B W) and the last state of each row (B W).

    x: T B D. `weights` are W (1 G·W D), U (1 G·W W) and b (1 2·G·W), gates in the order of ONNX; `start` is h, or h
    and c, 1 B W each. Each row ends at its length (B), where there are any; its outputs beyond are 0.
    """
    steps, rows, _ = x.shape
    width = start[0].shape[-1]
    found = torch.onnx.ops.symbolic_multi_out(
        kind,
        [x, *weights, None if lengths is None else lengths.to(torch.int32), *start],
        attrs={"hidden_size": width, **settings},
        dtypes=[x.dtype] * (1 + len(start)),
        shapes=[(steps, 1, rows, width), *[(1, rows, width)] * len(start)],
        version=OPSET,
    )
    return [found[0][:, 0], *(part[0] for part in found[1:])]


def _symbol(kind: str, given: Sequence[Tensor | None], like: Tensor, settings: dict[str, Any]) -> Tensor:
    return torch.onnx.ops.symbolic(kind, given, settings, dtype=like.dtype, shape=like.shape, version=OPSET)
