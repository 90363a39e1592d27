"""Launches of the persistent kernels of recurrent cells: the grid of programs, buffers and results.

Letters as in `sequence`: T steps, K directions, B rows, W width, G = gates · W.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false

from functools import cache
from math import prod
from typing import Any, NamedTuple, Self

import torch
import triton
from torch import Tensor

from . import persistent_kernels
from .sequence import Outputs

SIZES = {torch.bfloat16: 2, torch.float16: 2, torch.float32: 4}
WARPS = 4  # on an H200 eight take 1.3 to 2 times as long, since more must synchronise for each sum
PARTS = {2: 8, 4: 4, 8: 4}  # of the columns, by the bytes of an element of U: each a product of its own, then summed
CHIP_BYTES = 176 * 1024  # bytes that a program may save on the chip
BLOCK = 256  # columns loaded at a time


class Plan(NamedTuple):
    """The tile of a program: `units` units and `rows` rows, `block` columns at a time, split into `parts` products."""

    units: int
    rows: int
    block: int
    parts: int

    def grid(self, width: int, batch: int, directions: int) -> tuple[int, int, int]:
        return -(-width // self.units), -(-batch // self.rows), directions


@cache
def plan(columns: int, lanes: int, width: int, batch: int, directions: int, size: int, most: int) -> Plan | None:
    """The smallest tile whose part of U fits on the chip and whose programs, at most `most`, run concurrently.

    A program holds `columns` elements of U, of `size` bytes, for each of its units' `lanes`. None where none fits.
    """
    parts = PARTS[size]
    block = min(BLOCK, max(16 * parts, triton.next_power_of_2(columns)))
    for rows in (16, 32, 64):
        for units in (8, 16, 32, 64):
            found, wide = Plan(units, rows, block, parts), units * lanes
            weights = -(-columns // block) * block * wide * size
            sums = parts * rows * wide * 4 + rows * block * size
            if wide >= 16 and prod(found.grid(width, batch, directions)) <= most and weights + sums <= CHIP_BYTES:
                return found
    return None


class Persistent:
    """All steps in one kernel forward and one backward, with U held on the chip."""

    def __init__(self, kind: str, forward: Plan, backward: Plan, precision: str = "tf32x3") -> None:
        self.kind, self.plans = kind, (forward, backward)
        self.precision = (
            precision  # of float32 products, the same forward and backward whatever torch's setting is by then
        )

    @classmethod
    def fit(cls, kind: str, U: Tensor, dtype: torch.dtype, batch: int, directions: int) -> Self | None:
        """The kernels for `batch` rows and U: … G W in `dtype`; None where not all programs could run concurrently.

        As in cuDNN, float32 is multiplied in TF32 unless that is disabled; then each number is split into two of those.
        (torch raises on `cudnn.allow_tf32` where the precision of rnn alone was set.)
        """
        if dtype not in SIZES:
            return None
        sums, width = U.shape[-2:]
        precision = "tf32" if torch.backends.cudnn.rnn.fp32_precision == "tf32" else "tf32x3"
        size = SIZES[dtype] * (2 if dtype == torch.float32 and precision == "tf32x3" else 1)
        most = torch.cuda.get_device_properties(U.device).multi_processor_count
        forward = plan(width, 1 if kind == "rnn" else 4, width, batch, directions, size, most)
        backward = plan(sums, 1, width, batch, directions, size, most)
        return None if forward is None or backward is None else cls(kind, forward, backward, precision)

    def forward(self, from_x: Tensor, U: Tensor, d: Tensor | None, h: Tensor, c: Tensor | None, save: bool) -> Outputs:
        steps, directions, batch, _ = from_x.shape
        width = h.shape[-1]
        hidden = h.new_empty(steps + 1, *h.shape)
        hidden[0].copy_(h)
        cells = None if c is None else c.new_empty(steps, *c.shape)
        gates = None if self.kind == "rnn" or not save else h.new_empty(steps, directions, batch, 4 * width)
        given = [h if tensor is None else tensor.contiguous() for tensor in (from_x, U, d, hidden, c, cells, gates)]
        self.launch(persistent_kernels.forward, 0, given, hidden, BIAS=d is not None, SAVE=gates is not None)
        return Outputs(hidden, cells, [] if gates is None else [gates])

    def backward(
        self, U: Tensor, c: Tensor | None, outputs: Outputs, grad_hidden: Tensor | None, grad_cells: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The gradients of W x + b and of U h + d at every step (T K B G), and of the initial h and c (K B W)."""
        hidden, cells, saved = outputs
        grad_from_h = hidden.new_empty(len(hidden) - 1, *hidden.shape[1:3], U.shape[1])
        grad_from_x = torch.empty_like(grad_from_h) if self.kind == "gru" else grad_from_h
        grad_h = torch.empty_like(hidden[0])
        grad_c = None if c is None else torch.empty_like(grad_h)
        tensors = (
            U,
            hidden,
            c,
            cells,
            *(saved or [None]),
            grad_hidden,
            grad_cells,
            grad_from_x,
            grad_from_h,
            grad_h,
            grad_c,
        )
        given = [hidden if tensor is None else tensor.contiguous() for tensor in tensors]
        given_grads = {"GRAD_H": grad_hidden is not None, "GRAD_C": grad_cells is not None}
        self.launch(persistent_kernels.backward, 1, given, hidden, **given_grads)
        return grad_from_x, grad_from_h, grad_h, grad_c

    def launch(self, kernel: Any, which: int, tensors: list[Tensor], hidden: Tensor, **constants: Any) -> None:
        (steps, directions, batch, width), used = hidden.shape, self.plans[which]
        grid = used.grid(width, batch, directions)
        arrived = torch.zeros(directions * grid[1], steps - 1, dtype=torch.int32, device=hidden.device)
        with torch.cuda.device_of(hidden):
            kernel[grid](
                *tensors,
                arrived,
                steps - 1,
                directions,
                batch,
                grid[0],
                KIND=self.kind,
                WIDTH=width,
                UNITS=used.units,
                ROWS=used.rows,
                BLOCK=used.block,
                PARTS=used.parts,
                PRECISION=self.precision,
                num_warps=WARPS,
                num_stages=1,  # what is loaded ahead of a barrier would be stale
                launch_cooperative_grid=True,
                **constants,
            )
