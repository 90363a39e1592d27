"""The number of weights of multi-head attention, counted."""

from collections.abc import Sequence
from itertools import pairwise

from ..layers import attention
from ..models.size import parameters
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import growth, rows

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
            growth(
                f"Weights of multi-head attention, width {DIM}",
                "heads",
                "weights",
                rows(HEADS, {"heads share the width": split, "each head as wide as the input": wide}),
            )
        ],
    )


CLAIM = Claim(
    statement="More heads give attention more parameters to learn.",
    sources=("the Transformer note: 「可以增加可学习的参数数量」",),
    experiment=f"Count the weights of attention with {HEADS[0]} to {HEADS[-1]} heads at one width.",
    decided=f"Width {DIM}, heads {HEADS}: holds if the count grows with every step, else it does not.",
    note="""The Transformer note says that h heads add 3·h parameters. In the paper (Vaswani et al. 2017, section 3.2.2)
    each head works in d/h dimensions, so that the cost of all heads is that of one of full width.""",
    run=run,
    chapter=9,
    deterministic=True,
)
