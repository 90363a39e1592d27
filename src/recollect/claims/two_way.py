"""Whether any number in an output depends on both sides at once: the Jacobian of one layer and of a stack of two."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..core.chart import Chart, Line, Map
from ..layers import encoder, lstm, rnn
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import slopes
from .laboratory.figures import limits

DIM, STEPS, SEED = 6, 7, 0


def reader(config: encoder.BidirectionalConfig | encoder.AttentionConfig) -> Callable[[Tensor], Tensor]:
    built = config.build().double()
    return lambda x: built(x).values


def both_ways(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[float, Tensor]:
    """The share of the numbers at middle positions that depend on inputs before and after them; and the grid itself."""
    reach = slopes(function, x).abs().amax(dim=-1) > 0  # T W T
    middle = range(1, x.shape[1] - 1)
    mixed = torch.stack([reach[t, :, :t].any(dim=-1) & reach[t, :, t + 1 :].any(dim=-1) for t in middle])
    return float(mixed.double().mean()), reach[x.shape[1] // 2].double()


def judge(one: dict[str, float], two: dict[str, float], attention: float) -> Verdict:
    """Shares of numbers that depend on both sides: bidirectional layers alone, two of them stacked, attention."""
    if max(one.values()) > 0 or attention < 1:
        return Verdict.FAILS
    return Verdict.LIMITS if min(two.values()) == 1 else Verdict.HOLDS


def run(effort: Effort) -> Found:
    torch.manual_seed(SEED)
    x = torch.randn(1, STEPS, DIM, dtype=torch.float64)
    cells = {"rnn": rnn.Config(dim=DIM, width=3), "lstm": lstm.Config(dim=DIM, width=3)}
    one, two, grids = {}, {}, {}
    for name, cell in cells.items():
        for depth, found in ((1, one), (2, two)):
            config = encoder.BidirectionalConfig(dim=DIM, layer=cell, num_layers=depth)
            found[name], grids[f"bidirectional {name}, {depth} deep"] = both_ways(reader(config), x)
    attention, grids["attention"] = both_ways(reader(encoder.AttentionConfig(dim=DIM)), x)
    verdict = judge(one, two, attention)
    return Found(
        verdict=verdict,
        summary=(
            f"One bidirectional layer: {max(one.values()):.0%} of its numbers depend on both sides of their position. "
            f"One layer of attention: {attention:.0%}. Two bidirectional layers: "
            f"{min(two.values()):.0%}{limits(verdict, '; so the statement is about a single layer')}."
        ),
        figures={"one_layer": one, "two_layers": two, "attention": attention},
        charts=[
            *(
                Map(
                    f"What position {STEPS // 2 + 1} depends on: {name}",
                    "input position",
                    "number of the output",
                    grids[name].tolist(),
                )
                for name in ("bidirectional rnn, 1 deep", "bidirectional rnn, 2 deep", "attention")
            ),
            Chart(
                "Numbers that depend on both sides",
                "layer",
                "share",
                [
                    Line(
                        "share",
                        ["bidirectional, 1 deep", "bidirectional, 2 deep", "attention"],
                        [max(one.values()), min(two.values()), attention],
                    )
                ],
                kind="bars",
            ),
        ],
    )


CLAIM = Claim(
    statement="A bidirectional RNN is two one-way models side by side, while attention mixes both ways at once.",
    sources=("Schuster & Paliwal 1997", "Devlin et al. 2019", "the overview note: 「其本质只是两个单向建模的叠加」"),
    experiment="Which inputs each single number of an output depends on, by Jacobian.",
    decided=f"""{STEPS} steps, float64. One bidirectional layer: no number depends on both sides; one layer of
    attention: all do. If in a stack of two bidirectional layers all numbers depend on both sides, the claim holds for
    one layer only: within limits.""",
    note="""The overview note describes, under Transformers, states read left to right and right to left and joined:
    that is the bidirectional RNN. Attention has no direction to join.""",
    run=run,
    chapter=9,
    deterministic=True,
)
