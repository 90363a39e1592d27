"""Which part of a Transformer block lets one position reach another: the Jacobian of each, position by position."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from ..core.chart import Chart, Line, Map
from ..layers import attention, combine, mlp, norm, transformer
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import influence, outputs

DIM, STEPS, HEADS, SEED = 8, 6, 2, 0


def parts() -> dict[str, Callable[[Tensor], Tensor]]:
    """Every part but attention, and the whole block with attention's output cut off."""
    found: dict[str, Any] = {f"{kind} norm": norm.Config(dim=DIM, kind=kind).build() for kind in ("layer", "rms")}
    found |= {
        f"feed-forward, {name}": mlp.Config(dim=DIM, activation=name).build() for name in ("relu", "gelu", "swiglu")
    }
    for order in ("pre", "post"):
        found[f"block without attention, {order}-norm"] = block(order, silent=True)
    return {name: outputs(layer.double()) for name, layer in found.items()}


def block(order: Literal["pre", "post"], *, silent: bool = False) -> combine.Stack:
    built = transformer.Config(dim=DIM, heads=HEADS, order=order).build().double()
    if silent:
        with torch.no_grad():
            for parameter in built.layers[0].layer.heads.out.parameters():
                parameter.zero_()
    return built


def across(grid: Tensor) -> float:
    """The largest influence of one position on another."""
    return float((grid - grid.diagonal().diag()).max())


def judge(others: Mapping[str, float], through: float) -> Verdict:
    """`others`: the largest influence across positions without attention; `through`: the least one with it."""
    if through <= 0 or max(others.values()) > 0:
        return Verdict.FAILS
    return Verdict.HOLDS


def run(effort: Effort) -> Found:
    torch.manual_seed(SEED)
    x = torch.randn(1, STEPS, DIM, dtype=torch.float64)
    others = {name: across(influence(function, x)) for name, function in parts().items()}
    look = attention.Config(dim=DIM, heads=HEADS).build().double()
    whole = influence(outputs(block("pre")), x)
    past = torch.ones(STEPS, STEPS, dtype=torch.bool).tril(-1)
    through = min(float(influence(outputs(look), x)[past].min()), float(whole[past].min()))
    batch = norm.Config(dim=DIM, kind="batch").build().double().train()
    leak = across(influence(outputs(batch), x))
    return Found(
        verdict=judge(others, through),
        summary=(
            f"Norms, feed-forward networks and the whole block with attention cut off: influence across positions "
            f"exactly {max(others.values()):g}. Through attention every earlier position is felt (least "
            f"{through:.1e}). The exception to know: BatchNorm in training mixes positions too ({leak:.2f})."
        ),
        figures={"across": others, "attention_least": through, "batch_norm_in_training": leak},
        charts=[
            Map("Influence inside a Transformer block", "input position", "output position", whole.tolist()),
            Chart(
                "The largest influence of one position on another",
                "part",
                "‖∂y_t/∂x_s‖, t ≠ s",
                [
                    Line(
                        "largest",
                        [*others, "attention", "batch norm, training"],
                        [*others.values(), across(influence(outputs(look), x)), leak],
                    )
                ],
                kind="bars",
            ),
        ],
    )


CLAIM = Claim(
    statement="In a Transformer block only attention moves information between positions.",
    sources=(
        "Vaswani et al. 2017",
        "the self-attention note: 「唯一在向量之间传播信息的操作」",
        "the lecture note: 「向量之间的唯一交互发生在自注意力层内部」",
    ),
    experiment="∂y_t/∂x_s of every part of the block: zero for t ≠ s in all but attention.",
    decided=f"""{STEPS} positions of width {DIM}, float64: norms (layer, rms), feed-forward networks (relu, gelu,
    swiglu) and the block with attention's output weights at 0 must be exactly 0 across positions; attention above 0 at
    each earlier position.""",
    note="""The lecture note speaks of a residual connection that does the normalising: they are two parts, and neither
    mixes.""",
    run=run,
    chapter=10,
    deterministic=True,
)
