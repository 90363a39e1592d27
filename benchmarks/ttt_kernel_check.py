"""The kernels of ttt-linear on a GPU: right beside the plain form, and how much faster.

python -m benchmarks.ttt_kernel_check [--rounds 9] [--warps 4 8] [--json FILE]

First every head width and mini-batch size on fresh random inputs, rows at different places, forward and backward; then
the times of a layer (projections included) beside the same layer in the plain form. Exit status 1 if any is wrong.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from recollect import kernels
from recollect.core import state as states
from recollect.layers import ttt

from .measure import Row, commit, compare, machine

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-3}  # or twice as far off as the plain form
SHAPES = [(64, 256, 6, 64, 16), (64, 256, 6, 64, 32), (8, 2048, 16, 64, 16)]  # B T H d b


def plain_form():
    return mock.patch.object(kernels, "can_take", return_value=False)


def make(heads: int, size: int, mini_batch: int, **options: Any) -> ttt.Ttt:
    layer = ttt.Config(dim=heads * size, heads=heads, mini_batch=mini_batch, **options).build()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return layer.cuda()


def everything(layer: ttt.Ttt, x: Tensor, state: ttt.State) -> list[Tensor]:
    """Outputs, final state, and the gradients by x, the state and every parameter."""
    x = x.detach().requires_grad_()
    state = states.map(lambda t: t.detach().requires_grad_(t.is_floating_point()), state)
    y, final = layer(x, state)
    outputs = [y, *(t for t in states.leaves(final) if t.is_floating_point())]
    weights = torch.Generator("cuda").manual_seed(1)
    parts = [(t * torch.randn(t.shape, generator=weights, device="cuda")).sum() for t in outputs]
    inputs = [x, *(t for t in states.leaves(state) if t.requires_grad), *layer.parameters()]
    gradients = torch.autograd.grad(torch.stack(parts).sum(), inputs, allow_unused=True, materialize_grads=True)
    return [t.detach().double() for t in (*outputs, *gradients)]


def furthest(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference, relative to each tensor's largest entry or 1e-4 of the largest of all."""
    floor = 1e-4 * max(float(b.abs().max()) for b in expected)
    return max(
        float((a - b).abs().max() / max(float(b.abs().max()), floor)) for a, b in zip(found, expected, strict=True)
    )


def errors() -> Iterator[tuple[str, float, float, bool]]:
    """For each case how far the kernels and the plain form are from it in float64, and whether that will do."""
    cases = [(d, b, {}) for d in (16, 32, 64, 128) for b in (5, 16, 32, 64)]
    cases += [(64, 16, {name: False}) for name in ("norm", "bias", "average", "learn_rate", "learn_start")]
    for size, mini_batch, options in cases:
        layer = make(2, size, mini_batch, **options)
        x = torch.randn(4, 3 * mini_batch + 2, layer.dim, device="cuda")
        with torch.no_grad():
            parts = [layer(x[:1, :count], layer.initial_state(1))[1] for count in (2, mini_batch, mini_batch + 3)]
            state = states.join([layer.initial_state(1), *parts])
        for dtype in (torch.float32, torch.bfloat16):
            auto = torch.autocast("cuda", dtype) if dtype == torch.bfloat16 else nullcontext()
            with auto:
                ours = everything(layer, x, state)
                with plain_form():
                    theirs = everything(layer, x, state)
            wide = states.map(lambda t: t.double() if t.is_floating_point() else t, state)
            truth = everything(layer.double(), x.double(), wide)
            layer.float()
            a, b = furthest(ours, truth), furthest(theirs, truth)
            name = f"d{size} b{mini_batch} {' '.join(f'no {o}' for o in options)} {str(dtype)[6:]}"
            yield name, a, b, a <= max(TOLERANCE[dtype], 2 * b)


def times(rounds: int, warps: int | None) -> Iterator[Row]:
    from recollect.kernels.ttt import linear

    for batch, steps, heads, size, mini_batch in SHAPES:
        linear.WARPS[size] = warps or linear.WARPS[size]
        layer = make(heads, size, mini_batch)
        x = torch.randn(batch, steps, layer.dim, device="cuda")
        for dtype in (torch.float32, torch.bfloat16):
            for backward in (False, True):

                def ours(layer=layer, x=x, dtype=dtype, backward=backward) -> None:
                    with (
                        torch.set_grad_enabled(backward),
                        torch.autocast("cuda", dtype, enabled=dtype != torch.float32),
                    ):
                        y, _ = layer(x, layer.initial_state(len(x)))
                    if backward:
                        y.sum().backward()

                def theirs(run=ours) -> None:
                    with plain_form():
                        run()

                what = "forward+backward" if backward else "forward"
                yield compare(
                    f"{what} B{batch} T{steps} H{heads} d{size} b{mini_batch} {str(dtype)[6:]}"
                    f", {linear.WARPS[size]} warps",
                    ours,
                    {"plain form": theirs},
                    device="cuda",
                    rounds=rounds,
                    seconds=0.1,
                )


def main() -> int:
    parser = argparse.ArgumentParser(description="The kernels of ttt-linear beside the plain form.")
    parser.add_argument("--rounds", type=int, default=9, help="of timing, each side in turn (default: 9)")
    parser.add_argument("--warps", type=int, nargs="+", default=[None], help="of the timed kernels (default: theirs)")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    options = parser.parse_args()
    if not torch.cuda.is_available() or not kernels.can_take(torch.zeros(1, device="cuda")):
        parser.error("expected Triton and a GPU with 192 KB of shared memory a block, found none")
    torch.manual_seed(torch.seed() % 2**32)
    console, right, checked, timed = Console(width=120), True, [], []
    table = Table("case", "kernels", "plain form", "", title="largest error, against float64")
    for name, a, b, good in errors():
        right = right and good
        checked.append({"case": name, "kernels": a, "plain": b, "right": good})
        table.add_row(name, f"{a:.1e}", f"{b:.1e}", "" if good else "WRONG")
    console.print(table)
    table = Table("row", "kernels", "plain form", "ratio", title="below 1.00 the kernels are faster")
    for row in (row for warps in options.warps for row in times(options.rounds, warps)):
        timed.append(asdict(row))
        best = row.peers[row.best_peer]["median"]
        table.add_row(row.row, f"{row.ours['median'] * 1e6:,.0f} µs", f"{best * 1e6:,.0f} µs", f"{row.ratio:.3f}")
    console.print(table)
    if options.json:
        content = {"commit": commit(), "machine": machine(), "errors": checked, "rows": timed}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
