"""Whether full self-attention knows the order of its input: the Symmetry law, with and without positions."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core import laws
from ..core.chart import Chart, Line
from ..layers import attention, encoder
from ..layers.position import PositionName
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import outputs
from .laboratory.figures import scientific

DIM, STEPS, HEADS, ORDERS = 8, 12, 2, 10
BROKEN = 1e-3  # a change of at least this share of the largest entry
PLACES: tuple[PositionName, ...] = ("sinusoid", "learned", "rotary", "alibi")


def change(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


def judge(without: float, positions: Mapping[str, float]) -> Verdict:
    """`without`: the largest error of the law without positions; `positions`: the least change with each kind."""
    if without > laws.TOLERANCE[torch.float64]:
        return Verdict.FAILS
    return Verdict.HOLDS if min(positions.values()) >= BROKEN else Verdict.LIMITS


def run(effort: Effort) -> Found:
    torch.manual_seed(0)
    x = torch.randn(2, STEPS, DIM, dtype=torch.float64)
    orders = [torch.randperm(STEPS).tolist() for _ in range(ORDERS)]
    plain = {
        "x·x without parameters": encoder.AttentionConfig(dim=DIM, project=False, score="dot"),
        "two heads": encoder.AttentionConfig(dim=DIM, heads=HEADS),
        "additive score": encoder.AttentionConfig(dim=DIM, score="additive"),
    }
    errors = {}
    for name, config in plain.items():
        built = config.build().double()
        errors[name] = max(laws.symmetry(built, x, order, tolerance=float("inf")) for order in orders)
    moved = {}
    for kind in PLACES:
        built = encoder.AttentionConfig(dim=DIM, heads=HEADS, positions=kind).build().double()
        moved[kind] = min(laws.symmetry(built, x, order, tolerance=float("inf")) for order in orders)
    causal = outputs(attention.Config(dim=DIM, heads=HEADS).build().double())
    with torch.no_grad():
        masked = min(change(causal(x[:, order]), causal(x)[:, order]) for order in orders)
    told = ", ".join(f"{kind} {value:.2g}" for kind, value in moved.items())
    return Found(
        verdict=judge(max(errors.values()), moved),
        summary=(
            f"{ORDERS} permutations: without positions the outputs are permuted along within "
            f"{max(errors.values()):.0e}. With positions they change by at least (share of the largest entry): {told}. "
            f"A causal mask alone also breaks it ({masked:.2g}): only full attention treats its input as a set."
        ),
        figures={"without": errors, "with": moved, "causal_mask": masked},
        charts=[
            Chart(
                "What a permutation of the input changes in the outputs",
                "attention",
                "largest change, relative",
                [
                    Line(
                        "change",
                        ["no positions", *moved, "causal mask"],
                        [max(errors.values()), *moved.values(), masked],
                    )
                ],
                kind="bars",
                log_y=True,
            )
        ],
    )


CLAIM = Claim(
    statement="Full self-attention without positions treats its input as a set.",
    sources=(
        "Vaswani et al. 2017",
        "Lee et al. 2019 (Set Transformer)",
        "the self-attention note: 「本质上是一种集合操作」",
        "the Transformer note: 「将输入的词任意打乱，其注意力信息也是相同的」",
    ),
    experiment="Permute the inputs of full attention and see whether the outputs are permuted alike and nothing else.",
    decided=f"""{ORDERS} random permutations of {STEPS} inputs, float64: without positions an error of at most
    {scientific(laws.TOLERANCE[torch.float64])}; with sinusoid, learned, rotary and ALiBi positions a change of at least
    {BROKEN:g} under every permutation (else: within limits).""",
    note="""The Transformer note says that a shuffled input gives the same attention; what is the same is the set of
    outputs, which change places with their inputs, as the self-attention note says.""",
    run=run,
    chapter=9,
    deterministic=True,
)
