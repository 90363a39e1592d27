"""The number of weights of multi-head attention, counted."""

from collections.abc import Sequence
from itertools import pairwise

from ..core.chart import Chart, Line
from ..layers import attention
from ..models.size import parameters
from .claim import Claim, Effort, Found, Verdict

DIM, HEADS = 64, (1, 2, 4, 8, 16)


def count(heads: int, head_dim: int | None = None) -> int:
    return parameters(attention.Config(dim=DIM, heads=heads, head_dim=head_dim).build())


def judge(counts: Sequence[int]) -> Verdict:
    grows = all(a < b for a, b in pairwise(counts))
    return Verdict.HOLDS if grows else Verdict.FAILS


def run(effort: Effort) -> Found:
    split = [count(heads) for heads in HEADS]
    wide = [count(heads, DIM) for heads in HEADS]
    same = f"{split[0]:,} weights with {HEADS[0]} head and {split[-1]:,} with {HEADS[-1]}"
    return Found(
        verdict=judge(split),
        summary=(
            f"At width {DIM}: {same}, since each head gets its share of the width. Only heads that all keep the full "
            f"width add weights ({wide[0]:,} to {wide[-1]:,}), and that is another layer."
        ),
        figures={
            "split": dict(zip(map(str, HEADS), split, strict=True)),
            "full_width_heads": dict(zip(map(str, HEADS), wide, strict=True)),
        },
        charts=[
            Chart(
                title=f"Weights of multi-head attention, width {DIM}",
                x="heads",
                y="weights",
                lines=[
                    Line(name="heads share the width", x=list(HEADS), y=split),
                    Line(name="each head as wide as the input", x=list(HEADS), y=wide),
                ],
                log_x=True,
                log_y=True,
            )
        ],
    )


CLAIM = Claim(
    id="heads-params",
    statement="More heads give attention more parameters to learn.",
    sources=("002_4ebd1d3d18a29ec3.txt",),
    experiment="Count the weights of attention with 1 to 16 heads at one width.",
    decided=f"Width {DIM}, heads {HEADS}: holds if the count grows with every step, else it does not.",
    note=(
        "Note 002 says that h heads add 3·h parameters. In the paper (Vaswani et al. 2017, section 3.2.2) each head "
        "works in d/h dimensions, so that the cost of all heads is that of one of full width."
    ),
    run=run,
    deterministic=True,
)
