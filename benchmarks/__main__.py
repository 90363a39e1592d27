"""./recollect bench [ROW…] [--device cpu|cuda]"""

import argparse
import sys

import torch
from rich.console import Console
from rich.table import Table

from . import decoding, layers
from .measure import write

ROWS = {**layers.ROWS, **decoding.ROWS}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./recollect bench", description="Ours beside its peers.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"out of {', '.join(ROWS)} (default: all)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        parser.error(f"expected rows out of {', '.join(ROWS)}, found {', '.join(unknown)}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("expected a CUDA device, found none; use --device cpu")
    table = Table("row", "ours", "best peer", "its time", "ratio", title=f"{options.device}: below 1.00 ours is faster")
    torch.manual_seed(0)
    command = " ".join(["./recollect bench", *sys.argv[1:]])
    for name in options.rows or ROWS:
        rows = []
        for row in ROWS[name](options.device):
            rows.append(row)
            best = row.peers[row.best_peer]
            table.add_row(
                row.row,
                f"{row.ours['median'] * 1e6:,.0f} µs",
                row.best_peer,
                f"{best['median'] * 1e6:,.0f} µs",
                f"{row.ratio:.2f}",
            )
        write(f"{name}-{options.device}", rows, command)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
