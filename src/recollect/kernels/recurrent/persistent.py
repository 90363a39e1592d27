"""Recurrent cells over whole sequences through `persistent_steps`: which programs, in what places, and what comes back.

Letters as in `sequence`: T steps, K ways, B rows, W width, G = gates · W.
"""
# pyright: reportMissingImports=false, reportCallIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false

from functools import cache
from math import prod
from typing import Any, NamedTuple, Self

import torch
import triton
from torch import Tensor

from . import persistent_kernels
from .sequence import Found

SIZES = {torch.bfloat16: 2, torch.float16: 2, torch.float32: 4}
WARPS = 4  # on an H200 eight take 1.3 to 2 times as long, since more must meet to sum up
PARTS = {2: 8, 4: 4, 8: 4}  # of the columns, by the bytes of a number of U: each a product of its own, then summed
HELD = 176 * 1024  # bytes that a program may keep on the chip
BLOCK = 256  # columns in one go


class Plan(NamedTuple):
    """Programs of `units` units and `rows` rows each, which read `block` columns in one go, in `parts`."""

    units: int
    rows: int
    block: int
    parts: int

    def grid(self, width: int, batch: int, ways: int) -> tuple[int, int, int]:
        return -(-width // self.units), -(-batch // self.rows), ways


@cache
def plan(columns: int, lanes: int, width: int, batch: int, ways: int, size: int, most: int) -> Plan | None:
    """As many programs as run at a time, of those whose part of U fits on the chip; None where none does.

    A program has `columns` numbers of U, of `size` bytes, for each of its units' `lanes`.
    """
    parts = PARTS[size]
    block = min(BLOCK, max(16 * parts, triton.next_power_of_2(columns)))
    for rows in (16, 32, 64):
        for units in (8, 16, 32, 64):
            found, wide = Plan(units, rows, block, parts), units * lanes
            weights = -(-columns // block) * block * wide * size
            sums = parts * rows * wide * 4 + rows * block * size
            if wide >= 16 and prod(found.grid(width, batch, ways)) <= most and weights + sums <= HELD:
                return found
    return None


class Resident:
    """All steps in one kernel each way."""

    def __init__(self, kind: str, forth: Plan, back: Plan, precision: str = "tf32x3") -> None:
        self.kind, self.plans = kind, (forth, back)
        self.precision = precision  # of float32, the same both ways whatever torch is told between them

    @classmethod
    def planned(cls, kind: str, U: Tensor, dtype: torch.dtype, batch: int, ways: int) -> Self | None:
        """For so many rows and ways with U: … G W, lowered to `dtype`; None where not all programs could run at a time.

        As cuDNN does, float32 is multiplied in TF32 unless that is forbidden; then it is taken apart into two of those.
        (torch refuses to tell `cudnn.allow_tf32` where someone has set the precision of rnn alone.)
        """
        if dtype not in SIZES:
            return None
        sums, width = U.shape[-2:]
        precision = "tf32" if torch.backends.cudnn.rnn.fp32_precision == "tf32" else "tf32x3"
        size = SIZES[dtype] * (2 if dtype == torch.float32 and precision == "tf32x3" else 1)
        most = torch.cuda.get_device_properties(U.device).multi_processor_count
        forth = plan(width, 1 if kind == "rnn" else 4, width, batch, ways, size, most)
        back = plan(sums, 1, width, batch, ways, size, most)
        return None if forth is None or back is None else cls(kind, forth, back, precision)

    def forth(self, drive: Tensor, U: Tensor, d: Tensor | None, h: Tensor, c: Tensor | None, keep: bool) -> Found:
        steps, ways, batch, _ = drive.shape
        width = h.shape[-1]
        hidden = h.new_empty(steps + 1, *h.shape)
        hidden[0].copy_(h)
        cells = None if c is None else c.new_empty(steps, *c.shape)
        gates = None if self.kind == "rnn" or not keep else h.new_empty(steps, ways, batch, 4 * width)
        given = [h if tensor is None else tensor.contiguous() for tensor in (drive, U, d, hidden, c, cells, gates)]
        self.launch(persistent_kernels.forth, 0, given, hidden, BIAS=d is not None, KEEP=gates is not None)
        return Found(hidden, cells, [] if gates is None else [gates])

    def back(
        self, U: Tensor, c: Tensor | None, found: Found, of_hidden: Tensor | None, of_cells: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The gradients of what each step's gates got from x, and from h (T K B G), of the first h and c (K B W)."""
        hidden, cells, kept = found
        by_asked = hidden.new_empty(len(hidden) - 1, *hidden.shape[1:3], U.shape[1])
        by_drive = torch.empty_like(by_asked) if self.kind == "gru" else by_asked
        by_h = torch.empty_like(hidden[0])
        by_c = None if c is None else torch.empty_like(by_h)
        tensors = U, hidden, c, cells, *(kept or [None]), of_hidden, of_cells, by_drive, by_asked, by_h, by_c
        given = [hidden if tensor is None else tensor.contiguous() for tensor in tensors]
        told = {"OF_H": of_hidden is not None, "OF_C": of_cells is not None}
        self.launch(persistent_kernels.back, 1, given, hidden, **told)
        return by_drive, by_asked, by_h, by_c

    def launch(self, kernel: Any, way: int, tensors: list[Tensor], hidden: Tensor, **constants: Any) -> None:
        (steps, ways, batch, width), used = hidden.shape, self.plans[way]
        grid = used.grid(width, batch, ways)
        met = torch.zeros(ways * grid[1], steps - 1, dtype=torch.int32, device=hidden.device)
        with torch.cuda.device_of(hidden):
            kernel[grid](
                *tensors,
                met,
                steps - 1,
                ways,
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
                num_stages=1,  # what is loaded ahead of a meeting would be stale
                launch_cooperative_grid=True,
                **constants,
            )
