"""./recollect bench [ROW…] [--only TEXT] [--device cpu|cuda] [--json DIR] [--list]"""

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from . import (
    align,
    convolution,
    decoding,
    layers,
    measure,
    ngram,
    scaling,
    stepping,
    steps,
    training,
    translating,
    ttt,
    writing,
)  # fmt: skip
from .measure import AS_CALLED, LEFT_OUT, Row, one_line, recover, write
from .speed_page import figure, percent, spread

MODULES = (layers, convolution, steps, stepping, align, decoding, training, writing, ttt, ngram, translating, scaling)
ROWS: dict[str, Callable[[str], Iterator[Row]]] = {
    name: rows for module in MODULES for name, rows in module.ROWS.items()
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./recollect bench", description="Ours beside its peers.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"out of {', '.join(ROWS)} (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure what has TEXT in its name, keep the others")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path, metavar="DIR", help="where to write bench-*.json (default: results)")
    parser.add_argument("--list", action="store_true", help="say what the rows are, and measure nothing")
    options = parser.parse_args()
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        parser.error(f"expected rows out of {', '.join(ROWS)}, found {', '.join(unknown)}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("expected a CUDA device, found none; use --device cpu")
    names = options.rows or list(ROWS)
    if options.list:
        for name in names:
            print(f"{name:12} {(ROWS[name].__doc__ or '').splitlines()[0]}")
        return 0
    measure.only = options.only
    shown: list[Row] = []
    for position, name in enumerate(names):
        started = time.perf_counter()
        shown += measured(name, options.device, options.json)
        print(f"{name}: {time.perf_counter() - started:,.0f} s in all", file=sys.stderr, flush=True)
        if not is_sound(options.device):
            left = names[position + 1 :]
            show(shown, options.device)
            print(f"{name} left the device unusable; a new process goes on with: {' '.join(left) or 'nothing'}")
            if not left:
                return 1
            rest = ["--device", options.device]
            rest += ["--only", options.only] if options.only else []
            rest += ["--json", str(options.json)] if options.json else []
            os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *left, *rest])
    if options.only and not shown:
        parser.error(f"expected a text out of the names of rows, found --only {options.only!r}, which is in none")
    show(shown, options.device)
    return 1 if any(row.error for row in shown) else 0


def measured(name: str, device: str, folder: Path | None) -> list[Row]:
    """The rows of one name, each written as soon as it is there; a failure ends them and is a row of its own."""
    torch.manual_seed(0)
    rows: list[Row] = []
    made = ROWS[name](device)
    while True:
        try:
            row = next(made, None)
        except Exception as error:
            row, made = Row(name, device, {}, error=one_line(error)), iter(())
        if row is None:
            clear(device)
            return rows
        if row is LEFT_OUT:
            continue
        rows.append(row)
        print(said(row), file=sys.stderr, flush=True)
        write(f"{name}-{device}", rows, f"./recollect bench {name} --device {device}", folder)


def clear(device: str) -> None:
    """Let go of what the rows made, compiled code too."""
    torch.compiler.reset()
    gc.collect()
    recover(device)


def said(row: Row) -> str:
    """A row in a line, as it arrives."""
    if row.error:
        return f"{row.row}: {row.error}"
    beside = f", {row.ratio:.2f} of {row.best_peer}" if row.ratio and row.best_peer else ""
    return f"{row.row}: {figure(row.ours, row.unit, row.amount)}{beside}"


def is_sound(device: str) -> bool:
    """Whether the device still computes: some failures leave it unusable for the process."""
    try:
        return torch.randn(8, device=device).isfinite().all().item() is True
    except Exception:
        return False


def show(rows: list[Row], device: str) -> None:
    """What was measured, with rows that failed and peers that are absent named below."""
    made = Table(
        "row", "ours", "best peer", "its", "ratio", "of the floor", title=f"{device}: below 1.00 ours is faster"
    )
    for row in rows:
        if row.error:
            made.add_row(row.row, "failed", "", "", "", "")
            continue
        mode = row.ours.get("mode", AS_CALLED)
        made.add_row(
            row.row if mode == AS_CALLED else f"{row.row}, {mode}",
            spread(row.ours, row.unit, row.amount),
            row.best_peer or "none",
            spread(row.peers[row.best_peer], row.unit, row.amount) if row.best_peer else "",
            f"{row.ratio:.2f}" if row.ratio else "",
            percent(row.floor_share) if row.floor_share else "",
        )
    console = Console(markup=False, highlight=False)
    console.width = max(console.width, 140)
    console.print(made)
    for row in rows:
        if row.error:
            console.print(f"{row.row}: {row.error}")
        for peer, why in row.absent.items():
            console.print(f"{row.row}: {peer} is absent: {why}")


if __name__ == "__main__":
    sys.exit(main())
