"""Test-time training in its plainest form beside linear attention, with the same projections."""

from typing import Any

import torch
from torch import Tensor

from ..core.chart import Chart, Line
from ..layers import linear_attention, ttt
from .claim import Claim, Effort, Found, Verdict

DIM, HEADS, STEPS, ROWS, SEED = 12, 2, 40, 3, 0
EXACT = 1e-10
PLAIN = {
    "norm": False,
    "learn_rate": False,
    "learn_start": False,
    "average": False,
    "out_norm": False,
    "bias": False,
    "mini_batch": None,
}
SWITCHES = {  # one change each, away from linear attention
    "a step every 8 inputs": {"mini_batch": 8},
    "a learned W₀": {"learn_start": True},
    "a LayerNorm inside": {"norm": True},
    "a learned rate": {"learn_rate": True},
}


def pair(**changes: object) -> tuple[ttt.Ttt, linear_attention.LinearAttention]:
    """TTT with a few changes, and linear attention (identity features, no normaliser) with its projections."""
    torch.manual_seed(SEED)
    settings = {"dim": DIM, "heads": HEADS, "rate": DIM / HEADS} | PLAIN | changes
    inner = ttt.Config(**settings).build().double()  # type: ignore[arg-type]
    plain = linear_attention.Config(dim=DIM, heads=HEADS, feature="identity", normalise=False).build().double()
    with torch.no_grad():
        for name in ("q", "k", "v", "out"):
            getattr(plain, name).weight.copy_(getattr(inner, name).weight)
    return inner, plain


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


def compare(x: Tensor, **changes: object) -> dict[str, float]:
    """Relative differences of outputs, of the state and of the gradient of the inputs."""
    inner, plain = pair(**changes)
    read = []
    layers: tuple[Any, ...] = inner, plain
    for layer in layers:
        seen = x.clone().requires_grad_()
        y, state = layer(seen, layer.initial_state(len(x), like=x))
        (slope,) = torch.autograd.grad(y.square().sum(), seen)
        read.append((y.detach(), state, slope))
    (y, state, slope), (expected, sums, wanted) = read
    weights = state.model.weights[0] - state.gradient.weights[0]
    return {
        "outputs": difference(y, expected),
        "state": difference(weights.detach(), sums.sums.detach()),
        "gradients": difference(slope, wanted),
    }


def judge(errors: dict[str, float]) -> Verdict:
    return Verdict.HOLDS if max(errors.values()) <= EXACT else Verdict.FAILS


def run(effort: Effort) -> Found:
    x = torch.randn(ROWS, STEPS, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(SEED))
    errors = compare(x)
    apart = {name: compare(x, **change)["outputs"] for name, change in SWITCHES.items()}
    told = ", ".join(f"{value:.2g} by {name}" for name, value in apart.items())
    return Found(
        verdict=judge(errors),
        summary=(
            f"Outputs, state (W − G against Σ k vᵀ) and gradients agree within {max(errors.values()):.0e}. What makes "
            f"it more than linear attention, as the largest relative change of the outputs: {told}."
        ),
        figures={"difference": errors, "one_change": apart},
        charts=[
            Chart(
                "How far TTT is from linear attention, one change at a time",
                "change",
                "largest relative difference of the outputs",
                [Line("difference", ["none", *apart], [max(errors["outputs"], 1e-16), *apart.values()])],
                kind="bars",
                log_y=True,
            )
        ],
    )


CLAIM = Claim(
    statement="Test-time training of f(x) = Wx by batch gradient descent from W₀ = 0 is linear attention.",
    sources=(
        "Sun et al. 2024, arXiv 2407.04620, theorem 1",
        "the overview note: 「context压缩到模型权重中，增强了表达能力」",
    ),
    experiment="Both layers with the same projections, identity features and no normaliser, on the same random input.",
    decided=f"""{ROWS} rows of {STEPS} steps, width {DIM}, {HEADS} heads, float64: outputs, final state and the gradient
    of the input within {EXACT:g} of each other, relative to the largest entry.""",
    note="""The overview note says that TTT packs context into a model's weights and so expresses more. In this plainest
    form the weights are the very sum that linear attention keeps; the gain must come from the other parts.""",
    run=run,
    chapter=12,
    deterministic=True,
)
